"""The only writer of console tickets."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from portal.accounts.models import ApiToken, User
from portal.audit import actions as audit
from portal.bookings.rules import may_steer
from portal.bookings.states import Status
from portal.consoles.models import ConsoleTicket
from portal.consoles.rights import reservation_of
from portal.errors import Forbidden, NotVisible, Refused
from portal.machines.models import VirtualMachine

KEPT = timedelta(days=1)  # used and expired tickets, for whoever looks into an odd log-in


class NotRunning(Refused):
    """There is no screen to look at now."""

    code = "state"


class TicketRefused(Exception):
    """Unknown, used, too old, or not this browser's: which of them is not told."""


@dataclass(frozen=True)
class Issued:
    """A ticket as its bearer gets it; the secret is nowhere else."""

    secret: str
    expires: datetime


@transaction.atomic
def issue(
    machine: VirtualMachine, *, to: User, session_key: str, token: ApiToken | None = None, now: datetime
) -> Issued:
    """A ticket for the screen of a running machine. `session_key` empty: for a program with an API token."""
    if not VirtualMachine.objects.visible_to(to).filter(pk=machine.pk).exists():
        raise NotVisible("There is no such machine.")
    if not may_steer(machine.owner_id, machine.project_id, to):
        raise Forbidden("Only its owner, a manager of the project or an operator may use this machine's screen.")
    reservation = reservation_of(machine, now)
    if reservation is None or reservation.status != Status.ACTIVE:
        raise NotRunning("The machine is not running now, so it has no screen.")
    secret = secrets.token_urlsafe(32)
    expires = min(now + timedelta(seconds=settings.CONSOLE_TICKET_SECONDS), reservation.end)
    ConsoleTicket.objects.create(
        digest=digest(secret),
        machine=machine,
        reservation=reservation,
        user=to,
        session_key=session_key,
        token=token,
        created=now,
        expires=expires,
    )
    ConsoleTicket.objects.filter(expires__lt=now - KEPT).delete()
    audit.record(to, "asked for a console", machine, now=now, reservation=str(reservation.pk))
    return Issued(secret, expires)


@transaction.atomic
def redeem(secret: str, *, session_key: str, now: datetime) -> ConsoleTicket:
    """Use a ticket, once. One made in a browser's session opens nothing in any other."""
    live = ConsoleTicket.objects.filter(digest=digest(secret), used=None, expires__gt=now)
    if live.filter(session_key__in={"", session_key}).update(used=now) != 1:
        raise TicketRefused
    ticket = ConsoleTicket.objects.select_related("machine__host", "reservation", "user").get(digest=digest(secret))
    audit.record(ticket.user, "opened a console", ticket.machine, now=now, reservation=str(ticket.reservation_id))
    return ticket


def digest(secret: str) -> str:
    """What is stored of a secret of 256 random bits; a slow hash would add nothing."""
    return hashlib.sha256(secret.encode()).hexdigest()
