"""From a booking to a guest with a real share of a card, its own picture on the portal's page, and to nothing left."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Browser, Page

from tests.lab import leaks, screens
from tests.lab.world import Booking, World

pytestmark = pytest.mark.timeout(1200)  # each wait has its own limit; this is for what hangs
A40, L40S = "0000:01:00.0", "0000:06:00.0"
PCI = "devices/hostdev/source/address"


def booked_on_the_page(page: Page, world: World, user: str, flavor: str) -> Booking:
    """Book by the form, with all that it suggests but the end."""
    end = (datetime.now(UTC) + timedelta(minutes=30)).replace(second=0, microsecond=0)
    page.goto("/book")
    page.get_by_label("Size").select_option(flavor)
    page.get_by_label("End", exact=True).fill(end.strftime("%Y-%m-%dT%H:%M"))
    page.get_by_role("button", name="Book", exact=True).click()
    page.get_by_role("link", name="Show the reservation and its password").click()
    identity = page.url.split("/reservations/")[1][:36]
    token = world.token(user)
    return Booking(identity, world.reservation(token, identity)["machine"], user, token)


def test_two_people_each_see_their_own_mediated_device(world: World, browser: Browser) -> None:
    """Shares of one T4 side by side: one booked on the page with a machine that is kept, one by the API."""
    before = leaks.look(world.lab)
    ada, ben = (screens.logged_in(browser, world, user) for user in ("ada", "ben"))
    kept = booked_on_the_page(ada, world, "ada", "t4")
    other = world.book("ben", "t4")
    mediated = {}
    for page, booking in ((ada, kept), (ben, other)):
        world.runs(booking)
        mediated[booking] = world.mediated(booking.machine)
        screens.console(page, booking)
    assert "simulated" in ada.locator("header").inner_text()
    for page, booking in ((ada, kept), (ben, other)):
        screens.shows(page, screens.colour_of_uuid(mediated[booking]))
    assert mediated[kept] != mediated[other]
    assert parent(world, mediated[kept]) == parent(world, mediated[other])
    assert ("10de:1eb8", "030000") in world.functions(other)

    world.end_booking(kept)
    mine, theirs = kept.machine, other.machine
    after = leaks.left(before, leaks.look(world.lab), kept=[mine])
    assert not [line for line in after if mine in line or mediated[kept] in line], after
    assert [line for line in after if theirs in line], "the other one runs, so the checker must see it"
    screens.shows(ben, screens.colour_of_uuid(mediated[other]))
    world.end_booking(other)
    assert leaks.left(before, leaks.look(world.lab), kept=[mine]) == []
    ada.locator("#word").wait_for(timeout=15_000)
    assert "ended" in ada.locator("#word").inner_text().lower()


def test_a_mediated_device_on_a_virtual_function(world: World, browser: Browser) -> None:
    """An A40 cut in equal shares: the portal has its functions switched on, and each is the parent of one device."""
    before = leaks.look(world.lab)
    world.cut(A40)
    booking = world.book("ada", "a40")
    world.runs(booking)
    mediated = world.mediated(booking.machine)
    assert link(world, f"{parent(world, mediated)}/physfn") == A40
    page = screens.logged_in(browser, world, "ada")
    screens.console(page, booking)
    screens.shows(page, screens.colour_of_uuid(mediated))
    assert ("10de:2235", "030000") in world.functions(booking)
    world.end_booking(booking)
    assert leaks.left(before, leaks.look(world.lab)) == []


def test_a_virtual_function_of_the_vendors_own_driver(world: World, browser: Browser) -> None:
    """An L40S whose functions bear a type each, and no mediated device.

    libvirt has taken display='on' for a PCI function since 10.3, so the picture is on the page here, too.
    """
    before = leaks.look(world.lab)
    world.cut(L40S)
    booking = world.book("ben", "l40s")
    world.runs(booking)
    (device,) = world.domain(booking.machine).iterfind("devices/hostdev")
    assert (device.get("type"), device.get("display")) == ("pci", "on")
    (function,) = host_functions(world, booking)
    type_id = int(world.lab.shell(f"cat /sys/bus/pci/devices/{function}/nvidia/current_vgpu_type"))
    assert link(world, f"{function}/physfn") == L40S
    page = screens.logged_in(browser, world, "ben")
    screens.console(page, booking)
    screens.shows(page, screens.colour_of_function(function, type_id))
    assert "10de:26b9" in dict(world.functions(booking))
    world.end_booking(booking)
    assert leaks.left(before, leaks.look(world.lab)) == []


def test_a_card_passed_through_whole(world: World, browser: Browser) -> None:
    """The guest sees the card itself, by the ids that its configuration space shows; the console is the boot's."""
    before = leaks.look(world.lab)
    booking = world.book("ada", "t4-whole")
    world.runs(booking)
    (function,) = host_functions(world, booking)
    assert link(world, f"{function}/driver") == "vfio-pci"
    assert ("10de:1eb8", "030200") in world.functions(booking)
    page = screens.logged_in(browser, world, "ada")
    screens.console(page, booking)
    assert "boot console only" in page.locator("header").inner_text()
    world.end_booking(booking)
    assert leaks.left(before, leaks.look(world.lab)) == []
    assert link(world, f"{function}/driver") == "nvidia"


def parent(world: World, mediated: str) -> str:
    """The PCI function on which a mediated device was made."""
    return world.lab.shell(f"readlink -f /sys/bus/mdev/devices/{mediated}").split("/")[-2]


def link(world: World, path: str) -> str:
    """Where a link of a PCI function points to."""
    return world.lab.shell(f"basename $(readlink /sys/bus/pci/devices/{path})").strip()


def host_functions(world: World, booking: Booking) -> list[str]:
    """The PCI functions of the host that a machine's domain names."""
    return [
        f"{int(found.attrib['domain'], 16):04x}:{int(found.attrib['bus'], 16):02x}"
        f":{int(found.attrib['slot'], 16):02x}.{int(found.attrib['function'], 16):x}"
        for found in world.domain(booking.machine).iterfind(PCI)
    ]
