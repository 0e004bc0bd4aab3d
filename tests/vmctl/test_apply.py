"""What `apply` does with cards: after a reboot, when a change fails or waits, when a driver refuses or keeps one."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.vmctl import folder
from tests.vmctl.build import NOW, Json, document, machine, name_uuid, place, settings, vgpu
from tests.vmctl.folder import FolderHypervisor, simulated_site
from vmctl import apply as applying
from vmctl import observe
from vmctl.ledger import Ledger
from vmctl.plan import desired
from vmctl.simulate import faults, reboot
from vmctl.site import Site

L40S, SECOND, H100, A100 = "0000:26:00.0", "0000:a6:00.0", "0000:4e:00.0", "0000:41:00.0"
FIXED = {"policy": "fixed_share", "time_slice_us": None}


@dataclass(frozen=True)
class Place:
    """A simulated host with a libvirt of files."""

    base: Path
    layout: str

    @property
    def site(self) -> Site:
        return simulated_site(self.base, self.layout)

    @property
    def root(self) -> Path:
        return self.site.host.root

    def apply(self, *machines: Json, **other: Any) -> Json:
        text = json.dumps(document(*machines, stop_grace_seconds=0, **other))
        return applying.apply(self.site, desired.parse(text), NOW)

    def plan(self, *machines: Json, **other: Any) -> Json:
        return applying.plan(self.site, desired.parse(json.dumps(document(*machines, **other))), NOW)

    def running(self) -> set[str]:
        return {domain.uuid for domain in FolderHypervisor(self.base / "domains").domains()}

    def boot_anew(self) -> None:
        """As a power cut: no domain is left, and whatever the kernel and the driver do not keep."""
        reboot(self.root)
        for file in (self.base / "domains").glob("*.xml"):
            file.unlink()

    def goes_wrong(self, **fault: Any) -> None:
        faults.plant(self.root, [fault])

    def is_well(self) -> None:
        faults.clear(self.root)


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with folder.place(monkeypatch) as path:
        yield path


def on(gpu: str, name: str = "a", kind: str = "L40S-12Q", **other: Any) -> Json:
    return machine(name, vgpus=[vgpu(name, gpu=gpu, type=kind, **other)])


def outcomes(report: Json) -> list[tuple[str, str]]:
    return [(step["kind"], _outcome(step)) for step in report["steps"]]


def _outcome(step: Json) -> str:
    if step["error"] is not None:
        return str(step["error"]["code"])
    return "done" if step["done"] else "waits"


def words(report: Json, kind: str) -> str:
    """What is said of the steps of one kind: of what goes wrong what it is, else what is done."""
    steps = [step for step in report["steps"] if step["kind"] == kind]
    return " ".join(step["subject"] if step["error"] is None else step["error"]["what"] for step in steps)


@pytest.mark.field("A05")
@pytest.mark.field("A19")
def test_after_a_reboot_modes_functions_and_instances_come_back_before_any_machine_starts(base: Path) -> None:
    host, cards = Place(base, "h100"), [settings(H100, regime="mig", scheduler=FIXED)]
    wish = on(H100, kind="H100-3-40C", regime="mig", cell=[4, 8], handle=2)
    host.apply(wish, cards=cards)
    assert host.apply(wish, cards=cards)["steps"] == []
    host.boot_anew()
    (gpu,) = [gpu for gpu in host.plan(cards=cards)["gpus"] if gpu["address"] == H100]
    assert (gpu["vfs"]["enabled"], gpu["mig"]["current"]) == (0, False)
    steps = outcomes(host.apply(wish, cards=cards))
    assert steps == [(kind, "done") for kind in ("card", "card", "card", "provide", "disk", "start")]
    assert host.apply(wish, cards=cards)["steps"] == []
    assert host.running() == {wish["machine"]}


@pytest.mark.field("A05")
@pytest.mark.field("A10")
def test_a_driver_that_is_not_up_yet_holds_the_start_and_does_not_fail_it(base: Path) -> None:
    host = Place(base, "l40s")
    host.apply(on(L40S))
    host.boot_anew()
    host.goes_wrong(match="sriov-manage", output="Cannot obtain unbindLock for it\n", status=1, effect=False)
    report = host.apply(on(L40S))
    assert [kind for kind, _ in outcomes(report)] == ["card", "provide", "disk", "start"]
    assert all(step["error"]["retry"] for step in report["steps"])
    assert "GPU 0000:26:00.0 is not ready" in words(report, "provide")
    assert host.running() == set()
    host.is_well()
    assert {said for _, said in outcomes(host.apply(on(L40S)))} == {"done"}
    assert host.apply(on(L40S))["steps"] == []


@pytest.mark.field("A20")
def test_a_change_that_fails_keeps_the_machines_of_its_card_and_nobody_elses(base: Path) -> None:
    host = Place(base, "l40s")
    wanted = (on(L40S, "a"), on(SECOND, "b"))
    cards = [settings(gpu, scheduler=FIXED) for gpu in (L40S, SECOND)]
    host.goes_wrong(match=f"set-scheduler-state.*{L40S}", output="Done.\n", effect=False)
    report = host.apply(*wanted, cards=cards)
    assert host.running() == {wanted[1]["machine"]}
    card, other = [step for step in report["steps"] if step["kind"] == "card"]
    assert (card["done"], other["done"]) == (False, True)
    assert "scheduler of GPU 0000:26:00.0 was to be fixed_share" in card["error"]["what"]
    assert "GPU 0000:26:00.0 is not ready (scheduler of GPU" in words(report, "provide")
    host.is_well()
    assert {said for _, said in outcomes(host.apply(*wanted, cards=cards))} == {"done"}
    assert len(host.running()) == 2


def test_a_plan_shows_what_would_be_done_and_what_waits_and_touches_nothing(base: Path) -> None:
    host = Place(base, "l40s")
    host.apply(on(L40S))
    cards = [settings(L40S, regime="mixed"), settings(SECOND, regime="mixed")]
    report = host.plan(on(L40S), cards=cards)
    assert outcomes(report) == [("wait", "waits"), ("card", "waits")]
    assert f"held by ada-a-{on(L40S)['machine'][:8]} (running): L40S-12Q" in words(report, "wait")
    assert words(report, "card") == f"GPU {SECOND}: turn mixed size on"
    assert outcomes(host.apply(on(L40S), cards=cards)) == [("wait", "waits"), ("card", "done")]
    assert outcomes(host.plan(on(L40S), cards=cards)) == [("wait", "waits")]
    assert outcomes(host.apply(cards=cards))[-1] == ("card", "done")


@pytest.mark.field("A19")
def test_a_card_that_needs_a_reset_takes_nobody_until_the_host_was_booted(base: Path) -> None:
    host, cards = Place(base, "a100-mig"), [settings(A100, regime="equal")]
    wish = on(A100, kind="A100D-10C")
    report = host.apply(wish, cards=cards)
    assert [kind for kind, said in outcomes(report) if said == "done"] == ["card", "card"]
    assert "reboot the host" in next(step["subject"] for step in report["steps"] if step["kind"] == "wait")
    assert "reset of the card or a reboot" in words(report, "provide")
    assert host.running() == set()
    report = host.apply(wish, cards=cards)
    assert outcomes(report) == [("wait", "waits"), ("start", "later")]
    assert "reset of the card or a reboot" in words(report, "start")
    (gpu,) = [gpu for gpu in report["gpus"] if gpu["address"] == A100]
    assert gpu["mig"] == {"current": True, "pending": False}
    assert gpu["types"] == []
    host.boot_anew()
    assert {said for _, said in outcomes(host.apply(wish, cards=cards))} == {"done"}
    assert host.running() == {wish["machine"]}


@pytest.mark.field("A08")
def test_a_refusal_by_the_driver_leads_to_the_next_place_or_to_a_clear_no(base: Path) -> None:
    host = Place(base, "l40s")
    wish = on(L40S, alternatives=[place(gpu=SECOND, handle=3)])
    host.goes_wrong(match="current_vgpu_type", error="EIO")
    report = host.apply(wish)
    assert outcomes(report) == [("provide", "no_capacity"), ("disk", "later"), ("start", "later")]
    assert (report["vgpus"], list(Ledger(host.site.host.state_dir))) == ([], [])
    host.goes_wrong(match="0000:26:.*current_vgpu_type", error="EIO")
    assert {said for _, said in outcomes(host.apply(wish))} == {"done"}
    (share,) = host.apply(wish)["vgpus"]
    assert (share["gpu"], share["machine"], share["ours"]) == (SECOND, wish["machine"], True)


@pytest.mark.field("A13")
def test_a_share_that_does_not_go_is_kept_shown_and_tried_again(base: Path) -> None:
    host, wish = Place(base, "l40s"), on(L40S)
    host.apply(wish)
    host.goes_wrong(match="current_vgpu_type", error="EBUSY")
    report = host.apply()
    assert ("release", "busy") in outcomes(report) or ("release", "failed") in outcomes(report)
    (share,) = report["vgpus"]
    assert (share["uuid"], share["machine"], share["ours"]) == (name_uuid("vgpu a"), None, True)
    assert name_uuid("vgpu a") in Ledger(host.site.host.state_dir)
    host.is_well()
    assert outcomes(host.apply()) == [("release", "done"), ("clear", "done")]
    assert host.apply()["vgpus"] == []
    assert list(Ledger(host.site.host.state_dir)) == []


@pytest.mark.field("A14")
def test_a_late_end_of_one_booking_leaves_the_function_of_the_next_alone(base: Path) -> None:
    host, first = Place(base, "l40s"), on(L40S, "a")
    host.apply(first)
    (held,) = host.apply(first)["vgpus"]
    host.apply()
    second = on(L40S, "b", handle=held["handle"])
    host.apply(second)
    over = first | {"order": "stop", "force_at": NOW.isoformat()}
    for _ in range(2):
        (share,) = host.apply(over, second)["vgpus"]
        assert (share["uuid"], share["device"], share["machine"]) == (
            name_uuid("vgpu b"),
            held["device"],
            second["machine"],
        )
    assert host.running() == {second["machine"]}


@pytest.mark.field("A17")
def test_a_machine_whose_share_cannot_be_made_never_starts_without_it(base: Path) -> None:
    host = Place(base, "l40s")
    host.goes_wrong(match="current_vgpu_type", error="EINVAL")
    host.apply(on(L40S))
    assert host.running() == set()


@pytest.mark.field("C13")
def test_a_foreign_domain_of_our_name_keeps_the_start_back_and_stays_untouched(base: Path) -> None:
    host, wish = Place(base, "l40s"), on(L40S)
    foreign = host.base / "domains" / f"{name_uuid('theirs')}.xml"
    foreign.write_text(f"<domain><name>ada-a-{wish['machine'][:8]}</name><uuid>{name_uuid('theirs')}</uuid></domain>")
    before = foreign.read_text()
    assert outcomes(host.apply(wish)) == [("start", "not_ours")]
    assert outcomes(host.apply()) == []
    assert foreign.read_text() == before


def test_every_change_of_a_card_is_in_the_journal_with_what_was_read_back(base: Path) -> None:
    host = Place(base, "h100")
    host.apply(cards=[settings(H100, regime="mig")])
    lines = [json.loads(line) for line in (host.site.host.state_dir / "journal.jsonl").read_text().splitlines()]
    ran = [" ".join(line["ran"]) for line in lines if "ran" in line]
    assert f"nvidia-smi -i {H100} -mig 1" in ran
    manage = [line for line in lines if "sriov-manage" in " ".join(line.get("ran", ()))]
    assert [line["found"] for line in manage] == ["0", "20"]
    queries = [line for line in lines if line.get("ran", [])[-1:] == ["-q"]]
    assert queries
    assert all(line["outcome"] == 0 for line in queries)


def test_a_stopped_domain_that_names_a_function_is_a_holder_of_its_card(base: Path) -> None:
    host = Place(base, "l40s")
    function = (host.site.host.pci(L40S) / "virtfn2").resolve().name
    bus, rest = function.split(":")[1:]
    slot, number = rest.split(".")
    address = f"<address domain='0x0000' bus='0x{bus}' slot='0x{slot}' function='0x{number}'/>"
    (host.base / "domains" / f"{name_uuid('old')}.off").write_text(
        f"<domain><name>old-desktop</name><uuid>{name_uuid('old')}</uuid><devices><hostdev mode='subsystem' type='pci'>"
        f"<source>{address}</source></hostdev></devices></domain>"
    )
    report = host.apply(cards=[settings(L40S, regime="mixed")])
    (claim,) = report["vgpus"]
    assert (claim["gpu"], claim["device"], claim["handle"], claim["type"]) == (L40S, function, 2, "")
    assert (claim["domain"], claim["state"], claim["ours"], claim["uuid"]) == ("old-desktop", "off", False, None)
    assert "old-desktop (off)" in words(report, "wait")
    cards, whose, unknown = observe.cards_and_claims(host.site)
    assert [whose.claimant(share) for gpu in cards for share in gpu.holders] != [None]
    assert unknown == ()


def test_on_a_full_disk_machines_end_and_nothing_else_is_begun(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(base, "l40s")
    assert {said for _, said in outcomes(place.apply(on(L40S, "a")))} == {"done"}

    def full(path: Path, text: str, mode: int = 0o600) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    kept = {file.name: file.read_bytes() for file in (base / "state").iterdir() if file.suffix == ".json"}
    with monkeypatch.context() as patch:
        patch.setattr("vmctl.state.write_atomically", full)
        patch.setattr("vmctl.ledger.write_atomically", full)
        report = place.apply(on(SECOND, "b"), generation=99)
    errors = {step["kind"]: step["error"] for step in report["steps"]}
    assert errors["force_stop"] is None
    assert "No space left" in errors["remember"]["what"]
    assert {errors[kind]["code"] for kind in ("release", "provide", "start")} == {"later"}
    assert report["generation"] != 99
    assert place.running() == set()
    assert {file.name: file.read_bytes() for file in (base / "state").iterdir() if file.suffix == ".json"} == kept
    assert {said for _, said in outcomes(place.apply(on(SECOND, "b"), generation=99))} == {"done"}
    assert len(place.running()) == 1
