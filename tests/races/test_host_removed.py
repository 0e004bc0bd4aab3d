"""Somebody books on a host while an operator removes it: one of the two is told no. And the control: without the lock
both are done, and the booking can never start."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from threading import Event
from typing import Any
from unittest.mock import patch

import pytest

from portal import clock
from portal.bookings import actions as bookings
from portal.bookings import locks, orders, rules
from portal.bookings.errors import Busy
from portal.bookings.models import Reservation
from portal.bookings.rules import Wish
from portal.enforcement import actions as enforcement
from portal.errors import Refused
from portal.inventory.models import Host
from portal.machines import actions as machines
from tests import make
from tests.races.crowd import together

pytestmark = pytest.mark.timeout(120)
HELD_SECONDS = 0.5  # how long the booking keeps its locks, with the removal waiting for them


def wish(here: make.World) -> Wish:
    start = rules.next_step(clock.now() + timedelta(minutes=1), rules.policy())
    return Wish(flavor=here.small, image=here.image, start=start, end=start + timedelta(hours=1))


def book(here: make.World, reached: Event, removed: Event) -> str:
    """A booking that has its locks and its place, and waits a moment before it is written."""
    make_machine = machines.make

    def slow(**order: Any) -> Any:
        reached.set()
        removed.wait(timeout=HELD_SECONDS)
        return make_machine(**order)

    with patch.object(machines, "make", slow):
        bookings.book(wish(here), by=here.people.ada, now=clock.now())
    return "booked"


def remove(here: make.World, reached: Event, removed: Event) -> str:
    assert reached.wait(timeout=30)
    try:
        enforcement.remove_host(here.host, by=here.people.olga, now=clock.now())
    except Refused:
        return "refused"
    finally:
        removed.set()
    return "removed"


def race(here: make.World) -> list[str]:
    events = Event(), Event()
    deeds: list[Callable[[], str]] = [partial(deed, here, *events) for deed in (book, remove)]
    return together(deeds)


def test_a_host_that_is_being_booked_is_not_removed(here: make.World) -> None:
    assert race(here) == ["booked", "refused"]
    assert Host.objects.get().enabled


def test_a_host_that_is_removed_meanwhile_is_not_booked(here: make.World) -> None:
    """What can be booked is read before any lock; whoever is slow from there on is told."""
    order = orders.prepare(wish(here), by=here.people.ada, now=clock.now())
    enforcement.remove_host(here.host, by=here.people.olga, now=clock.now())
    with patch.object(orders, "prepare", lambda *args, **kwargs: order), pytest.raises(Busy):
        bookings.book(order.wish, by=here.people.ada, now=clock.now())
    assert not Reservation.objects.exists()


def test_the_race_is_real(here: make.World) -> None:
    acquire = locks.acquire

    def for_bookings_alone(project: int | None, pools: Any, deadline: Any) -> None:
        if project is not None:
            acquire(project, pools, deadline)

    with patch.object(locks, "acquire", for_bookings_alone):
        assert race(here) == ["booked", "removed"]
