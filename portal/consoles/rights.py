"""May this console stay open? Asked when it opens, every few seconds, and when something changes. Reads only."""

from __future__ import annotations

from datetime import datetime
from importlib import import_module

from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.utils.crypto import constant_time_compare

from portal.accounts.models import ApiToken, User
from portal.bookings.models import Reservation
from portal.bookings.rules import may_steer
from portal.bookings.states import RUNNING, Status
from portal.consoles.models import ConsoleTicket
from portal.consoles.socket import SocketEnd
from portal.machines.models import VirtualMachine

RIGHT_LOST = 4403
NOT_RUNNING = 4409
ENDED = 4410


def reservation_of(machine: VirtualMachine, now: datetime) -> Reservation | None:
    """The reservation that lets the machine run now."""
    running = Reservation.objects.filter(machine=machine, status__in=sorted(RUNNING), end__gt=now)
    return running.order_by("start").first()


def objection(ticket: ConsoleTicket, now: datetime) -> SocketEnd | None:
    """Why a console opened with this ticket must be closed, or None. Everything is read afresh."""
    user = User.objects.filter(pk=ticket.user_id, is_active=True).first()
    if user is None or (ticket.session_key and not _is_session_of(user, ticket.session_key)):
        return logged_out()
    if ticket.token_id is not None and not _is_live(ticket.token_id, now):
        return SocketEnd(RIGHT_LOST, "The API token was withdrawn or is past its life.")
    machine = VirtualMachine.objects.get(pk=ticket.machine_id)
    if not may_steer(machine.owner_id, machine.project_id, user):
        return SocketEnd(RIGHT_LOST, "You may not use this machine's screen any more.")
    reservation = Reservation.objects.filter(pk=ticket.reservation_id).first()
    if reservation is None or reservation.end <= now or reservation.status not in (Status.STARTING, Status.ACTIVE):
        return SocketEnd(ENDED, "The reservation has ended.")
    if reservation.status != Status.ACTIVE:
        return SocketEnd(NOT_RUNNING, "The machine is not running.")
    return None


def logged_out() -> SocketEnd:
    """The browser's session is over."""
    return SocketEnd(RIGHT_LOST, "You are logged out.")


def is_logged_in(user_id: int, session_key: str) -> bool:
    """May a page of this session still be told things?"""
    user = User.objects.filter(pk=user_id, is_active=True).first()
    return user is not None and _is_session_of(user, session_key)


def _is_live(token_id: int, now: datetime) -> bool:
    token = ApiToken.objects.select_related("user").filter(pk=token_id).first()
    return token is not None and token.live(now)


def _is_session_of(user: User, session_key: str) -> bool:
    """Is the session still there, still this user's, and made with the present password?"""
    session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    if session.get(SESSION_KEY) != str(user.pk):
        return False
    return constant_time_compare(session.get(HASH_SESSION_KEY, ""), user.get_session_auth_hash())
