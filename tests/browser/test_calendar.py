"""Booking with the mouse, in whatever zone the browser sits."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Locator, Page, expect

from portal import clock
from portal.accounts.models import User
from portal.bookings import actions as bookings
from portal.bookings.models import Reservation
from portal.bookings.rules import Wish
from tests import make
from tests.browser.conftest import Backstage, OpenPage

BERLIN = ZoneInfo("Europe/Berlin")


def tomorrow(hour: int) -> datetime:
    """That hour of tomorrow's wall clock in Berlin."""
    day = clock.now().astimezone(BERLIN).date() + timedelta(days=1)
    return datetime(day.year, day.month, day.day, hour, tzinfo=BERLIN)


def drag(page: Page, row: str, start: str, end: str) -> None:
    """Drag over free time in a row of the second day shown."""
    day = page.locator(".ec-slots").nth(1)
    first = day.locator(".ec-slot", has_text=start)
    first.scroll_into_view_if_needed()
    line, left, right = (
        place.bounding_box()
        for place in (page.get_by_text(row, exact=True).first, first, day.locator(".ec-slot", has_text=end))
    )
    assert line
    assert left
    assert right
    height = line["y"] + line["height"] / 2
    page.mouse.move(left["x"] + 3, height)
    page.mouse.down()
    page.mouse.move(left["x"] + 30, height, steps=4)
    page.mouse.move(right["x"] - 3, height, steps=8)
    page.mouse.up()


@pytest.mark.field("D27")
@pytest.mark.parametrize("browsers_zone", ["Europe/Berlin", "America/New_York", "Pacific/Apia"])
def test_what_is_dragged_is_what_is_booked(browsers_zone: str, world: make.World, open_page: OpenPage) -> None:
    """Same clock time on the page, exact UTC in the database, the same after a reload, gone after cancelling."""
    ada = world.people.ada
    User.objects.filter(pk=ada.pk).update(time_zone="Europe/Berlin")
    page = open_page(ada, timezone_id=browsers_zone)
    page.goto("/")
    drag(page, "share 2 of 4", "03:00", "05:00")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Start")).to_have_value(f"{tomorrow(3):%Y-%m-%dT%H:%M}")
    expect(dialog.get_by_label("End", exact=True)).to_have_value(f"{tomorrow(5):%Y-%m-%dT%H:%M}")
    dialog.get_by_label("Disposable: delete its disk at the end").check()
    dialog.get_by_role("button", name="Book", exact=True).click()
    expect(dialog).to_contain_text("Booked.")
    reservation = Reservation.objects.get()
    assert (reservation.start, reservation.end) == (tomorrow(3), tomorrow(5))
    assert reservation.disposable
    for _ in range(2):
        tile = page.locator(".ec-event.whose-mine")
        expect(tile).to_have_text(reservation.machine.hostname)
        assert abs(left_of(tile) - left_of(hour(page, "03:00"))) < 3
        page.reload()
    page.locator(".ec-event.whose-mine").click()
    page.get_by_text("Cancel the booking").click()
    page.get_by_role("button", name="Yes, cancel it").click()
    expect(page.get_by_role("main")).to_contain_text("The share is free again.")
    page.goto("/")
    expect(page.locator(".ec-row-head").first).to_be_visible()
    expect(page.locator(".ec-event.whose-mine")).to_have_count(0)
    ada.refresh_from_db()
    assert ada.time_zone == "Europe/Berlin"


def hour(page: Page, text: str) -> Locator:
    """That hour of the second day shown."""
    return page.locator(".ec-slots").nth(1).locator(".ec-slot", has_text=text)


def left_of(place: Locator) -> float:
    """Where it begins; a tile that is just being drawn again has no place for a moment."""
    for _ in range(50):
        box = place.bounding_box()
        if box:
            return box["x"]
        place.page.wait_for_timeout(100)
    raise AssertionError("it is not drawn")


def test_a_refusal_offers_times_that_work(world: make.World, open_page: OpenPage, backstage: Backstage) -> None:
    User.objects.filter(pk=world.people.ada.pk).update(time_zone="Europe/Berlin")
    wish = Wish(flavor=world.small, image=world.image, start=tomorrow(3), end=tomorrow(5))
    for _ in range(4):
        backstage(bookings.book, wish, by=world.people.cleo, now=clock.now())
    page = open_page(world.people.ada)
    page.goto("/")
    expect(page.locator(".ec-event.whose-other")).to_have_count(4)
    drag(page, "share 2 of 4", "01:00", "03:00")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("End", exact=True).fill(f"{tomorrow(4):%Y-%m-%dT%H:%M}")
    dialog.get_by_role("button", name="Book", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("No share for Small is free for the whole period.")
    dialog.get_by_role("link", name="05:00").click()
    expect(dialog.get_by_label("Start")).to_have_value(f"{tomorrow(5):%Y-%m-%dT%H:%M}")
    dialog.get_by_role("button", name="Book", exact=True).click()
    expect(dialog).to_contain_text("Booked.")
    assert Reservation.objects.filter(owner=world.people.ada).get().start == tomorrow(5)


def test_a_calendar_that_cannot_be_loaded_says_so_and_does_not_look_free(
    world: make.World, open_page: OpenPage, backstage: Backstage
) -> None:
    User.objects.filter(pk=world.people.ada.pk).update(time_zone="Europe/Berlin")
    wish = Wish(flavor=world.small, image=world.image, start=tomorrow(3), end=tomorrow(5))
    backstage(bookings.book, wish, by=world.people.cleo, now=clock.now())
    page = open_page(world.people.ada)
    page.goto("/")
    expect(page.locator(".ec-event.whose-other")).to_have_count(1)
    page.route("**/calendar/events*", lambda route: route.abort())
    page.evaluate("document.getElementById('timeline').dispatchEvent(new Event('nudge'))")
    expect(page.get_by_role("alert").filter(has_text="what you see may be old")).to_be_visible()
    expect(page.locator(".ec-event.whose-other")).to_have_count(1)
    page.unroute("**/calendar/events*")
    page.evaluate("document.getElementById('timeline').dispatchEvent(new Event('nudge'))")
    expect(page.get_by_role("alert").filter(has_text="what you see may be old")).to_be_hidden()


def test_the_dialog_says_when_the_portal_does_not_answer(world: make.World, open_page: OpenPage) -> None:
    User.objects.filter(pk=world.people.ada.pk).update(time_zone="Europe/Berlin")
    page = open_page(world.people.ada)
    page.goto("/")
    drag(page, "share 2 of 4", "03:00", "05:00")
    dialog = page.get_by_role("dialog")
    page.route("**/book", lambda route: route.abort())
    dialog.get_by_role("button", name="Book", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("The portal does not answer.")
    page.unroute("**/book")
    dialog.get_by_role("button", name="Book", exact=True).click()
    expect(dialog).to_contain_text("Booked.")
    assert Reservation.objects.count() == 1


def test_a_booking_of_somebody_else_appears_by_itself(
    world: make.World, open_page: OpenPage, backstage: Backstage
) -> None:
    User.objects.filter(pk=world.people.ada.pk).update(time_zone="Europe/Berlin")
    page = open_page(world.people.ada)
    page.goto("/")
    expect(page.locator(".ec-row-head").first).to_be_visible()
    expect(page.locator(".ec-event")).to_have_count(0)
    page.wait_for_timeout(500)  # the socket for nudges opens beside the page
    wish = Wish(flavor=world.small, image=world.image, start=tomorrow(3), end=tomorrow(5))
    backstage(bookings.book, wish, by=world.people.cleo, now=clock.now())
    expect(page.locator(".ec-event.whose-other")).to_have_text("taken")
