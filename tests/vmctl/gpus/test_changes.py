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
from vmctl.simulate import SimulatedHost, faults, holders

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


def test_ecc_is_done_when_it_is_due_with_the_next_reset(l40s: SimulatedHost) -> None:
    before = card(l40s, L40S).ecc
    assert before is not None
    gpus.change(l40s, CardChange(L40S, Knob.ECC, not before.current))
    assert card(l40s, L40S).ecc == Mode(before.current, not before.current)


def test_mig_mode_takes_the_functions_away_and_brings_them_back(h100: SimulatedHost) -> None:
    """Functions block the mode; from Hopper on it acts at once."""
    gpus.change(h100, CardChange(H100, Knob.MIG, True))
    gpu = card(h100, H100)
    assert (gpu.mig, gpu.regime) == (Mode(True, True), Regime.MIG)
    assert gpu.vfs is not None
    assert gpu.vfs.enabled == gpu.vfs.total
    assert gpu.types
    gpus.change(h100, CardChange(H100, Knob.MIG, False))
    assert card(h100, H100).regime is Regime.EQUAL


@pytest.mark.field("A19")
def test_a_mode_that_needs_a_reset_is_done_as_far_as_can_be_and_never_reset(memory: Path) -> None:
    host = simulated(memory, "a100-mig")
    gpus.change(host, CardChange(A100, Knob.MIG, False))
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
def test_mig_that_does_not_come_on_is_a_failure_and_the_functions_are_back(h100: SimulatedHost) -> None:
    faults.plant(
        h100.root,
        [{"match": "-mig 1", "output": "Enabled MIG Mode for GPU 00000000:4E:00.0\nAll done.\n", "effect": False}],
    )
    with pytest.raises(VmctlError, match=r"mig of GPU 0000:4e:00\.0 was to be on, but is off"):
        gpus.change(h100, CardChange(H100, Knob.MIG, True))
    gpu = card(h100, H100)
    assert gpu.vfs is not None
    assert (gpu.regime, gpu.vfs.enabled) == (Regime.EQUAL, gpu.vfs.total)


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
