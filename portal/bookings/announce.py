"""Who hears of a change: the owner, open pages, and, where a person did it, the hosts. All after the commit."""

from datetime import datetime
from functools import partial
from typing import Any

from django.db import transaction
from django.urls import reverse

from portal import nudge
from portal.bookings import signals, wording
from portal.bookings.models import Placement, Reservation
from portal.bookings.states import Status
from portal.notices import actions as notices


def tell(reservation: Reservation, status: Status, *, now: datetime, wake: bool = True) -> None:
    """Tell about a new status; `wake` asks the hosts to look at once instead of at the next tick."""
    page = reverse("bookings:reservation", args=[reservation.pk])
    said = wording.notice(reservation, status)
    if said is not None:
        notices.tell(reservation.owner, said[1], now=now, url=page, level=said[0])
    nudge.user(reservation.owner_id, url=page)
    nudge.everyone(url=reverse("bookings:calendar"))
    if wake:
        hosts = list(Placement.objects.filter(reservation=reservation).values_list("gpu__host", flat=True).distinct())
        transaction.on_commit(partial(signals.changed.send, Reservation, host_ids=hosts))


def summary(reservation: Reservation) -> dict[str, Any]:
    """What the audit keeps of a booking."""
    return {
        "start": reservation.start.isoformat(),
        "end": reservation.end.isoformat(),
        "flavor": reservation.flavor.slug,
        "machine": str(reservation.machine_id),
        "project": reservation.project.name,
    }
