"""Ends machines at their end while the portal is silent. A timer calls it; while the portal calls, it does nothing."""

from datetime import datetime, timedelta

from vmctl import observe, state
from vmctl.answers.report import Outcome, report_json
from vmctl.documents import Json
from vmctl.errors import Code, VmctlError
from vmctl.hypervisor import Hypervisor, connect
from vmctl.machine import stop
from vmctl.observation import ObservedMachine
from vmctl.plan.steps import AskStop, ForceStop
from vmctl.site import Site
from vmctl.state import Memory

REASON = "its period is over and the portal is silent"


def expire(site: Site, now: datetime) -> Json:
    """Ask machines past their end to shut down; switch off those past max(promised, end + grace).

    Acts only when the portal has not called for its allowance; takes nothing but power.
    """
    with state.locked(site.lock), connect(site.libvirt_uri) as hypervisor:
        memory = state.recall(site.host.state_dir)
        observed = observe.observe(site, hypervisor, None if memory is None else memory.portal, now)
        if memory is None or not silent(memory, now):
            return report_json(observed, memory)
        steps = [step for machine in observed.machines for step in due(machine, memory, now)]
        outcomes = [_carry_out(hypervisor, step, now) for step in steps]
        after = observe.observe(site, hypervisor, memory.portal, now)
    return report_json(after, memory, outcomes)


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
