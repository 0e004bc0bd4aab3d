"""The console page against a screen that is faked; everything between the two is real."""

import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from portal import clock, gateway
from portal.bookings import actions as bookings
from portal.bookings.models import Reservation
from portal.bookings.states import Status
from portal.consoles.models import ConsoleTicket
from tests import make
from tests.browser.canvas import middle
from tests.browser.conftest import Backstage, OpenPage
from tests.browser.screen import HEIGHT, WIDTH, Screens


@pytest.fixture
def screens(monkeypatch: pytest.MonkeyPatch) -> Screens:
    """Each console that is opened shows the next of three colours."""
    made = Screens()
    monkeypatch.setattr(gateway, "open_console", made.open_console)
    return made


def wait_for(done: Callable[[], bool], page: Page, what: str, seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        page.wait_for_timeout(50)


def enter(page: Page, running: Reservation) -> None:
    page.goto(f"/machines/{running.machine_id}/console")
    expect(page.locator("#state")).to_have_text("connected")


def shows(page: Page, colour: tuple[int, int, int]) -> None:
    wait_for(lambda: middle(page) == colour, page, f"colour {colour}")


def test_the_screen_is_shown_and_takes_keys(
    running: Reservation, world: make.World, open_page: OpenPage, screens: Screens
) -> None:
    page = open_page(world.people.ada)
    enter(page, running)
    assert running.machine.hostname in page.title()
    shows(page, screens.colours[0])
    assert page.evaluate(
        "[document.querySelector('#screen canvas').width, document.querySelector('#screen canvas').height]"
    ) == [WIDTH, HEIGHT]
    page.keyboard.type("Az9")
    wait_for(lambda: screens.opened[0].typed() == "Az9", page, "the keys")
    page.get_by_role("button", name="Ctrl-Alt-Del").click()
    wait_for(lambda: (0xFFFF, True) in screens.opened[0].keys, page, "Delete")
    assert "ticket" not in page.url
    assert ConsoleTicket.objects.get().used


@pytest.mark.field("F14")
def test_text_is_typed_and_the_page_is_honest_about_the_rest(
    running: Reservation, world: make.World, open_page: OpenPage, screens: Screens
) -> None:
    page = open_page(world.people.ada)
    enter(page, running)
    page.get_by_role("button", name="Type text").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("This screen has no clipboard.")
    dialog.get_by_label("Text").fill("Grüße: ~/x_1!\n")
    dialog.get_by_role("button", name="Type it").click()
    expect(dialog.get_by_role("status")).to_contain_text("Left out, because a US keyboard has no key for them: ü ß")
    assert screens.opened[0].typed() == "Gre: ~/x_1!"
    assert (0xFF0D, True) in screens.opened[0].keys
    dialog.get_by_label("Text").fill("x" * 6000)
    dialog.get_by_role("button", name="Type it").click()
    expect(dialog.get_by_role("status")).to_contain_text("Nothing was typed.")
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_be_hidden()
    expect(page.locator("#state")).to_have_text("connected")


@pytest.mark.field("F08")
@pytest.mark.field("F13")
def test_after_a_restart_it_connects_by_itself_with_a_fresh_ticket(
    running: Reservation, world: make.World, open_page: OpenPage, screens: Screens
) -> None:
    page = open_page(world.people.ada)
    enter(page, running)
    shows(page, screens.colours[0])
    screens.opened[0].hang_up()
    shows(page, screens.colours[1])
    expect(page.locator("#state")).to_have_text("connected")
    assert ConsoleTicket.objects.count() == 2


@pytest.mark.field("F07")
def test_two_tabs_live_side_by_side(
    running: Reservation, world: make.World, open_page: OpenPage, screens: Screens
) -> None:
    first, second = open_page(world.people.ada), open_page(world.people.ada)
    enter(first, running)
    enter(second, running)
    first.wait_for_timeout(1500)
    for page in (first, second):
        expect(page.locator("#state")).to_have_text("connected")
    assert len(screens.opened) == 2


@pytest.mark.field("F09")
def test_leaving_the_page_closes_the_screen(
    running: Reservation, world: make.World, open_page: OpenPage, screens: Screens
) -> None:
    page = open_page(world.people.ada)
    for _ in range(5):
        enter(page, running)
        page.goto("/machines")
        wait_for(lambda: screens.opened[-1].closed, page, "closed")
    assert len(screens.opened) == 5


def test_at_the_end_the_screen_says_so_and_stays_quiet(
    running: Reservation, world: make.World, open_page: OpenPage, screens: Screens, backstage: Backstage
) -> None:
    page = open_page(world.people.ada)
    enter(page, running)
    assert backstage(bookings.move, running, Status.ACTIVE, Status.ENDING, now=clock.now(), end=clock.now())
    expect(page.get_by_role("status").filter(has_text="The reservation has ended")).to_be_visible(timeout=15_000)
    page.wait_for_timeout(3000)
    assert len(screens.opened) == 1


def test_a_machine_that_is_not_running_is_waited_for(
    running: Reservation, world: make.World, open_page: OpenPage, screens: Screens, backstage: Backstage
) -> None:
    Reservation.objects.filter(pk=running.pk).update(status=Status.STARTING)
    page = open_page(world.people.ada)
    page.goto(f"/machines/{running.machine_id}/console")
    expect(page.locator("#word")).to_contain_text("not running yet, or no longer")
    Reservation.objects.filter(pk=running.pk).update(status=Status.ACTIVE)
    page.get_by_role("button", name="Connect now").click()
    expect(page.locator("#state")).to_have_text("connected")


def test_the_keyboard_comes_back_to_the_bar(
    running: Reservation, world: make.World, open_page: OpenPage, screens: Screens
) -> None:
    page = open_page(world.people.ada)
    enter(page, running)
    page.locator("#screen canvas").click()
    page.keyboard.press("Control+Alt+Shift+KeyB")
    expect(page.get_by_role("button", name="Fit to window")).to_be_focused()
