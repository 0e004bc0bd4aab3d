"""How a card is set is changed while it is empty, and believed when the driver shows it (dossier 1.5)."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.vmctl.gpus.hosts import H100, L40S, card, simulated, want
from vmctl import gpus, state
from vmctl.card import CardChange, Knob, Mode, Policy, Regime, Scheduler
from vmctl.errors import Code, VmctlError
from vmctl.gpus import functions
from vmctl.simulate import SimulatedHost, faults, holders, reboot

A100 = "0000:41:00.0"


@pytest.fixture
def l40s(memory: Path) -> SimulatedHost:
    return simulated(memory, "l40s")


@pytest.fixture
def h100(memory: Path) -> SimulatedHost:
    return simulated(memory, "h100")


def test_mixed_size_on_and_off(l40s: SimulatedHost) -> None:
    gpus.change(l40s, CardChange(L40S, Knob.MIXED, True))
    gpu = card(l40s, L40S)
    assert (gpu.mixed, gpu.regime, gpu.regimes) == (True, Regime.MIXED, (Regime.MIXED, Regime.WHOLE))
    gpus.change(l40s, CardChange(L40S, Knob.MIXED, False))
    assert card(l40s, L40S).regime is Regime.EQUAL


def test_a_policy_with_a_time_slice_of_its_own(l40s: SimulatedHost) -> None:
    wish = Scheduler(Policy.EQUAL_SHARE, 3000)
    gpus.change(l40s, CardChange(L40S, Knob.SCHEDULER, wish))
    assert card(l40s, L40S).scheduler == wish
    gpus.change(l40s, CardChange(L40S, Knob.SCHEDULER, Scheduler(Policy.BEST_EFFORT)))
    now = card(l40s, L40S).scheduler
    assert now is not None
    assert now.policy is Policy.BEST_EFFORT


def test_a_time_slice_is_set_once_though_an_empty_card_does_not_tell_it(l40s: SimulatedHost) -> None:
    """nvidia-smi-vgpu-ss-idle.txt: the policy alone. The note holds until the driver lets go of the card."""
    wish = Scheduler(Policy.EQUAL_SHARE, 3000)
    assert "Time Slice" not in l40s.run(["nvidia-smi", "vgpu", "-ss"]).output
    for _ in range(2):
        gpus.change(l40s, CardChange(L40S, Knob.SCHEDULER, wish))
    assert (l40s.state_dir / "journal.jsonl").read_text().count('"run": ["nvidia-smi", "vgpu", "set-sched') == 1
    (l40s.state_dir / "time-slices.json").write_text("[{")
    assert card(l40s, L40S).scheduler == Scheduler(Policy.EQUAL_SHARE)
    gpus.change(l40s, CardChange(L40S, Knob.SCHEDULER, wish))
    gpus.change(l40s, CardChange(L40S, Knob.VFS, 0))
    gpus.change(l40s, CardChange(L40S, Knob.VFS, None))
    l40s.run(["nvidia-smi", "vgpu", "set-scheduler-state", "-p", "2"])
    assert card(l40s, L40S).scheduler == Scheduler(Policy.EQUAL_SHARE)


def test_a_time_slice_that_the_tool_refused_is_not_believed(l40s: SimulatedHost) -> None:
    gpus.change(l40s, CardChange(L40S, Knob.SCHEDULER, Scheduler(Policy.EQUAL_SHARE)))
    with pytest.raises(VmctlError, match=r"was to be equal_share of 99 us, but is equal_share; .*Invalid Argument"):
        gpus.change(l40s, CardChange(L40S, Knob.SCHEDULER, Scheduler(Policy.EQUAL_SHARE, 99)))


def test_a_time_slice_is_set_anew_after_a_reboot(l40s: SimulatedHost) -> None:
    wish = CardChange(L40S, Knob.SCHEDULER, Scheduler(Policy.EQUAL_SHARE, 3000))
    gpus.change(l40s, wish)
    reboot(l40s.root)
    again = SimulatedHost("l40s", root=l40s.root, state_dir=l40s.state_dir)
    gpus.change(again, CardChange(L40S, Knob.VFS, None))
    again.run(["nvidia-smi", "vgpu", "set-scheduler-state", "-p", "2"])
    assert card(again, L40S).scheduler == Scheduler(Policy.EQUAL_SHARE)


def test_ecc_is_done_when_it_is_due_with_the_next_reset(l40s: SimulatedHost) -> None:
    before = card(l40s, L40S).ecc
    assert before is not None
    gpus.change(l40s, CardChange(L40S, Knob.ECC, not before.current))
    assert card(l40s, L40S).ecc == Mode(before.current, not before.current)


def mig(host: SimulatedHost, gpu: str, mode: bool) -> None:
    """As a plan does it: functions block the mode."""
    gpus.change(host, CardChange(gpu, Knob.VFS, 0))
    gpus.change(host, CardChange(gpu, Knob.MIG, mode))


def test_mig_mode_changes_without_functions_and_from_hopper_on_at_once(h100: SimulatedHost) -> None:
    with pytest.raises(VmctlError, match="changes only without virtual functions"):
        gpus.change(h100, CardChange(H100, Knob.MIG, True))
    for mode, regime in ((True, Regime.MIG), (False, Regime.EQUAL)):
        mig(h100, H100, mode)
        gpus.change(h100, CardChange(H100, Knob.VFS, None))
        gpu = card(h100, H100)
        assert (gpu.mig, gpu.regime) == (Mode(mode, mode), regime)
        assert gpu.types


@pytest.mark.field("A19")
def test_a_mode_that_needs_a_reset_is_done_as_far_as_can_be_and_never_reset(memory: Path) -> None:
    host = simulated(memory, "a100-mig")
    mig(host, A100, False)
    gpu = card(host, A100)
    assert (gpu.mig, gpu.types) == (Mode(True, False), ())
    assert "reset" in {gap.what: gap.reason for gap in gpu.unknown}["types"]
    journal = (host.state_dir / "journal.jsonl").read_text()
    assert "reset" not in journal.replace("unbindLock", "")
    gpus.change(host, CardChange(A100, Knob.MIG, False))
    assert (host.state_dir / "journal.jsonl").read_text().count('"-mig"') == journal.count('"-mig"')


CHANGES = [
    CardChange(L40S, Knob.VFS, 0),
    CardChange(L40S, Knob.MIXED, True),
    CardChange(L40S, Knob.SCHEDULER, Scheduler(Policy.FIXED_SHARE)),
    CardChange(L40S, Knob.ECC, False),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: str(change.knob))
def test_a_card_in_use_is_left_alone_and_its_holders_are_named(l40s: SimulatedHost, change: CardChange) -> None:
    share = gpus.provide(l40s, want(L40S, "L40S-24Q"), "machine")
    before = card(l40s, L40S)
    with pytest.raises(VmctlError, match=rf"not empty: there is L40S-24Q on .* \({share.uuid}\)") as refusal:
        gpus.change(l40s, change)
    assert (refusal.value.code, refusal.value.retry) == (Code.BUSY, True)
    assert card(l40s, L40S) == before


def test_what_rebinds_the_card_waits_for_everybody_and_the_rest_only_for_shares(l40s: SimulatedHost) -> None:
    holders.hold(l40s.root, "/dev/nvidia0", process=99, command="dcgm-exporter")
    with pytest.raises(VmctlError, match=r"held by process 99 \(dcgm-exporter\)"):
        gpus.change(l40s, CardChange(L40S, Knob.VFS, 0))
    gpus.change(l40s, CardChange(L40S, Knob.SCHEDULER, Scheduler(Policy.EQUAL_SHARE)))


@pytest.mark.field("A20")
@pytest.mark.field("A24")
@pytest.mark.parametrize("change", CHANGES[1:], ids=lambda change: str(change.knob))
def test_a_tool_that_says_yes_and_does_nothing_is_a_failure(l40s: SimulatedHost, change: CardChange) -> None:
    match = r"nvidia-smi .*(-shm|set-scheduler-state|-e \d)"
    faults.plant(l40s.root, [{"match": match, "output": "All done.", "effect": False}])
    with pytest.raises(VmctlError, match=f"{change.knob} of GPU {L40S} was to be .*; All done") as refusal:
        gpus.change(l40s, change)
    assert refusal.value.code is Code.FAILED


@pytest.mark.field("A20")
def test_mig_that_does_not_come_on_is_a_failure(h100: SimulatedHost) -> None:
    faults.plant(
        h100.root,
        [{"match": "-mig 1", "output": "Enabled MIG Mode for GPU 00000000:4E:00.0\nAll done.\n", "effect": False}],
    )
    with pytest.raises(VmctlError, match=r"mig of GPU 0000:4e:00\.0 was to be on, but is off"):
        mig(h100, H100, True)


def test_a_card_that_is_not_there_is_a_sentence(l40s: SimulatedHost) -> None:
    with pytest.raises(VmctlError, match=r"no GPU 0000:99:00\.0 on l40s"):
        gpus.change(l40s, CardChange("0000:99:00.0", Knob.VFS, 0))


def test_a_change_waits_for_those_who_look(l40s: SimulatedHost) -> None:
    """NVML holds a card while it is open: looking and changing exclude each other."""
    begun, done = threading.Event(), threading.Event()

    def look() -> None:
        with state.locked(l40s.gpus_lock, shared=True):
            begun.set()
            time.sleep(0.5)
            assert not done.is_set()

    looker = threading.Thread(target=look)
    looker.start()
    begun.wait()
    gpus.change(l40s, CardChange(L40S, Knob.VFS, 0))
    done.set()
    looker.join()


@pytest.mark.field("B10")
def test_who_holds_a_card_is_asked_once_nobody_of_ours_can(l40s: SimulatedHost) -> None:
    """A look of vmctl's own has the card open while it lasts: it is waited for, not named as a holder."""
    begun = threading.Event()

    def look() -> None:
        with state.locked(l40s.gpus_lock, shared=True):
            holders.hold(l40s.root, "/dev/nvidia0", process=99, command="nvidia-smi")
            begun.set()
            time.sleep(0.3)
            holders.let_go(l40s.root, process=99)

    looker = threading.Thread(target=look)
    looker.start()
    begun.wait()
    gpus.change(l40s, CardChange(L40S, Knob.VFS, 0))
    looker.join()


def test_a_switch_that_does_not_fit_into_the_time_is_left_for_later(l40s: SimulatedHost) -> None:
    with pytest.raises(VmctlError, match="no time left to switch") as refusal:
        gpus.change(l40s.by(time.monotonic() + 5), CardChange(L40S, Knob.VFS, 0))
    assert (refusal.value.code, refusal.value.retry) == (Code.LATER, True)
    assert "sriov-manage" not in (l40s.state_dir / "journal.jsonl").read_text()


def test_a_switch_is_tried_again_only_within_its_time(l40s: SimulatedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "USUAL", 1.2)
    faults.plant(l40s.root, [{"match": "sriov-manage", "output": "Cannot obtain unbindLock", "effect": False}])
    begun = time.monotonic()
    with pytest.raises(VmctlError, match="does not get hold of GPU"):
        gpus.change(l40s.by(begun + 2.5), CardChange(L40S, Knob.VFS, 0))
    assert time.monotonic() - begun < 3.5
