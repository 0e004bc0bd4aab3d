"""What holds on every page: it can be read, reached and used; on a phone, with the keyboard, without a script."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from portal import clock, nudge
from portal.bookings import actions as bookings
from portal.bookings.models import Reservation
from portal.bookings.states import Status
from tests import make
from tests.browser.conftest import Backstage, OpenPage

PAGES = ["/", "/book", "/machines", "/profile", "/notices", "/hosts", "/no-such-page", "RESERVATION", "CONSOLE"]
PHONE = {"width": 390, "height": 844}
CHECKS = Path(__file__).with_name("reading.js").read_text()


def address(page: str, running: Reservation) -> str:
    known = {"RESERVATION": f"/reservations/{running.pk}", "CONSOLE": f"/machines/{running.machine_id}/console"}
    return known.get(page, page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_all_pages_can_be_read(
    width: int, scheme: str, running: Reservation, world: make.World, open_page: OpenPage
) -> None:
    """Contrast of 4.5:1 or more (3:1 for large text), every control has a name, nothing sticks out sideways, one h1."""
    page = open_page(world.people.olga, viewport={"width": width, "height": 900}, color_scheme=scheme)
    faults: list[str] = []
    for name in PAGES:
        page.goto(address(name, running))
        page.wait_for_timeout(400)
        faults += [f"{name}: {fault}" for fault in page.evaluate(CHECKS)]
    assert faults == []


def test_log_in_page_can_be_read(open_page: OpenPage, portal: str) -> None:
    for scheme in ("light", "dark"):
        page = open_page(None, color_scheme=scheme)
        page.goto("/login")
        assert page.evaluate(CHECKS) == []


def test_a_phone_gets_a_list_instead_of_a_squeezed_timeline(
    running: Reservation, world: make.World, open_page: OpenPage
) -> None:
    page = open_page(world.people.ada, viewport=PHONE, has_touch=True, is_mobile=True)
    page.goto("/")
    expect(page.locator("#timeline")).to_be_hidden()
    expect(page.get_by_role("link", name=running.machine.hostname)).to_be_visible()
    page.get_by_role("link", name="Later").click()
    page.get_by_role("link", name="Book on this day").click()
    tomorrow = timezone.localtime(clock.now()) + timedelta(days=1)
    expect(page.get_by_label("Start")).to_have_value(f"{tomorrow:%Y-%m-%d}T09:00")


def test_booking_needs_no_script(world: make.World, open_page: OpenPage) -> None:
    page = open_page(world.people.ada, java_script_enabled=False)
    page.goto("/")
    expect(page.get_by_role("heading", name="Tesla T4")).to_be_visible()
    page.get_by_role("link", name="Book", exact=True).click()
    page.get_by_role("button", name="Book", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("ada-demo")
    reservation = Reservation.objects.get()
    page.get_by_text("Cancel the booking").click()
    page.get_by_role("button", name="Yes, cancel it").click()
    reservation.refresh_from_db()
    assert reservation.status == Status.CANCELLED


def test_log_in_with_the_keyboard(world: make.World, open_page: OpenPage, backstage: Backstage) -> None:
    backstage(make.user, "dora", password="quite-long-enough-4711", now=clock.now())
    page = open_page(None)
    page.goto("/machines")
    page.keyboard.type("dora")
    page.keyboard.press("Tab")
    page.keyboard.type("quite-long-enough-4711")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="My machines")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()


def test_my_machines_follow_what_happens(
    running: Reservation, world: make.World, open_page: OpenPage, backstage: Backstage
) -> None:
    """The nudge says where to look; the page's own view renders again. No reload."""
    page = open_page(world.people.ada)
    page.goto("/machines")
    card = page.get_by_role("article")
    expect(card).to_contain_text("active")
    page.evaluate("window.sameDocument = true")
    page.wait_for_timeout(500)  # the socket for nudges opens beside the page
    assert backstage(bookings.move, running, Status.ACTIVE, Status.ENDING, now=clock.now())
    expect(card).to_contain_text("ending")
    assert page.evaluate("window.sameDocument")


def test_an_open_question_is_not_swept_away(
    running: Reservation, world: make.World, open_page: OpenPage, backstage: Backstage
) -> None:
    page = open_page(world.people.ada)
    page.goto("/machines")
    page.wait_for_timeout(500)
    page.get_by_text("End now").click()
    assert backstage(bookings.note, running, reason="waits")
    backstage(nudge.user, world.people.ada.pk, url="/machines")
    page.wait_for_timeout(800)
    yes = page.get_by_role("button", name="Yes, end it now")
    expect(yes).to_be_visible()
    yes.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("ending")


def test_a_cut_socket_is_said_and_polled_around(
    running: Reservation, world: make.World, open_page: OpenPage, backstage: Backstage
) -> None:
    page = open_page(world.people.ada)
    page.route_web_socket("**/ws/nudge", lambda socket: socket.close(code=1011, reason="cut"))
    page.clock.install()
    page.goto("/machines")
    _let_pass(page, 5)
    expect(page.get_by_text("Live updates are off")).to_be_visible()
    assert backstage(bookings.move, running, Status.ACTIVE, Status.ENDING, now=clock.now())
    _let_pass(page, 20)
    expect(page.get_by_role("article")).to_contain_text("ending")


def _let_pass(page: Page, seconds: int) -> None:
    for _ in range(seconds):
        page.clock.run_for(1000)
        page.wait_for_timeout(30)


def test_time_left_is_counted_by_the_servers_clock(
    running: Reservation, world: make.World, open_page: OpenPage
) -> None:
    page = open_page(world.people.ada)
    page.clock.set_fixed_time("2031-01-01T00:00:00Z")  # a browser whose clock is years ahead
    page.goto(f"/reservations/{running.pk}")
    expect(page.locator("[data-until]")).to_contain_text("min")
    expect(page.locator("[data-until]")).not_to_have_text("now")
