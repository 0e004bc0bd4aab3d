"""My machines, and their screens."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db.models import OuterRef, Prefetch, Subquery
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_POST, require_safe

from portal import clock
from portal.accounts.models import User
from portal.accounts.people import person
from portal.bookings import words
from portal.bookings.models import Reservation
from portal.bookings.rules import may_steer
from portal.bookings.states import HOLDING, RUNNING
from portal.consoles import actions
from portal.consoles.rights import reservation_of
from portal.consoles.socket import CONSOLE_PATH
from portal.errors import Refused
from portal.machines.models import VirtualMachine


@login_required
@never_cache
@require_safe
def machines(request: HttpRequest) -> HttpResponse:
    """Machines that this person may see, those that run first."""
    user, now = person(request), clock.now()
    rows = sorted((_row(machine, user, now) for machine in _kept(user)), key=lambda row: row["order"])
    template = (
        "consoles/machines.html#list" if request.headers.get("HX-Request") == "true" else "consoles/machines.html"
    )
    return render(request, template, {"rows": rows})


def _kept(user: User) -> Iterable[VirtualMachine]:
    held = (
        Reservation.objects.filter(status__in=sorted(HOLDING))
        .select_related("project", "flavor", "machine")
        .order_by("start")
    )
    ahead = Prefetch("reservations", queryset=held, to_attr="held")
    last = Reservation.objects.filter(machine=OuterRef("pk")).order_by("-start")
    related = VirtualMachine.objects.visible_to(user).kept().select_related("flavor", "owner", "project", "host")
    return (
        related.distinct()
        .prefetch_related(ahead)
        .annotate(last_id=Subquery(last.values("pk")[:1]), last_status=Subquery(last.values("status")[:1]))
    )


def _row(machine: VirtualMachine, user: User, now: datetime) -> dict[str, Any]:
    held: list[Reservation] = getattr(machine, "held", [])
    reservation = held[0] if held else None
    row = {
        "machine": machine,
        "reservation": reservation,
        "others": machine.owner_id != user.pk,
        "simulated": bool(machine.host and machine.host.simulated),
        "state": reservation.get_status_display() if reservation else machine.get_state_display(),
        "tone": reservation.status if reservation else machine.state,
        "order": _order(machine, reservation, user),
    }
    if reservation is None:
        return row | {"last_word": (getattr(machine, "last_status", None) or "").replace("_", " ")}
    return row | words.counted(reservation, now) | {"can": words.rights(reservation, user)}


def _order(machine: VirtualMachine, reservation: Reservation | None, user: User) -> tuple[bool, bool, float]:
    """Running ones first, then by start, then those without a booking; other people's after one's own."""
    running = reservation is not None and reservation.status in RUNNING
    when = reservation.start if reservation else None
    return (machine.owner_id != user.pk, not running, when.timestamp() if when else float("inf"))


@login_required
@never_cache
@ensure_csrf_cookie
@require_safe
def console(request: HttpRequest, machine_id: UUID) -> HttpResponse:
    """The page with a machine's screen. It gets its ticket by a POST of its own, just before it connects."""
    machine, now = _visible(request, machine_id), clock.now()
    if not may_steer(machine.owner_id, machine.project_id, person(request)):
        raise PermissionDenied  # a screen may show somebody's open session
    reservation = reservation_of(machine, now)
    places = reservation.placements.select_related("gpu__host") if reservation else ()
    simulated = any(place.gpu.host.simulated for place in places)
    page = {"machine": machine, "reservation": reservation, "simulated": simulated}
    return render(request, "consoles/console.html", page | (words.counted(reservation, now) if reservation else {}))


@login_required
@never_cache
@require_POST
@sensitive_variables("issued")
def ticket(request: HttpRequest, machine_id: UUID) -> JsonResponse:
    """A ticket for one connection, bound to this session."""
    try:
        issued = actions.issue(
            _visible(request, machine_id),
            to=person(request),
            session_key=request.session.session_key or "",
            now=clock.now(),
        )
    except Refused as refused:
        return JsonResponse({"code": refused.code, "detail": refused.detail}, status=refused.status)
    return JsonResponse({"ticket": issued.secret, "path": CONSOLE_PATH, "expires": issued.expires.isoformat()})


def _visible(request: HttpRequest, machine_id: UUID) -> VirtualMachine:
    """The machine, or a 404 that looks the same for "none" and "not yours"."""
    return get_object_or_404(VirtualMachine.objects.visible_to(person(request)).kept().distinct(), pk=machine_id)
