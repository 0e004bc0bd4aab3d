"""What bookings do when lower apps tell something."""

from datetime import datetime
from typing import Any

from django.dispatch import receiver

from portal.accounts.models import User
from portal.accounts.signals import deactivated
from portal.bookings import actions
from portal.bookings.errors import WrongState
from portal.bookings.models import Reservation
from portal.bookings.states import Status


@receiver(deactivated)
def give_back(sender: Any, user: User, by: User, now: datetime, **kwargs: Any) -> None:
    """Somebody who may no longer log in holds nothing."""
    for reservation in Reservation.objects.holding().filter(owner=user).exclude(status=Status.ENDING):
        try:
            actions.cancel(reservation, by=by, now=now)
        except WrongState:
            continue  # it has come to its end meanwhile
