"""The mass-stop guard: a portal that is wrong cannot switch a whole host off."""

from __future__ import annotations

from tests.vmctl.build import NOW, machine, name_uuid, observed, running, state
from vmctl.observation import Observation
from vmctl.plan.reconcile import plan
from vmctl.plan.steps import Plan


def kinds(found: Plan) -> list[str]:
    return [step.kind for step in found.steps]


def crowd(count: int, minutes: float = 60) -> Observation:
    return observed(*(running(str(number), minutes=minutes) for number in range(count)))


def test_a_few_early_stops_pass() -> None:
    found = plan(state(), crowd(3), NOW)
    assert (kinds(found), found.needs_confirmation) == (["ask_stop"] * 3, ())


def test_too_many_early_stops_stop_nobody_and_name_them() -> None:
    found = plan(state(), crowd(4), NOW)
    assert found.steps == ()
    assert set(found.needs_confirmation) == {name_uuid(f"machine {number}") for number in range(4)}


def test_a_tenth_of_a_big_host_passes() -> None:
    stay = [machine(str(number)) for number in range(5, 50)]
    assert len(plan(state(*stay), crowd(50), NOW).steps) == 5
    assert plan(state(*stay[1:]), crowd(50), NOW).steps == ()


def test_stops_that_are_due_pass_in_any_number_beside_those_held_back() -> None:
    due = [running(f"due {number}", minutes=0) for number in range(9)]
    found = plan(state(), observed(*due, *crowd(4).machines), NOW)
    assert {step.machine for step in found.steps} == {each.machine for each in due}
    assert len(found.needs_confirmation) == 4


def test_confirmed_stops_do_not_count_and_only_those_pass() -> None:
    confirmed = [name_uuid(f"machine {number}") for number in range(4)]
    assert len(plan(state(confirmed_stops=confirmed), crowd(4), NOW).steps) == 4
    found = plan(state(confirmed_stops=confirmed), crowd(8), NOW)
    assert {step.machine for step in found.steps} == set(confirmed)
    assert len(found.needs_confirmation) == 4
