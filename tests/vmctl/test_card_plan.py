"""How cards are set: in the order that drivers take, only when nothing uses them, and only once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vmctl.build import (
    GPU_ADDRESS,
    a40,
)
from vmctl.card import (
    GPU,
    CardChange,
    CardSettings,
    Framework,
    Knob,
    Mode,
    Policy,
    Regime,
    Scheduler,
    VFs,
)
from vmctl.plan.cards import changes

SECOND = "0000:af:00.0"
FIXED = Scheduler(Policy.FIXED_SHARE, 3000)


def knobs(gpu: GPU, wanted: CardSettings, functions: bool = False) -> list[tuple[Knob, object]]:
    return [(change.knob, change.wanted) for change in changes(gpu, wanted, functions)]


def wish_for(**other: Any) -> CardSettings:
    return CardSettings(GPU_ADDRESS, **other)


def test_a_card_that_nobody_set_stays_as_it_is() -> None:
    assert knobs(a40(), wish_for()) == []
    assert knobs(a40(vfs=VFs(32, 0, 0)), wish_for()) == []


@pytest.mark.field("A05")
def test_virtual_functions_that_went_with_a_reboot_come_up_once() -> None:
    assert knobs(a40(vfs=VFs(32, 0, 0), regime=None), wish_for(), functions=True) == [(Knob.VFS, None)]
    assert knobs(a40(), wish_for(), functions=True) == []
    assert knobs(a40(vfs=VFs(32, 0, 0)), wish_for(regime=Regime.EQUAL)) == [(Knob.VFS, None)]


def test_mig_changes_between_two_changes_of_the_virtual_functions() -> None:
    found = knobs(a40(), wish_for(regime=Regime.MIG, scheduler=FIXED))
    assert found == [(Knob.VFS, 0), (Knob.MIG, True), (Knob.VFS, None), (Knob.SCHEDULER, FIXED)]


def test_mixed_size_and_scheduler_are_set_again_when_the_virtual_functions_come_up() -> None:
    gpu = a40(vfs=VFs(32, 0, 0), mixed=True, scheduler=FIXED)
    found = knobs(gpu, wish_for(regime=Regime.MIXED, scheduler=FIXED))
    assert found == [(Knob.VFS, None), (Knob.MIXED, True), (Knob.SCHEDULER, FIXED)]
    assert knobs(a40(mixed=True, scheduler=FIXED), wish_for(regime=Regime.MIXED, scheduler=FIXED)) == []
    assert knobs(a40(mixed=True), wish_for(regime=Regime.EQUAL)) == [(Knob.MIXED, False)]


def test_a_time_slice_that_nobody_asked_for_is_the_drivers_own() -> None:
    ticking = a40(scheduler=Scheduler(Policy.EQUAL_SHARE, 2000))
    assert knobs(ticking, wish_for(scheduler=Scheduler(Policy.EQUAL_SHARE))) == []
    assert knobs(ticking, wish_for(scheduler=Scheduler(Policy.EQUAL_SHARE, 1000))) != []


@pytest.mark.field("A19")
def test_a_card_that_waits_for_a_reset_is_left_alone_but_may_be_set_back() -> None:
    pending = a40(mig=Mode(False, True), vfs=VFs(32, 0, 0))
    assert knobs(pending, wish_for(regime=Regime.MIG, scheduler=FIXED)) == []
    assert knobs(pending, wish_for(regime=Regime.EQUAL)) == [(Knob.MIG, False), (Knob.VFS, None)]


def test_ecc_is_asked_for_once_and_holds_after_the_next_boot() -> None:
    assert knobs(a40(), wish_for(ecc=True)) == [(Knob.ECC, True)]
    assert knobs(a40(ecc=Mode(False, True)), wish_for(ecc=True)) == []
    assert knobs(a40(ecc=None), wish_for(ecc=True)) == []


def test_what_could_not_be_read_is_not_changed() -> None:
    dark = a40(mig=None, mixed=None, scheduler=None, ecc=None)
    assert knobs(dark, wish_for(regime=Regime.MIXED, scheduler=FIXED, ecc=True)) == []


def test_plain_sriov_is_cut_into_as_many_parts_as_wanted() -> None:
    flex = a40(framework=Framework.SRIOV, driver="i915", vfs=VFs(31, 0, 0), mig=None, mixed=None, scheduler=None)
    four = wish_for(regime=Regime.VF, vfs=4)
    assert knobs(flex, four) == [(Knob.VFS, 4)]
    assert knobs(replace(flex, vfs=VFs(31, 4, 4)), four) == []
    assert knobs(replace(flex, vfs=VFs(31, 2, 2)), four) == [(Knob.VFS, 0), (Knob.VFS, 4)]
    assert knobs(replace(flex, vfs=VFs(31, 2, 2)), wish_for(regime=Regime.VF, vfs=0)) == [(Knob.VFS, 0)]


def test_cards_without_virtual_functions_of_their_own_get_none() -> None:
    t4 = a40(framework=Framework.MDEV_PF, vfs=VFs(16, 0, 0), mig=None)
    assert knobs(t4, wish_for(regime=Regime.EQUAL), functions=True) == []
    assert knobs(a40(vfs=None), wish_for(regime=Regime.EQUAL), functions=True) == []


def test_a_card_on_vfio_pci_or_without_a_driver_is_left_alone() -> None:
    assert knobs(a40(driver="vfio-pci", mixed=True), wish_for(regime=Regime.EQUAL)) == []
    assert knobs(a40(driver=None, vfs=VFs(32, 0, 0)), wish_for(regime=Regime.EQUAL)) == []


def test_a_card_that_is_given_away_whole_has_no_gpu_instances() -> None:
    assert knobs(a40(mig=Mode(True, True)), wish_for(regime=Regime.WHOLE)) == [(Knob.VFS, 0), (Knob.MIG, False)]
    assert knobs(a40(), wish_for(regime=Regime.WHOLE, scheduler=FIXED)) == []


def obeyed(gpu: GPU, change: CardChange, at_once: bool) -> GPU:
    """The card after a change, by the driver's rules (dossier 1.5); a change that it would refuse fails the test."""
    assert gpu.vfs is not None
    assert gpu.mig is not None
    match change.knob:
        case Knob.VFS:
            count = 32 if change.wanted is None else change.wanted
            assert not (count and gpu.vfs.enabled)
            assert gpu.mig.current == gpu.mig.pending or not count
            assert isinstance(count, int)
            return replace(gpu, vfs=VFs(32, count), mixed=False, scheduler=Scheduler(Policy.BEST_EFFORT))
        case Knob.MIG:
            assert gpu.vfs.enabled == 0
            assert isinstance(change.wanted, bool)
            return replace(gpu, mig=Mode(change.wanted if at_once else gpu.mig.current, change.wanted))
        case Knob.MIXED:
            assert gpu.vfs.enabled
            return replace(gpu, mixed=bool(change.wanted))
        case Knob.SCHEDULER:
            assert gpu.vfs.enabled
            assert isinstance(change.wanted, Scheduler)
            return replace(gpu, scheduler=change.wanted)
        case Knob.ECC:
            assert isinstance(change.wanted, bool)
            return replace(gpu, ecc=Mode(False, change.wanted))


SCHEDULERS = st.none() | st.builds(Scheduler, st.sampled_from(Policy), st.none() | st.just(2000))


@given(
    gpu=st.builds(
        a40,
        vfs=st.sampled_from([VFs(32, 0), VFs(32, 32)]),
        mig=st.builds(lambda on: Mode(on, on), st.booleans()),
        mixed=st.booleans(),
        scheduler=st.builds(Scheduler, st.sampled_from(Policy), st.none() | st.just(1000)),
        ecc=st.builds(Mode, st.booleans(), st.booleans()),
    ),
    wanted=st.builds(
        CardSettings,
        st.just(GPU_ADDRESS),
        regime=st.sampled_from([None, Regime.EQUAL, Regime.MIXED, Regime.MIG, Regime.WHOLE]),
        scheduler=SCHEDULERS,
        ecc=st.none() | st.booleans(),
    ),
    killed_after=st.integers(0, 6),
    at_once=st.booleans(),
)
def test_whatever_the_card_was_and_wherever_it_is_killed_the_next_runs_reach_the_settings(
    gpu: GPU, wanted: CardSettings, killed_after: int, at_once: bool
) -> None:
    for most in (killed_after, 9, 9):
        for change in changes(gpu, wanted)[:most]:
            gpu = obeyed(gpu, change, at_once)
            if gpu.mig is not None and gpu.mig.current != gpu.mig.pending:
                break  # whoever carries it out stops here
        if most == 9 and gpu.mig is not None:
            gpu = replace(gpu, mig=Mode(gpu.mig.pending, gpu.mig.pending))  # the host was booted anew
    assert changes(gpu, wanted) == ()
    assert gpu.mig is not None
    if wanted.regime is not None:
        assert gpu.mig.current == (wanted.regime is Regime.MIG)
    if wanted.regime in (Regime.EQUAL, Regime.MIXED):
        assert gpu.scheduler is None or wanted.scheduler is None or gpu.scheduler.policy is wanted.scheduler.policy
        assert gpu.mixed == (wanted.regime is Regime.MIXED)
