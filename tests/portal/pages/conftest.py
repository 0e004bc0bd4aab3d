"""Pages ask the database's clock, so their world is made now."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.test import Client

from portal import clock
from portal.accounts.models import User
from portal.bookings import actions as bookings
from portal.bookings import rules
from portal.bookings.models import Reservation
from portal.bookings.rules import Wish
from portal.bookings.states import Status
from tests import make

LogIn = Callable[[User], Client]


@pytest.fixture
def world(db: None) -> make.World:
    """The usual world, seen a moment ago."""
    return make.world(clock.now())


@pytest.fixture
def step(db: None) -> datetime:
    """The first step of the calendar that lies ahead."""
    return rules.next_step(clock.now() + timedelta(seconds=1), rules.policy())


@pytest.fixture
def logged_in() -> LogIn:
    """A browser in which this person is logged in."""

    def log_in(user: User) -> Client:
        client = Client()
        client.force_login(user)
        return client

    return log_in


@pytest.fixture
def booked(world: make.World, step: datetime) -> Reservation:
    """Ada has a small share for two hours from the next step on."""
    wish = Wish(flavor=world.small, image=world.image, start=step, end=step + timedelta(hours=2))
    return bookings.book(wish, by=world.people.ada, now=clock.now())


@pytest.fixture
def running(world: make.World, step: datetime) -> Reservation:
    """Ada's machine runs, for two hours from now."""
    wish = Wish(flavor=world.small, image=world.image, end=step + timedelta(hours=2))
    reservation = bookings.book(wish, by=world.people.ada, now=clock.now())
    for old, new in ((Status.BOOKED, Status.STARTING), (Status.STARTING, Status.ACTIVE)):
        assert bookings.move(reservation, old, new, now=clock.now())
    return reservation
