"""Acceptance of a card: what it compares, what it refuses, and that nothing of it stays."""

from __future__ import annotations

import json
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.vmctl import folder
from tests.vmctl.build import HOST, NOW, Json, document, machine, name_uuid, vgpu
from tests.vmctl.folder import FolderHypervisor, simulated_site
from tests.vmctl.snapshot import differences, taken
from tests.vmctl.test_schemas import check
from vmctl import accept as accepting
from vmctl import apply as applying
from vmctl import gpus, guest_trial
from vmctl.card import VGPUType
from vmctl.errors import Code, VmctlError
from vmctl.expire import expire
from vmctl.guest_trial import GuestTrial
from vmctl.ledger import Ledger
from vmctl.model import WantedVGPU
from vmctl.observation import acceptance_machine
from vmctl.plan import desired
from vmctl.simulate.drawing import Drawing
from vmctl.site import Site
from vmctl.state import locked

L40S = "0000:26:00.0"
WHOLE_INVENTORY = gpus.inventory
FEW = ("L40S-12Q", "L40S-48Q")
TALE = """tessera: seed read
tessera-pci: 8086:29c0 1af4:1100 060000 0000:00:00.0
tessera-pci: 1af4:1050 1af4:1100 030000 0000:00:02.0
tessera: reservation x
"""


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with folder.place(monkeypatch) as base:
        monkeypatch.setattr(FolderHypervisor, "start", told_by_the_guest(FolderHypervisor.start))
        monkeypatch.setattr(guest_trial, "BOOT_SECONDS", 0.0)
        monkeypatch.setattr(gpus, "inventory", of_few_types(gpus.inventory))
        yield simulated_site(base, "l40s")


def of_few_types(inventory: Any) -> Any:
    """The same cards with two types each: trying all of them takes its time."""

    def short(host: Any) -> list[Any]:
        cards = (replace(gpu, types=tuple(kind for kind in gpu.types if kind.name in FEW)) for gpu in inventory(host))
        return list(cards)

    return short


def told_by_the_guest(start: Any) -> Any:
    """A guest that says at once what the small one says."""

    def starting(self: FolderHypervisor, xml: str) -> None:
        start(self, xml)
        log = ET.fromstring(xml).find("devices/serial/log") or ET.fromstring(xml).find("devices/serial/source")
        assert log is not None
        Path(log.get("file") or log.attrib["path"]).write_text(TALE)

    return starting


def accept(site: Site, rounds: int = 1, gpu: str = L40S) -> Json:
    return accepting.accept(site, gpu, rounds, "demo", lambda line: None)


def test_a_card_that_does_what_it_says_is_accepted_and_stays_as_it_was(site: Site) -> None:
    accept(site)
    before = taken(site.host.root)
    report = accept(site, rounds=2)
    check("accept", report)
    assert report["problems"] == []
    assert (report["accepted"], report["restored"], len(report["rounds"])) == (True, True, 2)
    first = {trial["type"]: trial for trial in report["rounds"][0]["types"]}
    assert (first["L40S-12Q"]["predicted"], first["L40S-12Q"]["created"]) == (4, 4)
    assert first["L40S-12Q"]["refusal"]
    assert all(trial["created"] > 0 for trial in first.values())
    guests = [each["guest"] for each in report["rounds"]]
    assert guests[0]["seen"] == ["1af4:1050"]
    assert guests[0]["type"] != guests[1]["type"]
    assert guests[0]["stand_in"] == "simulated vGPU"
    assert differences(before, taken(site.host.root)) == []
    assert not list(site.storage.glob("*/*"))
    assert FolderHypervisor(site.run_dir.parent / "domains").domains() == ()


def test_the_report_tells_nothing_of_this_place(site: Site) -> None:
    text = json.dumps(accept(site))
    assert HOST not in text
    uuids = [gpu.uuid for gpu in gpus.inventory(site.host)]
    assert not [uuid for uuid in uuids if uuid and uuid.removeprefix("GPU-") in text]


def test_a_card_in_use_is_refused_by_the_name_of_who_uses_it(site: Site) -> None:
    wish = machine("a", vgpus=[vgpu("a", gpu=L40S, type="L40S-12Q")])
    applying.apply(site, desired.parse(json.dumps(document(wish))), NOW)
    before = taken(site.host.root)
    with pytest.raises(VmctlError) as caught:
        accept(site)
    assert (caught.value.code, caught.value.exit_code) == (Code.BUSY, 1)
    assert f"ada-a-{wish['machine'][:8]} (running): L40S-12Q" in caught.value.what
    assert differences(before, taken(site.host.root)) == []
    assert accept(site, gpu="0000:a6:00.0")["accepted"]


def test_a_stopped_domain_that_claims_the_card_counts_as_its_user(site: Site) -> None:
    address = "<address domain='0x0000' bus='0x26' slot='0x00' function='0x0'/>"
    xml = f"""<domain><name>old-desktop</name><uuid>{name_uuid("old")}</uuid><devices>
    <hostdev mode='subsystem' type='pci' managed='yes'><source>{address}</source></hostdev></devices></domain>"""
    (site.run_dir.parent / "domains" / f"{name_uuid('old')}.off").write_text(xml)
    with pytest.raises(VmctlError, match=r"old-desktop \(off\)"):
        accept(site)


@pytest.mark.parametrize("gpu", ["nonsense", "0000:ff:00.0"])
def test_what_is_no_card_is_refused(site: Site, gpu: str) -> None:
    with pytest.raises(VmctlError) as caught:
        accept(site, gpu=gpu)
    assert caught.value.code == Code.BAD_INPUT


def test_a_card_that_takes_fewer_than_it_says_is_not_accepted(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    truth = gpus.inventory

    def boasting(host: Any) -> list[Any]:
        def more(kind: VGPUType) -> VGPUType:
            return replace(kind, free=(kind.free or 0) + 2) if kind.name == "L40S-48Q" else kind

        return [replace(gpu, types=tuple(map(more, gpu.types))) for gpu in truth(host)]

    monkeypatch.setattr(gpus, "inventory", boasting)
    report = accept(site)
    assert not report["accepted"]
    assert [problem.partition(":")[0] for problem in report["problems"]] == ["Round 1"]
    assert "L40S-48Q: 3 were predicted, 1 made" in report["problems"][0]


@pytest.mark.field("A13")
def test_what_a_killed_run_leaves_is_taken_away_by_the_next_one_and_by_the_next_apply(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept(site)
    before = taken(site.host.root)

    class Killed(BaseException):
        """As a power cut: nothing of ours runs after it."""

    def cut(*_: Any) -> Any:
        raise Killed

    def die(run: Any) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(guest_trial, "_said", cut)
            patched.setattr(accepting.Bench, "clear", lambda self: None)
            with pytest.raises(Killed):
                run()
        assert differences(before, taken(site.host.root)) != []

    die(lambda: accept(site))
    assert accept(site)["accepted"]
    assert differences(before, taken(site.host.root)) == []
    state = json.dumps(document(stop_grace_seconds=0))
    applying.apply(site, desired.parse(state), NOW)
    die(lambda: accept(site))
    applying.apply(site, desired.parse(state), NOW)
    assert differences(before, taken(site.host.root)) == []


def test_a_guest_must_see_the_card() -> None:
    wanted = GuestTrial("T4-4Q", 1.0, expected=("10de:1eb8",), seen=("10de:1eb8", "1234:1111"))
    assert wanted.problem is None
    assert "sees 1234:1111, not 10de:1eb8" in str(replace(wanted, seen=("1234:1111",)).problem)
    assert "no display function" in str(replace(wanted, seen=()).problem)
    assert replace(wanted, seen=(), stand_in="simulated vGPU").problem is None
    assert "is full" in str(replace(wanted, error="The disk is full.").problem)


def test_a_virtual_function_of_another_id_is_the_card_too(site: Site) -> None:
    wanted = WantedVGPU(name_uuid("vgpu a"), L40S, "L40S-12Q", gpus.inventory(site.host)[0].types[0].regime, (0, 1), 0)
    share = gpus.provide(site.host, wanted, name_uuid("machine a"))
    assert guest_trial._identities(site.host, share) == ("10de:26b9",)
    (site.host.pci(share.parent) / "device").write_text("0x74b5\n")
    assert guest_trial._identities(site.host, share) == ("10de:26b9", "10de:74b5")


def test_every_type_of_a_card_is_tried(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "inventory", WHOLE_INVENTORY)
    report = accept(site)
    assert report["problems"] == []
    assert len(report["rounds"][0]["types"]) > 20


def test_an_apply_gets_its_turn_between_two_rounds(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds that follow one another at once would keep the portal from this host until the last one."""
    waiting, turns = threading.Event(), []

    def apply() -> None:
        waiting.wait(30)
        with locked(site.lock, 30):
            turns.append(len(done))

    done: list[int] = []
    whole = accepting.Bench.round

    def counted(self: accepting.Bench, number: int) -> accepting.Round:
        waiting.set()
        time.sleep(0.1)
        found = whole(self, number)
        done.append(number)
        return found

    monkeypatch.setattr(accepting.Bench, "round", counted)
    other = threading.Thread(target=apply)
    other.start()
    accept(site, rounds=3)
    other.join()
    assert turns[0] < 3


def test_an_acceptance_that_is_interrupted_in_the_middle_of_a_making_leaves_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept(site)
    before = taken(site.host.root)
    draw, drawn = Drawing.draw, []

    def interrupted(self: Drawing) -> None:
        drawn.append(self)
        if len(drawn) == 3:
            raise KeyboardInterrupt
        draw(self)

    monkeypatch.setattr(Drawing, "draw", interrupted)
    with pytest.raises(KeyboardInterrupt):
        accept(site)
    assert (gpus.provided(site.host), list(Ledger(site.host.state_dir))) == ([], [])
    assert differences(before, taken(site.host.root)) == []
    assert accept(site)["accepted"]


def test_a_guest_that_was_left_behind_is_seen_for_what_it_is_and_ended_by_expire(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    applying.apply(site, desired.parse(json.dumps(document())), NOW)
    with monkeypatch.context() as patched:
        patched.setattr(accepting.Bench, "clear", lambda self: None)
        accept(site)
    seen: Any = applying.plan(site, desired.parse(json.dumps(document(generation=2))), NOW)
    assert [machine["machine"] for machine in seen["machines"]] == [acceptance_machine(HOST, L40S)]
    assert (seen["foreign"], [step["kind"] for step in seen["steps"]]) == ([], ["force_stop", "release", "purge"])
    ended: Any = expire(site, NOW)
    assert [(step["kind"], step["done"]) for step in ended["steps"]] == [("force_stop", True)]
    report: Json = applying.apply(site, desired.parse(json.dumps(document(generation=2))), NOW)
    assert (report["machines"], report["vgpus"], report["disks"]) == ([], [], [])
