"""The only writer of host states and step logs: whose turn it is to talk to a host, and what operators confirm.

A turn is a generation. It is committed before the host is called, so that no second call can ever carry the same
number; whoever was frozen meanwhile finds the number taken, here (Superseded) and on the host (stale_generation).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.urls import reverse

from portal import nudge
from portal.accounts.models import User
from portal.audit import actions as audit
from portal.bookings import locks as booking_locks
from portal.bookings.locks import Deadline
from portal.enforcement import locks, reading, signals
from portal.enforcement.models import HostState, StepLog
from portal.enforcement.report import Report, Step
from portal.errors import Forbidden, Refused
from portal.inventory import actions as inventory
from portal.inventory.models import Host

STEPS_KEPT = timedelta(days=30)
WAITS = "wait"
"""A change of a card that waits for its holders: nothing was done, and the report says so anew each time."""


class Superseded(Exception):
    """Somebody else has talked to the host since; what this turn brings is old and is dropped."""


class StopNotAsked(Refused):
    """A confirmation for a machine that the host does not ask about (any more)."""

    code = "changed"


@dataclass(frozen=True)
class Turn:
    """Leave to talk to one host, under one generation."""

    host: Host
    generation: int
    began: datetime


def lease_length() -> timedelta:
    """How long a frozen holder is waited for; it is renewed while the host is awaited, so it may be short."""
    return timedelta(seconds=max(2 * settings.TICK_SECONDS, 10))


@transaction.atomic
def take_turn(host: Host, *, asked: datetime, now: datetime) -> Turn | None:
    """Take the host's next generation. None: a pass that began after `asked` was made already, or one is under way.

    A host that was removed meanwhile has no turns: it may be another portal's by now.
    """
    if host.removed is not None:
        return None
    HostState.objects.get_or_create(host=host)
    state = _locked(host)
    if state.lease_until is None and state.last_call is not None and state.last_call > asked:
        return None
    if _is_busy(state, now):
        HostState.objects.filter(pk=host.pk).update(skipped=state.skipped + 1)
        return None
    turn = Turn(host, state.generation + 1, now)
    HostState.objects.filter(pk=host.pk).update(
        generation=turn.generation, lease_until=now + lease_length(), last_call=now, skipped=0
    )
    locks.hold(host.pk, turn.generation)
    return turn


def _is_busy(state: HostState, now: datetime) -> bool:
    if state.lease_until is None or state.lease_until <= now:
        return False
    return not locks.is_abandoned(state.host_id, state.generation)


def _locked(host: Host) -> HostState:
    locks.limit_transaction()
    return HostState.objects.select_for_update().get(host=host)


def fence(turn: Turn) -> HostState:
    """Inside a transaction: the host's row, locked, if the turn is still ours; Superseded otherwise."""
    state = _locked(turn.host)
    if state.generation != turn.generation:
        raise Superseded(f"{turn.host}: generation {turn.generation} was overtaken by {state.generation}.")
    return state


@transaction.atomic
def renew_turn(turn: Turn, *, now: datetime) -> None:
    """Still awaiting the host."""
    fence(turn)
    HostState.objects.filter(pk=turn.host.pk).update(lease_until=now + lease_length())


def end_turn(turn: Turn) -> None:
    """Others may talk to the host now."""
    HostState.objects.filter(pk=turn.host.pk, generation=turn.generation).update(lease_until=None)
    locks.let_go(turn.host.pk, turn.generation)


@transaction.atomic
def record_failure(turn: Turn, error: Mapping[str, Any], *, now: datetime) -> None:
    """The call did not work: the last good report stays, the error is shown beside it."""
    fence(turn)
    HostState.objects.filter(pk=turn.host.pk).update(last_error=dict(error))
    nudge.everyone(url=reverse("enforcement:hosts"))


def record_answer(
    turn: Turn, document: Mapping[str, Any], report: Report, *, drift_seconds: float, now: datetime
) -> None:
    """Inside the recording transaction, after `fence`: the answer itself, and what vmctl did."""
    state = HostState.objects.get(host=turn.host)
    there = {str(machine.machine) for machine in report.machines}
    HostState.objects.filter(pk=turn.host.pk).update(
        last_success=now,
        last_error=None,
        report=dict(document),
        drift_seconds=drift_seconds,
        needs_confirmation=[str(one) for one in report.needs_confirmation if str(one) not in state.confirmed],
        confirmed=[machine for machine in state.confirmed if machine in there],
    )
    _log_steps(turn, report.steps, now)


def _log_steps(turn: Turn, steps: Iterable[Step], now: datetime) -> None:
    StepLog.objects.bulk_create(
        StepLog(
            host=turn.host,
            at=now,
            generation=turn.generation,
            kind=step.kind[:30],
            machine=step.machine,
            subject=step.subject,
            done=step.done,
            error=dict(step.error) if step.error else None,
        )
        for step in steps
        if step.kind != WAITS and not _was_said(turn, step)
    )
    StepLog.objects.filter(host=turn.host, at__lt=now - STEPS_KEPT).delete()


def _was_said(turn: Turn, step: Step) -> bool:
    """Does the log end with the same failure of the same step? One that lasts is told once, not at every tick."""
    if not step.error:
        return False
    same = StepLog.objects.filter(host=turn.host, kind=step.kind[:30], machine=step.machine, subject=step.subject)
    return same.order_by("-at").values_list("error", flat=True).first() == dict(step.error)


@transaction.atomic
def confirm_stops(host: Host, machines: Collection[UUID], *, by: User, now: datetime) -> None:
    """An operator lets exactly these machines be stopped ahead of the end they were started for.

    Only machines the host asked about in its last answer; one name too many, and nothing is confirmed.
    """
    if not by.is_operator:
        raise Forbidden("Only operators confirm stops.")
    state = _locked(host)
    wanted = {str(machine) for machine in machines}
    strange = wanted - set(state.needs_confirmation)
    if strange or not wanted:
        raise StopNotAsked("The list has changed since the page was loaded; look at it again.")
    HostState.objects.filter(pk=host.pk).update(
        confirmed=sorted(wanted | set(state.confirmed)),
        needs_confirmation=[machine for machine in state.needs_confirmation if machine not in wanted],
    )
    audit.record(by, "confirmed stops", host, now=now, machines=sorted(wanted))
    transaction.on_commit(partial(signals.wanted.send, HostState, host_ids=[host.pk]))


@transaction.atomic
def raise_generation(host: Host, *, above: int, by: User | None, now: datetime) -> int:
    """After the database was restored: go on above the number the host has obeyed last. Answers the new number."""
    HostState.objects.get_or_create(host=host)
    state = _locked(host)
    if state.generation < above:
        HostState.objects.filter(pk=host.pk).update(generation=above)
        audit.record(by, "raised generation", host, now=now, old=state.generation, new=above)
    return max(state.generation, above)


@transaction.atomic
def remove_host(host: Host, *, lost: bool = False, by: User | None, now: datetime) -> None:
    """Take a host away for good, if nothing of ours is on it. lost: it will never answer again, see reading.in_the_way.

    Its pools are locked first, so that nobody books there meanwhile.
    """
    booking_locks.acquire(None, host.pools.values_list("pk", flat=True), Deadline(settings.LOCK_TIMEOUT_SECONDS))
    there = reading.in_the_way(host, lost=lost)
    if there:
        raise Refused(f"{host} is not removed, as this is still there:\n" + "\n".join(f"- {line}" for line in there))
    inventory.remove_host(host, by=by, now=now)


@transaction.atomic
def ask_look(host: Host, *, by: User, now: datetime) -> None:
    """Call the host now, not at the next tick, as the service's own account does; its answer is on the page then."""
    if not by.is_operator:
        raise Forbidden("Only operators call hosts.")
    audit.record(by, "called", host, now=now)
    transaction.on_commit(partial(signals.wanted.send, HostState, host_ids=[host.pk]))
