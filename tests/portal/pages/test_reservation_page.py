"""One reservation: what is said about it, and what can be done with it."""

import re
from datetime import timedelta

import pytest
from django.urls import reverse

from portal import clock
from portal.bookings import actions as bookings
from portal.bookings.models import Reservation
from portal.bookings.states import Status
from portal.bookings.words import WORDS, in_words
from tests import make
from tests.portal.pages.conftest import LogIn


def address(reservation: Reservation, verb: str = "reservation") -> str:
    return reverse(f"bookings:{verb}", args=[reservation.pk])


def test_every_state_has_its_sentence() -> None:
    assert set(WORDS) == set(Status)


def test_the_password_is_shown_once_to_its_owner(running: Reservation, world: make.World, logged_in: LogIn) -> None:
    browser = logged_in(world.people.ada)
    assert "Show the password" in browser.get(address(running)).content.decode()
    shown = browser.post(address(running, "reveal"))
    password = re.search(r'id="password">([^<]+)<', shown.content.decode())
    assert password
    assert "no-store" in shown.headers["Cache-Control"]
    assert password[1] not in browser.get(address(running)).content.decode()
    again = browser.post(address(running, "reveal"), follow=True)
    assert "shown already" in again.content.decode()


def test_nobody_else_is_offered_the_password(running: Reservation, world: make.World, logged_in: LogIn) -> None:
    for other in (world.people.ben, world.people.olga):
        page = logged_in(other).get(address(running)).content.decode()
        assert "Show the password" not in page
        assert "Only the owner can see the password" in page


def test_a_booking_is_cancelled(booked: Reservation, world: make.World, logged_in: LogIn) -> None:
    browser = logged_in(world.people.ada)
    assert "Cancel the booking" in browser.get(address(booked)).content.decode()
    page = browser.post(address(booked, "cancel"), follow=True).content.decode()
    assert "The share is free again." in page
    booked.refresh_from_db()
    assert booked.status == Status.CANCELLED


def test_a_running_one_is_ended(running: Reservation, world: make.World, logged_in: LogIn) -> None:
    browser = logged_in(world.people.ada)
    page = browser.get(address(running)).content.decode()
    assert "End now" in page
    assert "Open the console" in page
    assert "Time left" in page
    browser.post(address(running, "end"))
    running.refresh_from_db()
    assert running.status == Status.ENDING
    twice = browser.post(address(running, "end"), follow=True).content.decode()
    assert "it cannot be ended now" in twice


def test_members_look_but_have_no_buttons(running: Reservation, world: make.World, logged_in: LogIn) -> None:
    page = logged_in(world.people.ben).get(address(running)).content.decode()
    assert "Open the console" not in page
    assert "End now" not in page


def test_a_failed_start_says_why(running: Reservation, world: make.World, logged_in: LogIn) -> None:
    reason = "No image <demo> on the host. Remedy: copy it there."
    assert bookings.move(running, Status.ACTIVE, Status.ENDING, now=clock.now(), reason=reason)
    assert bookings.move(running, Status.ENDING, Status.FAILED, now=clock.now())
    page = logged_in(world.people.ada).get(address(running)).content.decode()
    assert "No image &lt;demo&gt; on the host." in page
    assert "Book this machine again" in page


def test_an_end_that_the_host_has_not_confirmed_is_called_so(
    running: Reservation, world: make.World, logged_in: LogIn
) -> None:
    bookings.note(running, reason="", confirmed_end=running.end - timedelta(minutes=30))
    assert "not confirmed by the host" in logged_in(world.people.ada).get(address(running)).content.decode()
    bookings.note(running, reason="", confirmed_end=running.end)
    assert "not confirmed by the host" not in logged_in(world.people.ada).get(address(running)).content.decode()


def test_a_nudged_page_fetches_only_its_part(running: Reservation, world: make.World, logged_in: LogIn) -> None:
    part = logged_in(world.people.ada).get(address(running), headers={"HX-Request": "true"}).content.decode()
    assert part.strip().startswith('<div id="reservation"')
    assert "<html" not in part


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0 s"), (59.9, "59 s"), (60, "1 min 00 s"), (3725, "1 h 02 min"), (90000, "1 d 01 h")],
)
def test_time_left_in_words(seconds: float, text: str) -> None:
    assert in_words(seconds) == text
