"""The main job: book in the browser, get a machine, use its screen, and at the end nothing is left."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Page, sync_playwright

from tests.journeys.portal import Portal
from tests.leaks import Places, leaks

SHIFTED = '~!@#$%^&*()_{}|:"<>?'
SCREEN_SECONDS = 90  # emulated, beside a browser, on two cores; alone it is a third of that


@pytest.fixture(scope="module")
def page(portal: Portal) -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=["--no-sandbox"]
        )
        yield browser.new_context(base_url=portal.url, viewport={"width": 1440, "height": 900}).new_page()
        browser.close()


def places(portal: Portal) -> Places:
    return Places.of(portal.environ)


def password_of(portal: Portal, user: str) -> str:
    """As the demo data's list of log-ins has it."""
    log_ins = Path(portal.settings["VAR_DIR"], "demo-logins.txt").read_text()
    found = re.search(rf"^\W*{user}\s+(\S+)", log_ins, re.MULTILINE)
    assert found, log_ins
    return found[1]


def test_from_log_in_to_nothing_left(portal: Portal, page: Page) -> None:
    """Log in, book from now on, read the password, type on the machine's screen, wait for the end of the period."""
    page.goto("/")
    page.get_by_label("User").fill("student1")
    page.get_by_label("Password").fill(password_of(portal, "student1"))
    page.get_by_role("button", name="Log in").click()

    end = (datetime.now(UTC) + timedelta(minutes=4)).replace(second=0, microsecond=0)
    page.goto("/book")
    page.get_by_label("End", exact=True).fill(end.strftime("%Y-%m-%dT%H:%M"))
    page.get_by_role("button", name="Book", exact=True).click()
    page.get_by_role("link", name="Show the reservation and its password").click()
    page.get_by_role("button", name="Show the password").click()
    password = page.locator("#password").inner_text()
    reservation = page.url.split("/reservations/")[1][:36]
    token = portal.token("student1")
    machine = portal.wait_for_status(token, reservation, "active", 60)["machine"]

    # The page turns by itself: nobody reloads it.
    page.get_by_role("link", name="Open the console").click(timeout=30_000)
    page.locator("#state[data-state=connected]").wait_for(timeout=30_000)
    portal.wait_for_serial(machine, "screen ready", SCREEN_SECONDS)
    assert "simulated" in page.locator("header").inner_text()

    # Keys arrive: what the shell computes comes back by another way than the screen.
    word = secrets.token_hex(4)
    page.locator("#screen canvas").click()
    type_at(portal, page, machine, "login: ", "user")
    type_at(portal, page, machine, "Password: ", password)
    type_at(portal, page, machine, "$ ", f"echo $((6*7))-{word}")
    portal.wait_for_serial(machine, f"42-{word}", 60)

    assert leaks(places(portal), machine=machine, reservation=reservation, kept=True), (
        "it runs, so the checker must see it"
    )
    left = (end - datetime.now(UTC)).total_seconds()
    portal.wait_for_status(token, reservation, "ended", left + 60)
    assert leaks(places(portal), machine=machine, reservation=reservation, kept=True) == []
    page.locator("#word").wait_for(timeout=15_000)
    assert "ended" in page.locator("#word").inner_text().lower()


def type_at(portal: Portal, page: Page, machine: str, prompt: str, text: str) -> None:
    """Type a line on the machine's screen once its prompt is there; the guest copies its screen to its serial log."""
    portal.wait_for_serial(machine, prompt, 60, last_line=True)
    for letter in text:
        shift = "Shift+" if letter.isupper() or letter in SHIFTED else ""  # as fingers do it: the guest sees keys
        page.keyboard.press(f"{shift}{letter}", delay=30)
    page.keyboard.press("Enter")


def test_a_disposable_machine_leaves_nothing(portal: Portal) -> None:
    token = portal.token("student2")
    flavor = portal.call("GET", "flavors", token)[1]["items"][0]["slug"]
    status, booked = portal.call(
        "POST",
        "reservations",
        token,
        {"flavor": flavor, "image": "demo", "disposable": True, "end": minutes_from_now(5)},
    )
    assert status == 201, booked
    active = portal.wait_for_status(token, booked["id"], "active", 60)
    machine = active["machine"]
    assert portal.machine_folder(machine)
    assert portal.call("POST", f"reservations/{booked['id']}/cancel", token)[0] == 200
    portal.wait_for_status(token, booked["id"], "ended", 60)
    assert leaks(places(portal), machine=machine, reservation=booked["id"], kept=False) == []


def test_two_bookings_two_screens(portal: Portal) -> None:
    """What a machine shows comes from the seed of its own booking."""
    booked = {}
    for user in ("student1", "student2"):
        token = portal.token(user)
        flavor = portal.call("GET", "flavors", token)[1]["items"][0]["slug"]
        body = {"flavor": flavor, "image": "demo", "disposable": True, "end": minutes_from_now(6)}
        status, document = portal.call("POST", "reservations", token, body)
        assert status == 201, document
        booked[user] = (token, document)
    for user, (token, document) in booked.items():
        machine = document["machine"]
        portal.wait_for_status(token, document["id"], "active", 90)
        log = portal.wait_for_serial(machine, "screen ready", SCREEN_SECONDS * 2)
        assert user in log
        assert "simulated" in log
    for token, document in booked.values():
        portal.call("POST", f"reservations/{document['id']}/cancel", token)
        portal.wait_for_status(token, document["id"], "ended", 60)


def minutes_from_now(minutes: int) -> str:
    return (datetime.now(UTC) + timedelta(minutes=minutes)).replace(second=0, microsecond=0).isoformat()
