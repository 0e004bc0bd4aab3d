"""The calendar, the booking form, the reservation page."""

from datetime import date, datetime, time, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from portal import clock
from portal.accounts.people import person
from portal.bookings import actions, plane, rules, shares, words
from portal.bookings.forms import BookForm, first_guess
from portal.bookings.models import Reservation
from portal.errors import Refused

LONGEST_WINDOW = timedelta(days=40)  # what the calendar may ask for at once


@login_required
@never_cache
@require_safe
def calendar(request: HttpRequest) -> HttpResponse:
    """The timeline; the same day as a list for phones and for browsers without a script."""
    now = timezone.localtime(clock.now())
    day = _day(request.GET.get("day"), now.date())
    start, end = _midnight(day), _midnight(day + timedelta(days=1))
    page = {
        "agenda": plane.agenda(plane.cards(), plane.tiles(person(request), start, end), start, end),
        "day": day,
        "day_before": day - timedelta(days=1),
        "day_after": day + timedelta(days=1),
        "today": now.date(),
        "slot_minutes": settings.SLOT_MINUTES,
        "now_local": now.isoformat(timespec="seconds")[:19],
        "offset": now.isoformat()[-6:],
    }
    return render(request, "bookings/calendar.html#agenda" if _is_fragment(request) else "bookings/calendar.html", page)


@login_required
@require_safe
def resources(request: HttpRequest) -> JsonResponse:
    """Hosts, GPUs and shares: the rows of the timeline."""
    return JsonResponse(shares.resources(plane.cards()), safe=False)


@login_required
@require_safe
def events(request: HttpRequest) -> JsonResponse:
    """Tiles between two times. `start` and `end` are ISO 8601; without an offset they are meant in the page's zone."""
    start, end = _moment(request.GET.get("start")), _moment(request.GET.get("end"))
    if start is None or end is None or not start < end <= start + LONGEST_WINDOW:
        return JsonResponse({"code": "bad_request", "detail": "Give start and end, at most 40 days apart."}, status=400)
    shown = plane.cards()
    tiles = plane.tiles(person(request), start, end)
    return JsonResponse([*shares.events(shown, tiles), *plane.out_of_use(start, end)], safe=False)


@login_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_variables("form")
def book(request: HttpRequest) -> HttpResponse:
    """The form: as a page of its own, or inside the calendar's dialog."""
    user = person(request)
    if request.method != "POST":
        form = BookForm(user=user, initial=first_guess(user, request.GET.dict(), clock.now()))
        return _book_page(request, form)
    form = BookForm(request.POST, user=user)
    if not form.is_valid():
        return _book_page(request, form, status=422)
    try:
        reservation = actions.book(form.wish(), by=user, now=clock.now())
    except Refused as refused:
        again = _suggestions(form, refused)
        return _book_page(request, form, refusal=form.refuse(refused), suggestions=again, status=refused.status)
    if _is_fragment(request):
        answer = render(request, "bookings/book.html#booked", {"reservation": reservation})
        answer.headers["HX-Trigger"] = "booked"
        return answer
    return redirect("bookings:reservation", reservation.pk)


def _book_page(request: HttpRequest, form: BookForm, *, status: int = 200, **context: Any) -> HttpResponse:
    template = "bookings/book.html#form" if _is_fragment(request) else "bookings/book.html"
    return render(request, template, {"form": form} | context, status=status)


def _suggestions(form: BookForm, refused: Refused) -> list[dict[str, str]]:
    """The same wish at the times that would work: an address that fills the form, and its label."""
    wish = form.wish()
    length = wish.end - (wish.start or clock.now())
    found = []
    for text in refused.suggestions:
        start = timezone.localtime(datetime.fromisoformat(text))
        end = rules.next_step(start + length, rules.policy())
        times = {"start": start.isoformat(timespec="minutes"), "end": end.isoformat(timespec="minutes")}
        kept = {name: form.data.get(name, "") for name in ("flavor", "machine", "image", "project", "disposable")}
        label = f"{start:%a} {start.day} {start:%b, %H:%M} {start.tzname()}"
        found.append({"url": f"{reverse('bookings:book')}?{urlencode(kept | times)}", "label": label})
    return found


@login_required
@never_cache
@require_safe
def reservation(request: HttpRequest, reservation_id: UUID) -> HttpResponse:
    """One reservation: state in words, progress, time left, placement, what can be done."""
    return _reservation_page(request, _visible(request, reservation_id))


def _reservation_page(request: HttpRequest, shown: Reservation, **context: Any) -> HttpResponse:
    user, now = person(request), clock.now()
    placements = shown.placements.select_related("gpu__host")
    page = {
        "reservation": shown,
        "placements": placements,
        "simulated": any(placement.gpu.host.simulated for placement in placements),
        "words": words.words(shown),
        "tone": words.tone(shown),
        "life": words.life(shown),
        "can": words.rights(shown, user),
        "mine": shown.owner_id == user.pk,
        "end_unconfirmed": words.end_unconfirmed(shown),
    }
    template = "bookings/reservation.html#body" if _is_fragment(request) else "bookings/reservation.html"
    return render(request, template, page | words.counted(shown, now) | context)


@login_required
@require_POST
def cancel(request: HttpRequest, reservation_id: UUID) -> HttpResponse:
    """Give a booking back before it starts."""
    return _do(request, actions.cancel, reservation_id, "Cancelled. The share is free again.")


@login_required
@require_POST
def end(request: HttpRequest, reservation_id: UUID) -> HttpResponse:
    """End a running reservation now."""
    return _do(request, actions.end_now, reservation_id, "Ending: the machine is being shut down.")


def _do(request: HttpRequest, verb: Any, reservation_id: UUID, done: str) -> HttpResponse:
    shown = _visible(request, reservation_id)
    try:
        verb(shown, by=person(request), now=clock.now())
    except Refused as refused:
        messages.error(request, refused.detail)
    else:
        messages.success(request, done)
    return redirect("bookings:reservation", reservation_id)


@login_required
@never_cache
@require_POST
@sensitive_variables("password")
def reveal(request: HttpRequest, reservation_id: UUID) -> HttpResponse:
    """Show the guest's password, this once."""
    shown = _visible(request, reservation_id)
    try:
        password = actions.reveal_password(shown, by=person(request), now=clock.now())
    except Refused as refused:
        messages.error(request, refused.detail)
        return redirect("bookings:reservation", reservation_id)
    return _reservation_page(request, _visible(request, reservation_id), password=password)


def _visible(request: HttpRequest, reservation_id: UUID) -> Reservation:
    """The reservation, or a 404 that looks the same for "none" and "not yours"."""
    related = Reservation.objects.select_related("machine", "project", "owner", "created_by", "flavor", "image")
    return get_object_or_404(related.visible_to(person(request)), pk=reservation_id)


def _is_fragment(request: HttpRequest) -> bool:
    return request.headers.get("HX-Request") == "true"


def _day(text: str | None, today: date) -> date:
    try:
        asked = date.fromisoformat(text or "")
    except ValueError:
        return today
    return asked if 2000 <= asked.year <= 2100 else today


def _midnight(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day, time()))


def _moment(text: str | None) -> datetime | None:
    """ISO 8601 as a moment; naive times are wall clock of the page's zone."""
    try:
        moment = parse_datetime(text or "")
        return timezone.make_aware(moment) if moment and timezone.is_naive(moment) else moment
    except (ValueError, OverflowError):
        return None
