"""What a reservation's state means, in sentences; and what the person who looks may do with it."""

from dataclasses import dataclass
from datetime import datetime

from portal.accounts.models import User
from portal.bookings import rules
from portal.bookings.models import Reservation
from portal.bookings.states import MOVES, Mover, Status

LIFE = (Status.BOOKED, Status.STARTING, Status.ACTIVE, Status.ENDING, Status.ENDED)
BY_PEOPLE = (Mover.OWNER, Mover.EITHER)
MINUTE, HOUR, DAY = 60, 3600, 86400

WORDS: dict[str, str] = {
    Status.REQUESTED: "Waits for approval. The share is kept for you meanwhile.",
    Status.OFFERED: "A share has become free for you. Take it, or it goes to the next person.",
    Status.BOOKED: "Booked. The machine starts by itself at the start of the period.",
    Status.STARTING: "Starting: the host gives the machine its vGPU and switches it on. That takes seconds to minutes.",
    Status.ACTIVE: "Running. At the end of the period it is asked to shut down, and switched off if it does not.",
    Status.ENDING: "Ending: the machine is shutting down. The share becomes free once the host has it back.",
    Status.ENDED: "Ended. The share is free again.",
    Status.DECLINED: "Declined. Nothing was booked.",
    Status.EXPIRED: "Nobody approved this in time, so nothing was booked.",
    Status.CANCELLED: "Cancelled before it began.",
    Status.MISSED: "The machine could not start in its whole period. It is not counted against you.",
    Status.FAILED: "The machine failed to start. You can book again; an operator sees the reason on the hosts page.",
    Status.DISPLACED: "An operator had to give your share away. Please book another time.",
    Status.NO_SHOW: "Nobody used the machine, so the share was given back.",
}
TONES = {
    Status.FAILED: "note-error",
    Status.MISSED: "note-error",
    Status.DISPLACED: "note-warning",
    Status.ACTIVE: "note-success",
}
COUNTED = {Status.BOOKED: "Starts in", Status.STARTING: "Time left", Status.ACTIVE: "Time left"}


def words(reservation: Reservation) -> str:
    """The state as a sentence."""
    if reservation.status == Status.ENDED and not reservation.disposable:
        return f"{WORDS[Status.ENDED]} The machine's disk is kept: book it again to go on."
    return WORDS[reservation.status]


def tone(reservation: Reservation) -> str:
    """The colour of that sentence."""
    return TONES.get(Status(reservation.status), "")


def end_unconfirmed(reservation: Reservation) -> bool:
    """The host last reported another end than the one planned now, so it may still act on that."""
    running = reservation.status in (Status.ACTIVE, Status.STARTING)
    return running and reservation.confirmed_end is not None and reservation.confirmed_end != reservation.end


def life(reservation: Reservation) -> list[dict[str, object]]:
    """The five steps of an ordinary life; empty for one that ended otherwise."""
    if reservation.status not in LIFE:
        return []
    at = LIFE.index(Status(reservation.status))
    return [{"name": step.value, "done": number < at, "current": number == at} for number, step in enumerate(LIFE)]


def counted(reservation: Reservation, now: datetime) -> dict[str, object]:
    """What counts down: to the start while booked, to the end while it runs; empty otherwise."""
    if reservation.status not in COUNTED:
        return {}
    to = reservation.start if reservation.status == Status.BOOKED else reservation.end
    return {
        "count_label": COUNTED[Status(reservation.status)],
        "count_to": to,
        "count_now": in_words((to - now).total_seconds()),
    }


def in_words(seconds: float) -> str:
    """A length of time as the pages' script writes it too: "2 h 05 min"."""
    left = max(0, int(seconds))
    if left >= DAY:
        return f"{left // DAY} d {left % DAY // HOUR:02} h"
    if left >= HOUR:
        return f"{left // HOUR} h {left % HOUR // MINUTE:02} min"
    return f"{left // MINUTE} min {left % MINUTE:02} s" if left >= MINUTE else f"{left} s"


@dataclass(frozen=True)
class Rights:
    """Which buttons make sense. The action decides again, under its lock."""

    cancel: bool = False
    end: bool = False
    console: bool = False
    reveal: bool = False
    book_again: bool = False


def rights(reservation: Reservation, user: User) -> Rights:
    """What this person may do with this reservation now."""
    moves = MOVES[Status(reservation.status)]
    mine = reservation.owner_id == user.pk
    steers = rules.may_steer(reservation.owner_id, reservation.project_id, user)
    return Rights(
        cancel=steers and moves.get(Status.CANCELLED) in BY_PEOPLE,
        end=steers and moves.get(Status.ENDING) in BY_PEOPLE,
        console=steers and reservation.status == Status.ACTIVE,
        reveal=mine and bool(reservation.password_sealed),
        book_again=mine and not moves and not reservation.disposable and reservation.machine.deleted is None,
    )
