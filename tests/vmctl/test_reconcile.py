"""The plan: pure, converging, ends before starts, only what is ours, and never a whole host at once."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vmctl.build import NOW, card, machine, marked, name_uuid, observed, running, share, state, vgpu
from vmctl.card import ProvidedVGPU
from vmctl.errors import Code
from vmctl.model import DesiredState
from vmctl.observation import Disk, ForeignDomain, MachineState, Observation, ObservedMachine
from vmctl.plan.reconcile import mark, plan
from vmctl.plan.steps import (
    AskStop,
    Clear,
    ForceStop,
    MakeDisk,
    Plan,
    Provide,
    Purge,
    Refuse,
    Release,
    Remark,
    Start,
    Step,
)

KINDS_OF_ENDS = (AskStop, ForceStop, Release, Clear, Purge)
KINDS_OF_STARTS = (Provide, MakeDisk, Start, Refuse)


def kinds(found: Plan) -> list[str]:
    return [step.kind for step in found.steps]


def test_what_is_right_needs_no_step() -> None:
    assert plan(state(machine("a")), observed(running("a")), NOW) == Plan(())


def test_a_missing_machine_gets_its_share_then_its_disk_then_its_power() -> None:
    wanted = state(machine("a", vgpus=[vgpu("a"), vgpu("b")]))
    assert kinds(plan(wanted, observed(gpus=(card(),)), NOW)) == ["provide", "provide", "disk", "start"]


def test_a_stop_is_soft_first_and_hard_when_patience_is_over() -> None:
    wanted = state(machine("a", order="stop", force_at=(NOW + timedelta(seconds=30)).isoformat()))
    host = observed(running("a", minutes=0))
    assert kinds(plan(wanted, host, NOW)) == ["ask_stop"]
    assert kinds(plan(wanted, host, NOW + timedelta(seconds=29))) == ["ask_stop"]
    assert kinds(plan(wanted, host, NOW + timedelta(seconds=30))) == ["force_stop", "clear"]


def test_without_a_time_to_force_the_grace_counts_from_the_first_asking() -> None:
    wanted = state(machine("a", order="stop"))
    host = observed(running("a", minutes=0, asked=NOW))
    assert kinds(plan(wanted, host, NOW + timedelta(seconds=59))) == ["ask_stop"]
    assert kinds(plan(wanted, host, NOW + timedelta(seconds=60))) == ["force_stop", "clear"]


def test_a_machine_switched_off_gives_its_share_back_in_the_same_run() -> None:
    ended = running("a", minutes=-60, asked=NOW - timedelta(hours=1), marked=(marked("a"),))
    host = observed(ended, gpus=(card(share("a", ended.machine)),), ours=frozenset({name_uuid("vgpu a")}))
    steps = plan(state(machine("a", order="stop", vgpus=[vgpu("a")])), host, NOW).steps
    assert [step.kind for step in steps] == ["force_stop", "release", "clear"]
    assert {step.machine for step in steps} == {ended.machine}


def test_an_orphan_ends_softly() -> None:
    assert kinds(plan(state(), observed(running("a", minutes=0)), NOW)) == ["ask_stop"]


def test_a_machine_of_an_earlier_reservation_ends_before_it_starts_again() -> None:
    wanted = state(machine("a", reservation=name_uuid("the next one")))
    assert kinds(plan(wanted, observed(running("a", minutes=0)), NOW)) == ["ask_stop"]


def test_a_later_end_is_told_and_an_asked_machine_that_goes_on_is_asked_no_more() -> None:
    steps = plan(state(machine("a", minutes=90)), observed(running("a", minutes=60, asked=NOW)), NOW).steps
    assert [step.kind for step in steps] == ["remark"]
    assert isinstance(steps[0], Remark)
    assert (steps[0].mark.end, steps[0].mark.asked) == (NOW + timedelta(minutes=90), None)


def test_an_earlier_end_is_told_only_where_a_person_said_so() -> None:
    """Else a wrong portal could shorten every end first and then stop everybody without a question."""
    host = observed(running("a", minutes=60))
    assert kinds(plan(state(machine("a", minutes=30)), host, NOW)) == []
    confirmed = state(machine("a", minutes=30), confirmed_stops=[name_uuid("machine a")])
    assert kinds(plan(confirmed, host, NOW)) == ["remark"]


def test_our_idle_share_is_released_and_nobody_elses() -> None:
    ours = frozenset({name_uuid("vgpu a"), name_uuid("vgpu used")})
    holders = (share("a"), share("foreign"), share("used", "somebody"))
    steps = plan(state(), observed(gpus=(card(*holders),), ours=ours), NOW).steps
    assert [step.vgpu.uuid for step in steps if isinstance(step, Release)] == [name_uuid("vgpu a")]


@pytest.mark.field("A21")
def test_a_share_left_over_under_a_wanted_uuid_but_of_another_type_goes_first() -> None:
    left = share("a", type="T4-8Q")
    host = observed(gpus=(card(left),), ours=frozenset({left.uuid}))
    assert kinds(plan(state(machine("a", vgpus=[vgpu("a")])), host, NOW)) == ["release", "provide", "disk", "start"]


def test_a_stopped_machine_keeps_its_disk_and_nothing_else() -> None:
    untidy = Disk(name_uuid("machine a"), 10, True, True, ("seed.iso", "serial.log"))
    tidy = replace(untidy, seed=False, leftovers=())
    wanted = state(machine("a", order="stop"))
    assert kinds(plan(wanted, observed(disks=(untidy,)), NOW)) == ["clear"]
    assert kinds(plan(wanted, observed(disks=(tidy,)), NOW)) == []


def test_a_purge_waits_until_the_machine_is_off_and_never_takes_one_that_should_run() -> None:
    disk = Disk(name_uuid("machine a"), 10, True, False)
    purge = [name_uuid("machine a")]
    off = observed(disks=(disk,))
    on = observed(running("a", minutes=0), disks=(disk,))
    assert kinds(plan(state(machine("a", order="stop"), purge=purge), off, NOW)) == ["purge"]
    assert kinds(plan(state(machine("a", order="stop"), purge=purge), on, NOW)) == ["ask_stop"]
    assert kinds(plan(state(machine("a"), purge=purge), off, NOW)) == ["disk", "start"]


@pytest.mark.field("C13")
@pytest.mark.parametrize("same", ["name", "uuid"])
def test_a_foreign_domain_in_the_way_is_refused_and_left_alone(same: str) -> None:
    wanted = state(machine("a"))
    name = wanted.machines[0].name if same == "name" else "theirs"
    uuid = wanted.machines[0].machine if same == "uuid" else name_uuid("theirs")
    host = observed(foreign=(ForeignDomain(name, uuid, MachineState.RUNNING),))
    (step,) = plan(wanted, host, NOW).steps
    assert isinstance(step, Refuse)
    assert step.error.code == Code.NOT_OURS


def test_a_machine_past_its_end_is_not_started() -> None:
    (step,) = plan(state(machine("a", minutes=-1)), observed(), NOW).steps
    assert isinstance(step, Refuse)


# Properties -------------------------------------------------------------------------------

NAMES = ["a", "b", "c", "d", "e", "f"]


@st.composite
def situations(draw: st.DrawFn) -> tuple[DesiredState, Observation]:
    wanted = []
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True)):
        order = draw(st.sampled_from(["run", "stop"]))
        shares = [vgpu(name)] if draw(st.booleans()) else []
        wanted.append(machine(name, order=order, vgpus=shares, minutes=draw(st.integers(1, 90))))
    ours, holders = [], []
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True)):
        asked = draw(st.sampled_from([None, NOW - timedelta(seconds=30), NOW - timedelta(seconds=90)]))
        found = running(name, minutes=draw(st.integers(-30, 90)), asked=asked, marked=(marked(name),))
        ours.append(found)
        holders.append(share(name, found.machine))
    idle = [share(name) for name in draw(st.lists(st.sampled_from(["x", "y"]), unique=True))]
    disks = [
        Disk(name_uuid(f"machine {name}"), 1, True, True, ("seed.iso",))
        for name in draw(st.lists(st.sampled_from(NAMES), unique=True))
    ]
    foreign = ForeignDomain("theirs", name_uuid("theirs"), MachineState.RUNNING, frozenset({name_uuid("vgpu y")}))
    made = frozenset(each.uuid for each in (*holders, *idle[:1]))
    host = observed(*ours, foreign=(foreign,), gpus=(card(*holders, *idle),), disks=tuple(disks), ours=made)
    confirmed = draw(st.lists(st.sampled_from([name_uuid(f"machine {name}") for name in NAMES]), unique=True))
    purge = draw(st.lists(st.sampled_from([name_uuid(f"machine {name}") for name in NAMES]), unique=True))
    return state(*wanted, confirmed_stops=confirmed, purge=purge), host


def carry_out(step: Step, wanted: DesiredState, host: Observation) -> Observation:
    """What a step does to a host where everything works and guests obey."""

    def without(uuid: str) -> tuple[ObservedMachine, ...]:
        return tuple(each for each in host.machines if each.machine != uuid)

    def holders(*shares: ProvidedVGPU) -> Observation:
        return replace(host, gpus=(replace(host.gpus[0], holders=shares),))

    match step:
        case AskStop(found) | ForceStop(found):
            freed = [replace(each, holder=None) if each.holder == found.machine else each for each in host.vgpus]
            return replace(holders(*freed), machines=without(found.machine))
        case Remark(found, new):
            return replace(host, machines=(*without(found.machine), replace(found, mark=new)))
        case Release(gone):
            return holders(*(each for each in host.vgpus if each.uuid != gone.uuid))
        case Clear(uuid):
            kept = (replace(each, leftovers=()) if each.machine == uuid else each for each in host.disks)
            return replace(host, disks=tuple(kept))
        case Purge(uuid):
            return replace(host, disks=tuple(each for each in host.disks if each.machine != uuid))
        case Provide(wish, new_share):
            made = share("", uuid=new_share.uuid)
            return replace(
                holders(*(each for each in host.vgpus if each.uuid != made.uuid), made),
                ours=host.ours | {new_share.uuid},
            )
        case Start(wish):
            held = {each.uuid for each in wish.vgpus}
            taken = [replace(each, holder=wish.machine) if each.uuid in held else each for each in host.vgpus]
            new_machine = ObservedMachine(wish.machine, wish.name, MachineState.RUNNING, mark(wanted, wish))
            return replace(holders(*taken), machines=(*host.machines, new_machine))
        case _:
            return host


def settle(wanted: DesiredState, host: Observation, rounds: int = 4) -> Observation:
    for _ in range(rounds):
        for step in plan(wanted, host, NOW).steps:
            host = carry_out(step, wanted, host)
    return host


@given(situations())
def test_it_converges_and_then_does_nothing(situation: tuple[DesiredState, Observation]) -> None:
    wanted, host = situation
    host = settle(wanted, host)
    assert plan(wanted, host, NOW).steps == ()
    held = set(plan(wanted, host, NOW).needs_confirmation)
    expected = {wish.machine for wish in wanted.machines if wish.order == "run"}
    assert {found.machine for found in host.machines} - held == expected - held


@given(situations(), st.integers(0, 20))
def test_interrupted_after_any_step_it_still_converges(
    situation: tuple[DesiredState, Observation], interrupted_after: int
) -> None:
    wanted, host = situation
    for step in plan(wanted, host, NOW).steps[:interrupted_after]:
        host = carry_out(step, wanted, host)
    assert plan(wanted, settle(wanted, host), NOW).steps == ()


@given(situations())
def test_it_touches_only_what_is_ours(situation: tuple[DesiredState, Observation]) -> None:
    wanted, host = situation
    mine = {found.machine for found in host.machines}
    for step in plan(wanted, host, NOW).steps:
        if isinstance(step, AskStop | ForceStop | Remark):
            assert step.machine in mine
        if isinstance(step, Release):
            assert step.vgpu.uuid in host.ours
        assert step.machine != name_uuid("theirs")


@given(situations())
def test_ends_come_before_starts(situation: tuple[DesiredState, Observation]) -> None:
    steps = plan(*situation, NOW).steps
    starts = [number for number, step in enumerate(steps) if isinstance(step, KINDS_OF_STARTS)]
    ends = [number for number, step in enumerate(steps) if isinstance(step, KINDS_OF_ENDS)]
    assert not starts or not ends or max(ends) < min(starts)


@given(situations())
def test_early_stops_without_a_question_stay_few(situation: tuple[DesiredState, Observation]) -> None:
    wanted, host = situation
    early = {
        step.machine
        for step in plan(wanted, host, NOW).steps
        if isinstance(step, AskStop | ForceStop)
        and step.observed.mark.end > NOW
        and step.machine not in wanted.confirmed_stops
    }
    assert len(early) <= max(3, 0.1 * len(host.machines))


def test_each_call_begins_with_another_start() -> None:
    """One that hangs takes a whole run: behind it the others would wait for ever."""
    wanted = [machine("a"), machine("b"), machine("c")]
    firsts = set()
    for generation in range(3):
        found = plan(state(*wanted, generation=generation + 1), observed(), NOW)
        firsts.add(next(step.machine for step in found.steps if isinstance(step, Start)))
    assert firsts == {name_uuid(f"machine {name}") for name in "abc"}
