"""Ends machines at their end while the portal is silent. A timer calls it; while the portal calls, it does nothing."""

from datetime import datetime, timedelta

from vmctl import observe, state
from vmctl.answers.report import Outcome, report_json
from vmctl.documents import Json
from vmctl.errors import Code, VmctlError
from vmctl.hypervisor import Hypervisor, connect
from vmctl.machine import stop
from vmctl.observation import ObservedMachine
from vmctl.plan.reconcile import CUT_OFF
from vmctl.plan.steps import AskStop, ForceStop
from vmctl.site import Site
from vmctl.state import Memory

REASON = "its period is over and the portal is silent"


def expire(site: Site, now: datetime) -> Json:
    """Ask machines past their end to shut down; switch off those past max(promised, end + grace).

    Acts only when the portal has not called for its allowance; a guest that an acceptance left behind ends at once.
    Takes nothing but power.
    """
    with state.locked(site.lock), connect(site.libvirt_uri) as hypervisor:
        memory = state.recall(site.host.state_dir)
        observed = observe.observe(site, hypervisor, None if memory is None else memory.portal, now)
        steps: list[AskStop | ForceStop] = [ForceStop(each, CUT_OFF) for each in observed.machines if _cut_off(each)]
        if memory is not None and silent(memory, now):
            ending = (each for each in observed.machines if not _cut_off(each))
            steps += [step for machine in ending for step in due(machine, memory, now)]
        if not steps:
            return report_json(observed, memory)
        outcomes = [_carry_out(hypervisor, step, now) for step in steps]
        after = observe.observe(site, hypervisor, None if memory is None else memory.portal, now)
    return report_json(after, memory, outcomes)


def _cut_off(machine: ObservedMachine) -> bool:
    """Whether it is an acceptance's guest: that holds the lock while its guest lives, so nobody needs this one."""
    return machine.mark.by_acceptance


def silent(memory: Memory, now: datetime) -> bool:
    """Whether the portal has been away for longer than it allowed itself."""
    return now - memory.last_call > timedelta(seconds=memory.expire_allowance_seconds)


def due(machine: ObservedMachine, memory: Memory, now: datetime) -> tuple[AskStop | ForceStop, ...]:
    """What is due for one machine. Pure."""
    mark = machine.mark
    if now < mark.end:
        return ()
    patience = mark.end + timedelta(seconds=memory.stop_grace_seconds)
    if now < max(patience, mark.promised or patience):
        return (AskStop(machine, REASON),)
    return (ForceStop(machine, REASON),)


def _carry_out(hypervisor: Hypervisor, step: AskStop | ForceStop, now: datetime) -> Outcome:
    try:
        if isinstance(step, ForceStop):
            stop.force(hypervisor, step.observed)
        else:
            stop.ask(hypervisor, step.observed, now)
    except VmctlError as error:
        if error.code == Code.UNREACHABLE:
            raise
        return Outcome(step, error=error)
    return Outcome(step, done=True)
