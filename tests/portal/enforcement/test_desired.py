"""The pure half: what is wanted of a host, and what its answer means."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.bookings.states import Status
from portal.enforcement import desired, verdict
from portal.enforcement.desired import Call, Fact, Lease, Seed, Tile
from portal.enforcement.report import parse
from tests import make
from tests.fakes import FakeHost

SCHEMAS = Path(__file__).parents[3] / "docs/schemas"
NOW = datetime(2027, 3, 1, 9, 0, tzinfo=UTC)
GPU = UUID(int=1)
HOUR = timedelta(hours=1)


def tile(number: int, start: float, end: float, **changes: Any) -> Tile:
    made = Tile(
        uuid=UUID(int=1000 + number),
        reservation=UUID(int=100 + number),
        gpu=GPU,
        address="0000:3b:00.0",
        iommu_key="sim-t4:3b",
        vgpu_type="T4-4Q",
        regime="equal",
        size_group="4G",
        cell=(0, 1),
        handle=0,
        start=NOW + start * HOUR,
        end=NOW + end * HOUR,
    )
    return replace(made, **changes)


def lease(number: int, status: Status, *tiles: Tile, **changes: Any) -> Lease:
    made = Lease(
        reservation=UUID(int=100 + number),
        machine=UUID(int=200 + number),
        owner=1,
        status=status,
        start=tiles[0].start,
        end=tiles[0].end,
        force_at=None,
        ordered_stop=False,
        was_up=True,
        disposable=False,
        hostname="ada-demo",
        vcpus=1,
        memory_mib=256,
        disk_gib=4,
        image="demo",
        grace=timedelta(seconds=60),
        seed=Seed("ada", "user", "$6$x", ("ssh-ed25519 AAAA ada",), "2027-03-01 09:00-10:00 UTC"),
        tiles=tiles,
    )
    return replace(made, **changes)


CALL = Call(UUID(int=9), "sim-t4", 42, timedelta(seconds=60), timedelta(seconds=900))


def test_the_document(golden: Callable[[str, str], None]) -> None:
    tiles = [tile(1, 0, 1), tile(2, 1, 2), tile(3, -1, 0, cell=(1, 2), handle=1)]
    running = lease(1, Status.ACTIVE, tiles[0])
    ending = lease(3, Status.ENDING, tiles[2], disposable=True, ordered_stop=True, force_at=NOW + timedelta(minutes=1))
    document = desired.document(CALL, [running, ending], tiles, NOW)
    jsonschema.validate(document, json.loads((SCHEMAS / "desired.schema.json").read_text()))
    golden(json.dumps(document, indent=1) + "\n", "enforcement/desired.json")


@pytest.mark.parametrize(
    ("change", "clash"),
    [
        ({}, True),
        ({"cell": (1, 2), "handle": 1}, False),
        ({"cell": (1, 2), "handle": 0}, True),
        ({"cell": (1, 2), "handle": 1, "size_group": "8G"}, True),
        ({"cell": (1, 2), "handle": 1, "regime": "mixed"}, True),
        ({"gpu": UUID(int=2)}, False),
        ({"gpu": UUID(int=2), "regime": "whole", "cell": None}, True),  # same IOMMU group
        ({"gpu": UUID(int=2), "regime": "whole", "cell": None, "iommu_key": "sim-t4:5e"}, False),
    ],
)
def test_what_cannot_stand_side_by_side(change: dict[str, Any], clash: bool) -> None:
    one, other = tile(1, 0, 1), tile(2, 0, 1, **change)
    assert desired.conflict(one, other) is clash
    assert desired.conflict(other, one) is clash


def test_a_share_is_promised_to_the_next_who_needs_its_place() -> None:
    mine = tile(1, 0, 1)
    others = [tile(2, 3, 4), tile(3, 2, 3), tile(4, 1, 2, cell=(1, 2), handle=1)]
    assert desired.promised(lease(1, Status.ACTIVE, mine), [mine, *others]) == NOW + 2 * HOUR
    assert desired.promised(lease(1, Status.ACTIVE, mine), [mine]) is None


@pytest.mark.parametrize(
    ("fact", "waits"),
    [
        (Fact(GPU, None, "quarantine", "", None), True),
        (Fact(GPU, UUID(int=5), "foreign", "8G", None), True),
        (Fact(GPU, UUID(int=5), "foreign", "4G", 3), False),
        (Fact(GPU, UUID(int=5), "stuck", "4G", 0), True),
        (Fact(GPU, UUID(int=1001), "stuck", "4G", 0), False),  # its own vGPU, left by a killed start
        (Fact(UUID(int=2), None, "quarantine", "", None), False),
        (Fact(GPU, None, "foreign", "", 3), False),  # a domain that names another handle
        (Fact(GPU, None, "foreign", "", 0), True),
        (Fact(GPU, None, "foreign", "", None, "mig", (0, 4)), True),  # somebody's GPU instance
    ],
)
def test_what_was_observed_may_be_in_the_way(fact: Fact, waits: bool) -> None:
    assert bool(desired.waits_for(lease(1, Status.BOOKED, tile(1, 0, 1)), [], [fact])) is waits


@pytest.mark.parametrize(
    ("fact", "waits"),
    [
        (Fact(GPU, None, "foreign", "A100-1-5C", 5, "mig", (2, 3), (0, 1)), False),
        (Fact(GPU, None, "foreign", "A100-1-5C", 5, "mig", (0, 1), (0, 1)), True),
        (Fact(GPU, None, "foreign", "", None, "mig", (0, 2)), True),  # a GPU instance without a share
        (Fact(GPU, None, "foreign", "A100-1-5C", 5, "mig"), True),  # nobody could tell its cell
        (Fact(GPU, None, "foreign", "A100-1-5C", 5, "mig", (0, 1), (1, 2)), False),  # beside it in one instance
        (Fact(GPU, None, "foreign", "A100-1-6C", 5, "mig", (0, 1), (1, 2)), True),
        (Fact(GPU, None, "foreign", "8G", 5, "equal"), True),
        (Fact(GPU, None, "foreign", "", 5, "equal"), False),
    ],
)
def test_where_shares_have_places_only_what_is_in_the_same_one_is_in_the_way(fact: Fact, waits: bool) -> None:
    mine = tile(1, 0, 1, regime="mig", vgpu_type="A100-1-5C", size_group="A100-1-5C")
    assert bool(desired.waits_for(lease(1, Status.BOOKED, mine), [], [fact])) is waits


@given(st.integers(-7200, 7200), st.sampled_from(sorted(Status)))
def test_a_machine_that_was_started_is_wanted_until_its_end(seconds: int, status: Status) -> None:
    """Before its start, too: a clock that was set back must not stop what runs."""
    now = NOW + timedelta(seconds=seconds)
    wanted = desired.is_wanted(lease(1, status, tile(1, 0, 1)), now)
    assert wanted is (status in ("starting", "active") and seconds < 3600)


LEFT_VGPU = {
    "uuid": str(UUID(int=1001)),
    "gpu": "0000:3b:00.0",
    "type": "T4-4Q",
    "size_group": "4G",
    "handle": None,
    "machine": None,
    "ours": None,
    "licence": None,
    "device": str(UUID(int=1001)),
    "regime": "equal",
    "cell": None,
    "slot": None,
}


def report_with(**changes: Any) -> dict[str, Any]:
    host = FakeHost("sim-t4")
    empty = {"portal": str(CALL.portal), "generation": 42}
    return host.report(empty, []) | changes


def test_anything_unknown_keeps_everything() -> None:
    ending = lease(1, Status.ENDING, tile(1, 0, 1))
    assert verdict.judge(parse(report_with()), [ending])[0].gone
    gap = {"what": "free instances", "reason": "cannot read"}
    seen = verdict.judge(parse(report_with(unknown=[gap])), [ending])[0]
    assert not seen.gone
    assert "cannot read" in seen.error


def test_what_a_card_cannot_tell_of_its_offers_keeps_nobody_from_ending() -> None:
    """A counter that can never be read would otherwise hold the last booking for ever."""
    ending = lease(1, Status.ENDING, tile(1, 0, 1))
    gap = {"what": "free instances", "reason": "cannot read"}
    odd = report_with(gpus=[make.gpu_facts() | {"unknown": {gap["what"]: gap["reason"]}}])
    assert verdict.judge(parse(odd), [ending])[0].gone


@pytest.mark.parametrize(
    "left",
    [
        {"vgpus": [LEFT_VGPU]},
        {"vgpus": [LEFT_VGPU | {"uuid": str(UUID(int=5)), "machine": str(UUID(int=201))}]},
        {"disks": [{"machine": str(UUID(int=201)), "mib": 1, "seed": False, "present": True}]},
    ],
)
def test_what_is_left_keeps_the_share(left: dict[str, Any]) -> None:
    ending = lease(1, Status.ENDING, tile(1, 0, 1), disposable=True)
    assert not verdict.judge(parse(report_with(**left)), [ending])[0].gone


@pytest.mark.parametrize(
    "broken",
    [
        {"observed_at": "2027-03-01T09:00:00"},
        {"observed_at": 1804},
        {"machines": None},
        {"machines": [{"machine": "x"}]},
        {"generation": "many"},
        {"vgpus": {}},
        {"unknown": ["?"]},
    ],
)
def test_a_report_that_does_not_fit_is_one_sentence(broken: dict[str, Any]) -> None:
    if broken == {"vgpus": {}}:
        assert parse(report_with(**broken)).vgpus == ()
        return
    with pytest.raises(ValueError, match="does not fit"):
        parse(report_with(**broken))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_no_document_breaks_the_parser(value: Any) -> None:
    for key in report_with():
        try:
            parse(report_with(**{key: value}))
        except ValueError:
            continue


def test_the_fakes_speak_the_schema() -> None:
    jsonschema.validate(report_with(), json.loads((SCHEMAS / "report.schema.json").read_text()))
