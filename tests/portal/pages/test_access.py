"""Who gets which page: 404 looks the same for "none" and "not yours", 403 is for what may be known but not used."""

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from portal.bookings.models import Reservation
from tests import make
from tests.portal.pages.conftest import LogIn

OPEN_TO_ALL = ["bookings:calendar", "bookings:book", "bookings:resources", "consoles:machines", "accounts:profile"]
OPEN_TO_ALL += ["notices:list", "notices:menu"]


@pytest.mark.parametrize("name", OPEN_TO_ALL)
@pytest.mark.parametrize("who", ["ada", "ben", "cleo", "olga"])
def test_pages_for_everybody_who_is_logged_in(name: str, who: str, world: make.World, logged_in: LogIn) -> None:
    answer = logged_in(getattr(world.people, who)).get(reverse(name))
    assert answer.status_code == 200


@pytest.mark.parametrize("name", [*OPEN_TO_ALL, "bookings:events", "enforcement:hosts"])
def test_strangers_are_sent_to_the_log_in_page(name: str, world: make.World, client: Client) -> None:
    answer = client.get(reverse(name))
    assert answer.status_code == 302
    assert answer.headers["Location"].startswith(reverse("accounts:login"))


Address = Callable[[Reservation], str]
PAGES: dict[str, Address] = {
    "reservation": lambda r: reverse("bookings:reservation", args=[r.pk]),
    "console": lambda r: reverse("consoles:console", args=[r.machine_id]),
}


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(("who", "status"), [("ada", 200), ("cleo", 404), ("olga", 200)])
@pytest.mark.field("G01")
def test_pages_of_one_machine(
    page: str, who: str, status: int, running: Reservation, world: make.World, logged_in: LogIn
) -> None:
    answer = logged_in(getattr(world.people, who)).get(PAGES[page](running))
    assert answer.status_code == status


def test_a_colleague_sees_the_booking_but_not_the_screen(
    running: Reservation, world: make.World, logged_in: LogIn
) -> None:
    """Whoever opens a screen sits in the owner's open session."""
    browser = logged_in(world.people.ben)
    assert browser.get(PAGES["reservation"](running)).status_code == 200
    assert browser.get(PAGES["console"](running)).status_code == 403


@pytest.mark.parametrize("verb", ["cancel", "end", "reveal"])
def test_what_is_not_yours_cannot_be_touched(
    verb: str, running: Reservation, world: make.World, logged_in: LogIn
) -> None:
    address = reverse(f"bookings:{verb}", args=[running.pk])
    assert logged_in(world.people.cleo).post(address).status_code == 404
    logged_in(world.people.ben).post(address)  # sees it, but neither owns nor manages
    running.refresh_from_db()
    assert running.status == "active"
    assert running.password_sealed


@pytest.mark.parametrize("verb", ["cancel", "end", "reveal"])
def test_deeds_are_never_links(verb: str, running: Reservation, world: make.World, logged_in: LogIn) -> None:
    answer = logged_in(world.people.ada).get(reverse(f"bookings:{verb}", args=[running.pk]))
    assert answer.status_code == 405


def test_hosts_are_for_operators(world: make.World, logged_in: LogIn) -> None:
    address = reverse("enforcement:hosts")
    assert logged_in(world.people.olga).get(address).status_code == 200
    refused = logged_in(world.people.ada).get(address)
    assert refused.status_code == 403
    assert "this page is for other people" in refused.content.decode()


def test_a_missing_page_says_so(world: make.World, logged_in: LogIn) -> None:
    answer = logged_in(world.people.ada).get("/no-such-page")
    assert answer.status_code == 404
    assert "Nothing here" in answer.content.decode()


def test_a_form_without_its_proof_is_refused_with_a_way_on(world: make.World) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(world.people.ada)
    answer = browser.post(reverse("bookings:book"), {})
    assert answer.status_code == 403
    assert "Please send that again" in answer.content.decode()


@pytest.mark.parametrize("name", ["bookings:calendar", "accounts:login"])
def test_nothing_in_a_page_needs_a_looser_policy(name: str, world: make.World, logged_in: LogIn) -> None:
    page = (Client() if "login" in name else logged_in(world.people.ada)).get(reverse(name))
    policy = page.headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert page.headers["Referrer-Policy"] == "same-origin"
    text = page.content.decode()
    assert "<style" not in text
    assert " style=" not in text
    assert " onclick=" not in text
    assert "<script>" not in text
