"""A person's browser before the screen of a machine in the lab."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.canvas import middle
from tests.browser.chromium import arguments, chromium
from tests.journeys.portal import wait_until
from tests.lab.world import Booking, World

Colour = tuple[int, int, int]
SHOWN = 180.0  # seconds until a picture is there; the browser shares two processors with the lab
NEAR = 8
"""So far a colour may be off in each part: a viewer may ask for lossy pictures."""


@contextmanager
def browser() -> Iterator[Browser]:
    """The system's Chromium."""
    with (
        sync_playwright() as playwright,
        closing(playwright.chromium.launch(executable_path=chromium(), args=arguments())) as launched,
    ):
        yield launched


def logged_in(launched: Browser, world: World, user: str) -> Page:
    """A page of a browser of this person's own."""
    page = launched.new_context(base_url=world.url, viewport={"width": 1280, "height": 800}).new_page()
    page.set_default_timeout(30_000)
    page.goto("/")
    page.get_by_label("User").fill(user)
    page.get_by_label("Password").fill(world.passwords[user])
    page.get_by_role("button", name="Log in").click()
    page.locator("body[data-socket]").wait_for()
    return page


def console(page: Page, booking: Booking) -> None:
    """Open the console on the reservation's own page, as people do; the page turns by itself."""
    page.goto(f"/reservations/{booking.id}")
    page.get_by_role("link", name="Open the console").click(timeout=120_000)
    page.locator("#state[data-state=connected]").wait_for(timeout=120_000)


def shows(page: Page, colour: Colour) -> None:
    """Wait until the middle of the screen has this colour."""
    seen: list[Colour | None] = []

    def look() -> bool:
        page.wait_for_timeout(100)
        seen.append(middle(page))
        return near(seen[-1], colour)

    try:
        wait_until(look, SHOWN, f"the screen is {colour}")
    except AssertionError as late:
        raise AssertionError(f"{late}; it is {seen[-1]}") from None


def near(seen: Colour | None, wanted: Colour) -> bool:
    """Whether a colour is the wanted one, as far as a viewer can tell."""
    return seen is not None and all(abs(one - other) <= NEAR for one, other in zip(seen, wanted, strict=True))


def colour_of_uuid(uuid: str) -> Colour:
    """What a mediated device shows: the last three bytes of its UUID (tests/lab/module/README.md)."""
    red, green, blue = bytes.fromhex(uuid[-6:])
    return red, green, blue


def colour_of_function(address: str, type_id: int) -> Colour:
    """What a virtual function with a type shows: its bus, its place on it, and the type (the same README)."""
    _, bus, place = address.split(":")
    device, function = place.split(".")
    devfn = int(device, 16) << 3 | int(function)
    return int(bus, 16) << 4 & 0xFF, devfn << 4 & 0xFF, type_id & 0xFF
