"""Cards in the plan of a host: set between releases and starts, waiting by name, and what may start on them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.vmctl.build import (
    GPU_ADDRESS,
    NOW,
    Json,
    a40,
    machine,
    marked,
    name_uuid,
    observed,
    place,
    running,
    settings,
    share,
    state,
    vgpu,
)
from vmctl.card import (
    GPU,
    CardChange,
    Framework,
    Knob,
    Mode,
    Regime,
    Unknown,
    VFs,
)
from vmctl.errors import Code
from vmctl.observation import ForeignDomain, MachineState, Observation
from vmctl.plan.card_steps import ChangeCard, WaitForBoot, WaitForDrain
from vmctl.plan.reconcile import plan
from vmctl.plan.steps import Provide, Refuse, Release, Start

SECOND = "0000:af:00.0"


def host(*gpus: GPU, **other: Any) -> Observation:
    return observed(*other.pop("machines", ()), gpus=gpus, **other)


MIG_WANTED: Json = {"cards": [settings(regime="mig")]}


def test_a_card_is_set_after_releases_and_before_starts() -> None:
    old = share("old")
    wish = machine("a", vgpus=[vgpu("a", regime="mig", type="A40-12Q")])
    found = plan(state(wish, **MIG_WANTED), host(a40(holders=(old,)), ours=frozenset({old.uuid})), NOW).steps
    assert [step.kind for step in found] == ["release", "card", "card", "card", "provide", "disk", "start"]


@pytest.mark.field("A09")
def test_a_card_in_use_waits_names_who_uses_it_and_others_are_set() -> None:
    mine = running("b", marked=(marked("b"),))
    off = ForeignDomain("old-desktop", name_uuid("old"), MachineState.OFF, frozenset({"0000:3b:00.5"}))
    first = a40(
        holders=(
            share("b", mine.machine),
            share("foreign", off.uuid, uuid=None, parent="0000:3b:00.5", type="", framework=Framework.VENDOR_VFIO),
            share("nobodys", uuid=None, parent="0000:3b:00.6", framework=Framework.VENDOR_VFIO),
        )
    )
    second = replace(a40(), address=SECOND)
    wanted = state(machine("b", vgpus=[vgpu("b")]), cards=[settings(regime="mixed"), settings(SECOND, regime="mixed")])
    there = host(first, second, machines=(mine,), foreign=(off,), ours=frozenset({name_uuid("vgpu b")}))
    wait, change = plan(wanted, there, NOW).steps
    assert isinstance(wait, WaitForDrain)
    assert mine.name in wait.subject
    assert "old-desktop (off): claim on 0000:3b:00.5" in wait.subject
    assert "nobody known: T4-4Q 0000:3b:00.6" in wait.subject
    assert change == ChangeCard(CardChange(SECOND, Knob.MIXED, True))


def test_a_share_that_was_made_and_never_started_is_no_unknown() -> None:
    made = a40(holders=(share("a"),))
    wanted = state(machine("a", vgpus=[vgpu("a")]), cards=[settings(ecc=True)])
    wait = plan(wanted, host(made, ours=frozenset({name_uuid("vgpu a")})), NOW).steps[0]
    assert f"held by a machine that has not started: T4-4Q {name_uuid('vgpu a')}" in wait.subject


def test_what_cannot_be_seen_on_a_card_keeps_it_from_being_changed() -> None:
    blind = a40(unknown=(Unknown("holders", "The bus cannot be read."),))
    (wait,) = plan(state(**MIG_WANTED), host(blind), NOW).steps
    assert wait.kind == "wait"
    assert "The bus cannot be read." in wait.subject
    partly = a40(unknown=(Unknown("types", "No name."),))
    assert [step.kind for step in plan(state(**MIG_WANTED), host(partly), NOW).steps] == ["card"] * 3


def test_a_start_in_another_regime_than_the_cards_is_refused_with_a_reason() -> None:
    mine = running("b")
    busy = a40(holders=(share("b", mine.machine),))
    wanted = state(machine("b"), machine("a", vgpus=[vgpu("a", regime="mixed")]), cards=[settings(regime="mixed")])
    wait, refusal = plan(wanted, host(busy, machines=(mine,)), NOW).steps
    assert isinstance(wait, WaitForDrain)
    assert isinstance(refusal, Refuse)
    assert (refusal.error.code, refusal.error.retry) == (Code.LATER, True)
    assert f"is in regime equal, not mixed, and cannot change while it is held by {mine.name}" in refusal.error.what
    (unset,) = plan(state(machine("a", vgpus=[vgpu("a", regime="mig")])), host(a40()), NOW).steps
    assert isinstance(unset, Refuse)


def test_a_start_in_the_old_regime_of_a_card_that_is_changed_now_is_refused() -> None:
    wanted = state(machine("a", vgpus=[vgpu("a")]), cards=[settings(regime="mixed")])
    assert [step.kind for step in plan(wanted, host(a40()), NOW).steps] == ["card", "start"]
    assert isinstance(plan(wanted, host(a40()), NOW).steps[1], Refuse)


def test_a_card_that_waits_for_the_scheduler_goes_on_taking_machines() -> None:
    mine = running("b")
    wanted = state(
        machine("b"),
        machine("a", vgpus=[vgpu("a")]),
        cards=[settings(scheduler={"policy": "fixed_share", "time_slice_us": None})],
    )
    found = plan(wanted, host(a40(holders=(share("b", mine.machine),)), machines=(mine,)), NOW).steps
    assert [step.kind for step in found] == ["wait", "provide", "disk", "start"]


@pytest.mark.field("A05")
def test_a_machine_that_wants_a_share_has_the_functions_turned_on() -> None:
    off = a40(vfs=VFs(32, 0, 0), regime=None, framework=Framework.NONE)
    found = plan(state(machine("a", vgpus=[vgpu("a")])), host(off), NOW).steps
    assert [step.kind for step in found] == ["card", "provide", "disk", "start"]
    assert plan(state(), host(off), NOW).steps == ()


@pytest.mark.field("A05")
def test_a_card_that_was_cut_into_parts_is_cut_again_as_its_machine_wants() -> None:
    flex = a40(vfs=VFs(31, 0, 0), regime=None, framework=Framework.SRIOV, driver="i915", mig=None, mixed=None)
    wish = machine("a", vgpus=[vgpu("a", type="VF-1of4", regime="vf")])
    first = plan(state(wish), host(flex), NOW).steps[0]
    assert first == ChangeCard(CardChange(GPU_ADDRESS, Knob.VFS, 4))


@pytest.mark.field("A19")
def test_a_card_whose_mig_mode_is_pending_takes_no_machine() -> None:
    pending = a40(mig=Mode(False, True))
    wanted = state(machine("a", vgpus=[vgpu("a", regime="mig")]), **MIG_WANTED)
    wait, refusal = plan(wanted, host(pending), NOW).steps
    assert wait == WaitForBoot(GPU_ADDRESS, Knob.MIG, True)
    assert "MIG on holds only after a reset: reboot the host" in wait.subject
    assert isinstance(refusal, Refuse)
    assert "reset of the card or a reboot" in refusal.error.what


def test_a_type_that_the_card_is_not_set_to_offer_is_refused_by_name() -> None:
    wanted = state(
        machine("a", vgpus=[vgpu("a", type="T4-8Q")]),
        machine("b", vgpus=[vgpu("b")]),
        machine("c", vgpus=[vgpu("c", gpu=SECOND, type="A40", regime="whole", cell=None, handle=None)]),
        cards=[settings(types=["T4-4Q"]), settings(SECOND, types=["T4-4Q"])],
    )
    found = plan(wanted, host(a40(), replace(a40(), address=SECOND)), NOW).steps
    (refusal,) = [step for step in found if isinstance(step, Refuse)]
    assert "not set to offer T4-8Q; it offers T4-4Q" in refusal.error.what
    assert len([step for step in found if isinstance(step, Start)]) == 2


def test_a_whole_card_is_given_from_any_regime_that_allows_it_and_shares_follow_its_release() -> None:
    wish = machine("a", vgpus=[vgpu("a", regime="whole", cell=None, handle=None, type="A40")])
    assert [step.kind for step in plan(state(wish), host(a40()), NOW).steps] == ["provide", "disk", "start"]
    for group, why in ((None, "no IOMMU group"), ("7", "stays with the host")):
        (refusal,) = plan(state(wish), host(a40(regimes=(Regime.EQUAL,), iommu_group=group)), NOW).steps
        assert isinstance(refusal, Refuse)
        assert why in refusal.error.what
    gone = share("w", regime=Regime.WHOLE, framework=Framework.PASSTHROUGH, type="A40")
    given = a40(driver="vfio-pci", regime=Regime.WHOLE, regimes=(Regime.WHOLE,), vfs=None, holders=(gone,))
    next_one = state(machine("b", vgpus=[vgpu("b")]))
    found = plan(next_one, host(given, ours=frozenset({gone.uuid})), NOW).steps
    assert [step.kind for step in found] == ["release", "provide", "disk", "start"]
    (refusal,) = plan(next_one, host(replace(given, holders=())), NOW).steps
    assert isinstance(refusal, Refuse)


@pytest.mark.field("A08")
def test_other_places_are_kept_tried_and_gone_on_with() -> None:
    other, third = place(gpu=SECOND, cell=[1, 2]), place(gpu="0000:d8:00.0")
    wanted = state(machine("a", vgpus=[vgpu("a", alternatives=[other, third])]))
    cards = (a40(), replace(a40(), address=SECOND), replace(a40(regime=Regime.MIG), address="0000:d8:00.0"))
    provide = plan(wanted, host(*cards), NOW).steps[0]
    assert isinstance(provide, Provide)
    assert [each.gpu for each in provide.vgpu.places] == [GPU_ADDRESS, SECOND]
    begun = replace(cards[1], holders=(share("a", gpu=SECOND),))
    there = host(cards[0], begun, cards[2], ours=frozenset({name_uuid("vgpu a")}))
    steps = plan(wanted, there, NOW).steps
    assert not [step for step in steps if isinstance(step, Release)]
    assert isinstance(steps[0], Provide)
    assert [(each.gpu, each.cell) for each in steps[0].vgpu.places] == [(SECOND, (1, 2)), (GPU_ADDRESS, (0, 1))]


def test_a_share_that_was_begun_in_another_regime_is_released() -> None:
    begun = a40(holders=(share("a"),))
    wanted = state(machine("a", vgpus=[vgpu("a", regime="mixed")]), cards=[settings(regime="mixed")])
    found = plan(wanted, host(begun, ours=frozenset({name_uuid("vgpu a")})), NOW).steps
    assert [step.kind for step in found] == ["release", "card", "provide", "disk", "start"]
