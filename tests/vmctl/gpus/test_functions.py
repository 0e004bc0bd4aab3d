"""Virtual functions on and off: what the tool says is not what happened (dossier 1.2)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.vmctl.gpus.hosts import FLEX, L40S, card, flex, reasons, simulated, snapshot, want
from vmctl import gpus
from vmctl.card import CardChange, Framework, Knob, Regime
from vmctl.errors import Code, VmctlError
from vmctl.gpus import cards, functions
from vmctl.host import Answer, Host
from vmctl.simulate import SimulatedHost, faults, holders, reboot

A40 = "0000:41:00.0"
ON, OFF = CardChange(L40S, Knob.VFS, None), CardChange(L40S, Knob.VFS, 0)


@pytest.fixture
def l40s(memory: Path) -> SimulatedHost:
    return simulated(memory, "l40s")


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause between two tries."""
    monkeypatch.setattr(functions, "PAUSE", 0.0)


@dataclass(frozen=True)
class Grumbling(SimulatedHost):
    """Its tool does its work, and says otherwise."""

    def run(self, command: Sequence[str], *, limit: float = 10.0, given: str = "") -> Answer:
        said = super().run(command, limit=limit, given=given)
        return Answer(255, "Something nobody ever saw", "") if "sriov-manage" in command[0] else said


def enabled(host: Host, address: str) -> str:
    return host.read(host.pci(address) / "sriov_numvfs")


def calls(host: Host) -> list[list[str]]:
    """What the journal says of the tool."""
    lines = [json.loads(line) for line in (host.state_dir / "journal.jsonl").read_text().splitlines()]
    return [line["ran"] for line in lines if "sriov-manage" in str(line.get("ran"))]


def test_off_and_on_leave_the_tree_as_it_was(l40s: SimulatedHost) -> None:
    before = snapshot(l40s)
    gpus.change(l40s, OFF)
    gpu = card(l40s, L40S)
    assert (gpu.framework, gpu.types, gpu.regimes) == (Framework.NONE, (), (Regime.WHOLE,))
    assert gpu.vfs is not None
    assert (gpu.vfs.total, gpu.vfs.enabled) == (16, 0)
    assert "virtual functions are off (0 of 16)" in reasons(gpu)["types"]
    gpus.change(l40s, ON)
    assert snapshot(l40s) == before
    assert calls(l40s) == [["/usr/lib/nvidia/sriov-manage", flag, L40S] for flag in ("-d", "-e")]


def test_what_is_so_already_is_not_done_again(l40s: SimulatedHost) -> None:
    gpus.change(l40s, ON)
    assert not (l40s.state_dir / "journal.jsonl").exists() or calls(l40s) == []


@pytest.mark.field("A20")
@pytest.mark.field("A24")
@pytest.mark.parametrize("said", ["", "Enabling VFs on 0000:26:00.0\n", "Something nobody ever saw\n"])
def test_a_tool_that_says_yes_and_does_nothing_is_a_failure(l40s: SimulatedHost, said: str) -> None:
    gpus.change(l40s, OFF)
    faults.plant(l40s.root, [{"match": "sriov-manage -e", "output": said, "status": 0, "effect": False}])
    with pytest.raises(VmctlError, match="was to have 16 virtual functions, but has 0") as refusal:
        gpus.change(l40s, ON)
    assert (refusal.value.code, refusal.value.retry) == (Code.FAILED, True)
    assert said.strip() in refusal.value.what


@pytest.mark.field("A24")
def test_a_tool_that_says_no_and_did_it_has_done_it(l40s: SimulatedHost) -> None:
    """Who does the work and who tells of it are two: the kernel shows the functions."""
    host = Grumbling("l40s", root=l40s.root, state_dir=l40s.state_dir)
    gpus.change(host, OFF)
    gpus.change(host, ON)
    assert enabled(host, L40S) == "16"


@pytest.mark.usefixtures("hasty")
def test_a_lock_that_somebody_has_for_a_moment_is_tried_again(l40s: SimulatedHost) -> None:
    fault = {"match": "sriov-manage", "output": "Cannot obtain unbindLock for 0000:26:00.0\n", "status": 1, "times": 4}
    faults.plant(l40s.root, [fault])
    gpus.change(l40s, OFF)
    assert (enabled(l40s, L40S), len(calls(l40s))) == ("0", 5)


@pytest.mark.usefixtures("hasty")
def test_a_lock_that_stays_is_given_up_after_five_tries(l40s: SimulatedHost) -> None:
    fault = {"match": "sriov-manage", "output": "Cannot obtain unbindLock for 0000:26:00.0\n", "status": 1}
    faults.plant(l40s.root, [fault])
    holders.hold(l40s.root, "/dev/nvidiactl", process=99, command="dcgm-exporter")
    with pytest.raises(VmctlError, match=r"it is held by process 99 \(dcgm-exporter\)") as refusal:
        gpus.change(l40s, OFF)
    assert (refusal.value.code, refusal.value.retry, len(calls(l40s))) == (Code.BUSY, True, 5)


@pytest.mark.parametrize(
    ("layout", "gpu", "kind"), [("l40s", L40S, "L40S-24Q"), ("a40", A40, "A40-8Q"), ("flex", FLEX, "VF-1of4")]
)
def test_functions_never_go_while_one_has_a_share(memory: Path, layout: str, gpu: str, kind: str) -> None:
    host = flex(memory) if layout == "flex" else simulated(memory, layout)
    share = gpus.provide(host, want(gpu, kind, Regime.VF if layout == "flex" else Regime.EQUAL))
    before = snapshot(host)
    with pytest.raises(VmctlError, match=f"not empty: there is {kind} on") as refusal:
        gpus.change(host, CardChange(gpu, Knob.VFS, 0))
    assert (refusal.value.code, refusal.value.retry) == (Code.BUSY, True)
    assert snapshot(host) == before
    gpus.release(host, share)
    gpus.change(host, CardChange(gpu, Knob.VFS, 0))
    assert enabled(host, gpu) == "0"


def test_functions_never_go_while_a_process_has_one_open(l40s: SimulatedHost) -> None:
    group = l40s.link(l40s.pci("0000:26:00.6") / "iommu_group")
    holders.hold(l40s.root, f"/dev/vfio/{group}", process=4711)
    with pytest.raises(VmctlError, match="held by process 4711"):
        gpus.change(l40s, OFF)
    assert enabled(l40s, L40S) == "16"


@pytest.mark.parametrize(("layout", "gpu", "kind"), [("l40s", L40S, "L40S-24Q"), ("a40", A40, "A40-8Q")])
def test_the_switch_itself_looks_at_every_function_first(memory: Path, layout: str, gpu: str, kind: str) -> None:
    """Whoever calls it, and whatever was checked before."""
    host = simulated(memory, layout)
    share = gpus.provide(host, want(gpu, kind, handle=3))
    found = cards.find(host, gpu)
    assert found is not None
    with pytest.raises(VmctlError, match=f"cannot be changed: .* is on {share.parent}") as refusal:
        functions.set_count(host, found, 0)
    assert refusal.value.code is Code.BUSY
    gpus.release(host, share)
    holders.hold(host.root, f"/dev/vfio/{host.link(host.pci(share.parent) / 'iommu_group')}", process=4711)
    with pytest.raises(VmctlError, match=r"process 4711 .* has one open"):
        functions.set_count(host, found, 0)
    assert "sriov-manage" not in (host.state_dir / "journal.jsonl").read_text()


def test_plain_functions_change_their_number_by_way_of_none(memory: Path) -> None:
    host = flex(memory, 4)
    gpus.change(host, CardChange(FLEX, Knob.VFS, 2))
    assert [each.name for each in card(host, FLEX).types] == ["VF-1of2"]
    gpus.change(host, CardChange(FLEX, Knob.VFS, None))
    assert [each.name for each in card(host, FLEX).types] == ["VF-1of31"]


def test_more_functions_than_a_card_has_are_refused_before_any_goes(memory: Path) -> None:
    host = flex(memory, 4)
    with pytest.raises(VmctlError, match="has 31 virtual functions at most, not 99"):
        gpus.change(host, CardChange(FLEX, Knob.VFS, 99))
    assert enabled(host, FLEX) == "4"


def test_too_little_address_space_is_said_as_the_kernel_says_it(memory: Path) -> None:
    host = flex(memory, 0)
    faults.plant(host.root, [{"match": "sriov_numvfs", "error": "ENOMEM"}])
    with pytest.raises(VmctlError, match="but has 0; the kernel says: Cannot allocate memory"):
        gpus.change(host, CardChange(FLEX, Knob.VFS, 4))


@pytest.mark.field("A05")
@pytest.mark.parametrize(("layout", "gpu", "kind"), [("l40s", L40S, "L40S-24Q"), ("a40", A40, "A40-8Q")])
def test_after_a_reboot_functions_come_on_once_and_then_the_share(
    memory: Path, layout: str, gpu: str, kind: str
) -> None:
    host, wish = simulated(memory, layout), want(gpu, kind)
    before = gpus.provide(host, wish, "machine")
    reboot(host.root)
    again = SimulatedHost(layout, root=host.root, state_dir=host.state_dir)
    assert gpus.provided(again) == []
    with pytest.raises(VmctlError, match="virtual functions are off") as refusal:
        gpus.provide(again, wish, "machine")
    assert refusal.value.retry
    gpus.change(again, CardChange(gpu, Knob.VFS, None))
    gpus.change(again, CardChange(gpu, Knob.VFS, None))
    assert gpus.provide(again, wish, "machine") == before
    assert len(calls(again)) == 1
