"""The desired state is read once, at the edge: right values come through, wrong ones are named."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vmctl.build import Json, document, machine, place, settings, vgpu
from vmctl.card import CardSettings, Policy, Regime, Scheduler
from vmctl.errors import VmctlError
from vmctl.model import Firmware, Order, Place
from vmctl.plan import desired


def refusal(value: object) -> VmctlError:
    with pytest.raises(VmctlError) as caught:
        desired.parse(value if isinstance(value, str) else json.dumps(value))
    assert caught.value.code == "bad_input"
    assert caught.value.exit_code == 2
    assert caught.value.remedy
    return caught.value


def test_a_whole_state_comes_through() -> None:
    text = json.dumps(document(machine("a", vgpus=[vgpu("a"), vgpu("b", regime="whole", cell=None, handle=None)])))
    state = desired.parse(text)
    first, second = state.machines[0].vgpus
    assert (state.generation, state.machines[0].order) == (1, Order.RUN)
    assert (first.cell, first.handle, first.regime) == ((0, 1), 0, Regime.EQUAL)
    assert (second.cell, second.handle, second.regime) == (None, None, Regime.WHOLE)
    assert state.machines[0].name.startswith("ada-a-")


def test_a_machine_that_only_stops_needs_no_other_form() -> None:
    assert desired.parse(json.dumps(document(machine(order="stop")))).machines[0].order is Order.STOP


def test_where_a_share_may_be_made_comes_through() -> None:
    other = place(gpu="0000:af:00.0", cell=[4, 8], handle=None, slot=[1, 2])
    wanted = vgpu("a", regime="mig", cell=[0, 4], slot=[0, 2], alternatives=[other])
    (found,) = desired.parse(json.dumps(document(machine(vgpus=[wanted])))).machines[0].vgpus
    assert (found.cell, found.slot) == ((0, 4), (0, 2))
    assert found.alternatives == (Place("0000:af:00.0", (4, 8), None, (1, 2)),)
    assert [(each.gpu, each.slot) for each in found.places] == [("0000:3b:00.0", (0, 2)), ("0000:af:00.0", (1, 2))]


def test_how_cards_should_be_set_comes_through() -> None:
    scheduler = {"policy": "fixed_share", "time_slice_us": 3000}
    set_so = settings(regime="equal", scheduler=scheduler, ecc=True, types=["T4-4Q"])
    others = [settings("0000:af:00.0"), settings("0000:b0:00.0", regime="vf", vfs=4), settings("0000:b1:00.0", vfs=4)]
    cards = desired.parse(json.dumps(document(cards=[set_so, *others]))).cards
    assert cards == (
        CardSettings("0000:3b:00.0", Regime.EQUAL, None, Scheduler(Policy.FIXED_SHARE, 3000), True, ("T4-4Q",)),
        CardSettings("0000:af:00.0"),
        CardSettings("0000:b0:00.0", Regime.VF, 4),
        CardSettings("0000:b1:00.0", None, 4),
    )


def test_what_an_image_asks_for_comes_through() -> None:
    asked = machine(firmware="uefi-secure", tpm=True)
    asked["seed"]["licence"] = 2
    found = desired.parse(json.dumps(document(asked))).machines[0]
    assert (found.firmware, found.tpm, found.seed.licence) == (Firmware.SECURE, True, 2)


FIXED = {"policy": "fixed_share", "time_slice_us": None}
WRONG = [
    ({"generation": -1}, "generation"),
    ({"generation": True}, "generation"),
    ({"generation": 1.0}, "generation"),
    ({"portal": "x"}, "portal"),
    ({"host": "-oProxyCommand=x"}, "host"),
    ({"host": "a b"}, "host"),
    ({"schema": 2}, "schema"),
    ({"machines": {}}, "machines"),
    ({"confirmed_stops": ["x"]}, "confirmed_stops"),
    ({"purge": None}, "purge"),
    ({"surprise": 1}, "surprise"),
    ({"stop_grace_seconds": 10**9}, "stop_grace_seconds"),
    ({"cards": None}, "cards"),
    ({"cards": [settings(gpu="3b:00.0")]}, "cards[0].gpu"),
    ({"cards": [settings(regime="shared")]}, "cards[0].regime"),
    ({"cards": [settings(vfs=-1)]}, "cards[0].vfs"),
    ({"cards": [settings(ecc="on")]}, "cards[0].ecc"),
    ({"cards": [settings(types="T4-4Q")]}, "cards[0].types"),
    ({"cards": [settings(types=["T4-4Q", "../x"])]}, "cards[0].types.1"),
    ({"cards": [settings(surprise=1)]}, "cards[0].surprise"),
    ({"cards": [settings(regime="mixed", scheduler=FIXED)]}, "cards[0].scheduler"),
    ({"cards": [settings(regime="mig", scheduler=FIXED | {"time_slice_us": 2000})]}, "cards[0].scheduler"),
    ({"cards": [settings(regime="whole", scheduler=FIXED | {"time_slice_us": 2000})]}, "cards[0].scheduler"),
    ({"cards": [settings(regime="equal", vfs=4)]}, "cards[0].vfs"),
    ({"cards": [settings(regime="mig", vfs=4)]}, "cards[0].vfs"),
    ({"cards": [settings(scheduler={"policy": "fair", "time_slice_us": None})]}, "cards[0].scheduler.policy"),
    ({"cards": [settings(scheduler={"policy": "fixed_share", "time_slice_us": 1})]}, "scheduler.time_slice_us"),
    ({"cards": [settings(scheduler={"policy": "best_effort", "time_slice_us": 2000})]}, "scheduler.time_slice_us"),
    ({"cards": [settings(scheduler={"policy": "best_effort"})]}, "cards[0].scheduler.time_slice_us is missing"),
]


@pytest.mark.parametrize(("change", "named"), WRONG)
def test_a_wrong_field_is_named(change: Json, named: str) -> None:
    assert named in refusal(document() | change).what


WRONG_MACHINE = [
    ({"end": "2026-12-01T10:00:00"}, "end"),
    ({"end": 1796121000}, "end"),
    ({"end": "1999-12-01T10:00:00+00:00"}, "end"),
    ({"end": "2020-12-01T10:00:00Z"}, "end"),
    ({"order": "explode"}, "order"),
    ({"image": "../../etc/passwd"}, "image"),
    ({"vcpus": "four"}, "vcpus"),
    ({"memory_mib": 0}, "memory_mib"),
    ({"vgpus": [vgpu("a", gpu="3b:00.0")]}, "vgpus[0].gpu"),
    ({"vgpus": [vgpu("a", cell=[2, 1])]}, "vgpus[0].cell"),
    ({"vgpus": [vgpu("a", cell=[0, True])]}, "vgpus[0].cell"),
    ({"vgpus": [vgpu("a", handle=-1)]}, "vgpus[0].handle"),
    ({"vgpus": [vgpu("a", slot=None)]}, "vgpus[0].slot"),
    ({"vgpus": [vgpu("a", cell=None)]}, "vgpus[0].cell"),
    ({"vgpus": [vgpu("a", regime="whole")]}, "vgpus[0].cell"),
    ({"vgpus": [vgpu("a", alternatives=[place(gpu="3b")])]}, "vgpus[0].alternatives[0].gpu"),
    ({"vgpus": [vgpu("a", alternatives=[place(cell=None)])]}, "vgpus[0].alternatives[0].cell"),
    ({"vgpus": [vgpu("a", alternatives=[place(type="T4-4Q")])]}, "vgpus[0].alternatives[0].type"),
    ({"firmware": "coreboot"}, "firmware"),
    ({"tpm": None}, "tpm"),
]


@pytest.mark.parametrize(("change", "named"), WRONG_MACHINE)
def test_a_wrong_field_of_a_machine_is_named_with_its_place(change: Json, named: str) -> None:
    assert f"machines[0].{named}" in refusal(document(machine() | change)).what


HOSTILE = [
    "a; touch /tmp/x",
    "$(id)",
    "`id`",
    "a\nb",
    "x" * 256,
    "<a/>",
    "a&b",
    "it's",
    'say "x"',
    "]]>",
    "-a",
    "Ä",
    "",
]


@pytest.mark.field("G08")
@pytest.mark.field("G09")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_is_no_host_name_is_refused(name: str) -> None:
    assert "hostname" in refusal(document(machine(hostname=name))).what


@pytest.mark.field("G11")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("owner", "ada\nruncmd: [x]"),
        ("period", "a\tb"),
        ("user", "root: x"),
        ("password_hash", "secret"),
        ("password_hash", "$6$a$b:x"),
        ("ssh_keys", ["ssh-ed25519 AAAA\nssh-rsa BBBB"]),
        ("ssh_keys", "ssh-ed25519 AAAA"),
        ("licence", 3),
        ("licence", True),
        ("licence", "1"),
    ],
)
def test_a_seed_value_that_could_add_lines_is_refused(field: str, value: Any) -> None:
    seed = machine()["seed"] | {field: value}
    assert f"seed.{field}" in refusal(document(machine(seed=seed))).what


def test_a_missing_field_is_named() -> None:
    whole = document(machine())
    del whole["machines"][0]["seed"]["user"]
    assert "machines[0].seed.user is missing" in refusal(whole).what


def test_a_machine_is_listed_once() -> None:
    assert "twice" in refusal(document(machine("a"), machine("a"))).what
    assert "twice" in refusal(document(machine("a", vgpus=[vgpu("x")]), machine("b", vgpus=[vgpu("x")]))).what
    assert "twice" in refusal(document(cards=[settings(), settings()])).what


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "1", '{"schema": NaN}', "[" * 100_000])
def test_no_json_object_is_a_sentence(text: str) -> None:
    refusal(text)


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


@given(st.data())
def test_any_value_in_any_field_is_taken_or_refused_and_never_a_crash(data: st.DataObject) -> None:
    whole = document(machine("a", vgpus=[vgpu("a", alternatives=[place()])]), cards=[settings()])
    first = whole["machines"][0]
    share = first["vgpus"][0]
    parts = [whole, first, first["seed"], share, share["alternatives"][0], whole["cards"][0]]
    part = data.draw(st.sampled_from(parts))
    part[data.draw(st.sampled_from(sorted(part)))] = data.draw(ANY_JSON)
    with suppress(VmctlError):
        desired.parse(json.dumps(whole))


@pytest.mark.parametrize(
    "seed",
    [
        {"password_hash": "hunter2-secret"},
        {"password_hash": ["hunter2-secret"]},
        {"ssh_keys": "hunter2-secret"},
        {"ssh_keys": ["hunter2-secret\n"]},
        {"licence": "hunter2-secret"},
        {"user": {"password": "hunter2-secret"}},
        {"surprise": "hunter2-secret"},
    ],
)
def test_a_secret_that_is_wrong_is_not_repeated(seed: Json) -> None:
    whole = machine() | {"seed": machine()["seed"] | seed}
    odd = (document() | {"machines": [[whole]]}, document(machine() | {"seed": str(seed)}), [document(whole)])
    for value in (document(whole), *odd):
        error = refusal(value)
        assert "hunter2" not in f"{error.what} {error.remedy}"


def test_a_number_of_many_digits_is_refused() -> None:
    text = json.dumps(document()).replace('"generation": 1,', f'"generation": {"9" * 5000},')
    assert "5000 digits" in refusal(text).what


def test_a_field_that_stands_twice_is_refused() -> None:
    text = json.dumps(document()).replace('"generation": 1,', '"generation": 1, "generation": 2,')
    assert '"generation" twice' in refusal(text).what
