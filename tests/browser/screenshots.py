"""The README's pictures, taken anew: `make screenshots`. A whole portal with demo data, and a machine that runs."""

from __future__ import annotations

import os
import re
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.browser.chromium import arguments, chromium
from tests.journeys.portal import CHECKOUT, Portal, drop_database, prepared, wait_until

PICTURES = CHECKOUT / "docs" / "screenshots"
SCREEN_SECONDS = 120  # until an emulated machine has drawn its screen
# Who books which size, from how many hours after the next full hour, for how many hours
PLAN = [
    ("student1", 0, 1, 3), ("student2", 1, 0.5, 2), ("teacher", 1, 1, 5), ("student2", 0, 2, 4), ("student1", 2, 4, 4),
    ("teacher", 2, 0, 3), ("student2", 1, 6, 6), ("student1", 1, 7, 3), ("teacher", 0, 5, 8), ("student2", 2, 9, 5),
]  # fmt: skip


def book(portal: Portal) -> str:
    """The plan, as far as it fits, and a machine that runs from now on; the running machine's id."""
    tokens = {name: portal.token(name) for name in ("teacher", "student1", "student2")}
    flavors = [flavor["slug"] for flavor in portal.call("GET", "flavors", tokens["teacher"])[1]["items"]]
    image = portal.call("GET", "images", tokens["teacher"])[1]["items"][0]["slug"]
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    for who, size, start, length in PLAN:
        times = [(hour + timedelta(hours=hours)).isoformat() for hours in (start, start + length)]
        wish = {"flavor": flavors[size % len(flavors)], "image": image, "start": times[0], "end": times[1]}
        portal.call("POST", "reservations", tokens[who], wish)
    end = (hour + timedelta(hours=1)).isoformat()
    status, made = portal.call(
        "POST", "reservations", tokens["student1"], {"flavor": flavors[0], "image": image, "end": end}
    )
    if status != 201:
        raise SystemExit(f"The machine for the picture could not be booked: {made}")
    portal.wait_for_status(tokens["student1"], made["id"], "active", SCREEN_SECONDS)
    return str(made["machine"])


def log_in(page: Page, portal: Portal, name: str) -> None:
    """With the password that demo_data has made."""
    found = re.search(
        rf"^{name}\s+(\S+)", Path(portal.settings["VAR_DIR"], "demo-logins.txt").read_text(), re.MULTILINE
    )
    if not found:
        raise SystemExit(f"No log-in of {name} among the demo data.")
    page.goto("/login")
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill(found[1])
    page.get_by_role("button", name="Log in").click()
    page.locator(".ec-event").first.wait_for()


def take(portal: Portal) -> None:
    """Calendar and console, at the width of a README."""
    machine = book(portal)
    wait_until(lambda: "screen ready" in portal.serial(machine), SCREEN_SECONDS, "the machine's screen is drawn")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=arguments())
        page = browser.new_page(base_url=portal.url, viewport={"width": 1280, "height": 820})
        log_in(page, portal, "student1")
        page.wait_for_timeout(1000)
        page.screenshot(path=PICTURES / "calendar.png")
        page.goto(f"/machines/{machine}/console")
        page.locator("#state[data-state=connected]").wait_for(timeout=60_000)
        page.wait_for_timeout(3000)
        page.screenshot(path=PICTURES / "console.png")
        browser.close()


def main() -> None:
    """Start, take, end."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        portal = prepared(Path(folder), SLOT_MINUTES="15")
        try:
            for name in ("web", "worker", "beat"):
                portal.start(name)
            wait_until(portal.ready, 60, "the portal is ready")
            take(portal)
        finally:
            portal.end()
            drop_database(portal.settings["DATABASE_URL"], os.environ["DATABASE_URL"])
    print(f"Pictures are in {PICTURES.relative_to(CHECKOUT)}.")


if __name__ == "__main__":
    main()
