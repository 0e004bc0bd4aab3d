"""What the owner of a reservation is told when it changes. What a host did, enforcement tells: it knows why."""

from datetime import datetime

from portal.accounts.models import User
from portal.bookings.models import Reservation
from portal.bookings.states import Status
from portal.notices.models import Level

SENTENCES: dict[Status, tuple[Level, str]] = {
    Status.BOOKED: (Level.INFO, "Your machine {host} is booked from {start} to {end}."),
    Status.ENDING: (Level.INFO, "Your machine {host} is shutting down."),
    Status.DECLINED: (Level.WARNING, "Your request for {host} was declined. {reason}"),
    Status.EXPIRED: (Level.WARNING, "Your request for {host} was not approved in time."),
    Status.CANCELLED: (Level.INFO, "The booking of {host} from {start} is cancelled."),
    Status.FAILED: (Level.ERROR, "Your machine {host} failed. {reason}"),
    Status.DISPLACED: (Level.ERROR, "Your booking of {host} from {start} had to make way. {reason}"),
    Status.NO_SHOW: (Level.WARNING, "Your machine {host} was given back because nobody used it."),
}


def notice(reservation: Reservation, status: Status) -> tuple[Level, str] | None:
    """Level and sentence in the owner's time zone; None: nothing to tell here."""
    if status not in SENTENCES:
        return None
    level, sentence = SENTENCES[status]
    owner = reservation.owner
    words = {
        "host": reservation.machine.hostname,
        "start": local(reservation.start, owner),
        "end": local(reservation.end, owner),
        "reason": reservation.reason,
    }
    return level, sentence.format(**words).strip()


def local(moment: datetime, user: User) -> str:
    """A time as this person reads it, with the zone's name."""
    return moment.astimezone(user.zone).strftime("%Y-%m-%d %H:%M %Z")
