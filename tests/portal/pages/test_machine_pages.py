"""My machines, the console's page and its ticket, the operators' hosts."""

import re
from typing import Any
from uuid import uuid4

import pytest
from django.urls import reverse

from portal import clock
from portal.bookings import actions as bookings
from portal.bookings.models import Reservation
from portal.bookings.states import Status
from portal.consoles.models import ConsoleTicket
from portal.enforcement.models import HostState, StepLog
from portal.inventory import actions as inventory
from portal.inventory.models import HostKind
from portal.machines import actions as machines
from portal.machines.models import MachineState
from tests import make
from tests.portal.pages.conftest import LogIn

MACHINES = "/machines"


def test_a_running_machine_can_be_seen_entered_and_ended(
    running: Reservation, world: make.World, logged_in: LogIn
) -> None:
    page = logged_in(world.people.ada).get(MACHINES).content.decode()
    assert running.machine.hostname in page
    assert reverse("consoles:console", args=[running.machine_id]) in page
    assert reverse("bookings:end", args=[running.pk]) in page
    assert "Time left" in page
    assert "simulated vGPU" in page


@pytest.mark.parametrize("kind", ["simulated", "local with GPUs that are not real", "local"])
def test_pages_say_where_a_gpu_is_not_real(
    running: Reservation, world: make.World, logged_in: LogIn, kind: str
) -> None:
    where = world.host
    where.kind, where.simulated_gpus = HostKind(kind.split()[0]), "not real" in kind
    where.save()
    ada = logged_in(world.people.ada)
    console = reverse("consoles:console", args=[running.machine_id])
    for page in (MACHINES, console, reverse("bookings:reservation", args=[running.pk])):
        told = "simulated vGPU" in ada.get(page).content.decode()
        assert told == (kind != "local"), page


def test_whose_machines_are_listed(running: Reservation, world: make.World, logged_in: LogIn) -> None:
    name = running.machine.hostname
    assert name not in logged_in(world.people.cleo).get(MACHINES).content.decode()
    bens = logged_in(world.people.ben).get(MACHINES).content.decode()
    assert name in bens
    assert "of ada, project vision" in bens
    assert reverse("bookings:end", args=[running.pk]) not in bens
    assert name in logged_in(world.people.olga).get(MACHINES).content.decode()


def test_a_machine_without_a_booking_stays_on_the_list(
    running: Reservation, world: make.World, logged_in: LogIn
) -> None:
    assert bookings.move(running, Status.ACTIVE, Status.ENDING, now=clock.now())
    assert bookings.release(running, clock.now())
    page = logged_in(world.people.ada).get(MACHINES).content.decode()
    assert "Not booked. Its disk stays" in page
    assert "Book it again" in page
    assert reverse("bookings:reservation", args=[running.pk]) in page


def test_nobody_has_no_machines_without_a_word(world: make.World, logged_in: LogIn) -> None:
    page = logged_in(world.people.cleo).get(MACHINES).content.decode()
    assert "You have no machines." in page
    assert reverse("bookings:book") in page


def test_the_list_is_one_template_for_page_and_part(running: Reservation, world: make.World, logged_in: LogIn) -> None:
    browser = logged_in(world.people.ada)
    part = browser.get(MACHINES, headers={"HX-Request": "true"}).content.decode().strip()
    assert part.startswith('<div id="machines"')
    assert "<html" not in part


@pytest.mark.field("G05")
@pytest.mark.field("G06")
def test_a_ticket_comes_by_post_and_is_in_no_page(running: Reservation, world: make.World, logged_in: LogIn) -> None:
    browser = logged_in(world.people.ada)
    address = reverse("consoles:ticket", args=[running.machine_id])
    assert browser.get(address).status_code == 405
    page = browser.get(reverse("consoles:console", args=[running.machine_id]))
    assert not ConsoleTicket.objects.exists()
    assert page.headers["Referrer-Policy"] == "same-origin"
    given = browser.post(address)
    assert given.headers["Cache-Control"].startswith("max-age=0, no-cache, no-store")
    body = given.json()
    assert body["path"] == "/ws/console"
    assert body["ticket"] not in page.content.decode()
    ticket = ConsoleTicket.objects.get()
    assert ticket.session_key == browser.session.session_key
    assert body["ticket"] not in ticket.digest


@pytest.mark.field("G01")
def test_tickets_for_others_are_refused(running: Reservation, world: make.World, logged_in: LogIn) -> None:
    assert logged_in(world.people.cleo).post(reverse("consoles:ticket", args=[running.machine_id])).status_code == 404
    assert logged_in(world.people.ada).post(reverse("consoles:ticket", args=[uuid4()])).status_code == 404


def test_no_screen_no_ticket(booked: Reservation, world: make.World, logged_in: LogIn) -> None:
    answer = logged_in(world.people.ada).post(reverse("consoles:ticket", args=[booked.machine_id]))
    assert answer.status_code == 409
    assert answer.json() == {"code": "state", "detail": "The machine is not running now, so it has no screen."}


@pytest.mark.field("G12")
def test_the_consoles_target_comes_from_nowhere_but_the_machine(
    running: Reservation, world: make.World, logged_in: LogIn
) -> None:
    address = reverse("consoles:console", args=[running.machine_id])
    browser = logged_in(world.people.ada)
    plain = browser.get(address).content.decode()
    wild = browser.get(
        address, {"host": "evil.invalid", "port": "1", "path": "//evil.invalid/x", "url": "ws://evil.invalid"}
    )
    assert "evil" not in wild.content.decode()
    assert plain.count("data-ticket") == wild.content.decode().count("data-ticket")


def host_state(world: make.World, **fields: Any) -> HostState:
    state, _ = HostState.objects.update_or_create(host=world.host, defaults=fields)
    return state


def test_hosts_tell_what_went_wrong(world: make.World, logged_in: LogIn) -> None:
    error = {"code": "unreachable", "what": "libvirtd <does> not answer.", "remedy": "Start it.", "retry": True}
    host_state(world, last_error=error, last_success=clock.now(), drift_seconds=-7.4)
    StepLog.objects.create(
        host=world.host, at=clock.now(), generation=3, kind="start", subject="ada-demo", done=False, error=error
    )
    page = logged_in(world.people.olga).get("/hosts").content.decode()
    assert "libvirtd &lt;does&gt; not answer." in page
    assert "Start it." in page
    assert "7 s behind" in page
    assert "ada-demo" in page


def test_hosts_tell_how_their_cards_are_and_what_waits(world: make.World, logged_in: LogIn) -> None:
    odd = make.gpu_facts(
        regime="whole", vfs={"total": 16, "enabled": 0, "free": None}, types=[], unknown={"ecc": "It does <not> tell."}
    )
    inventory.record_inventory(world.host, {"gpus": [odd]}, clock.now())
    world.host.gpus.update(wanted_regime="equal")
    wait = {"kind": "wait", "machine": None, "subject": "set <ECC>: ada-demo uses it", "done": False, "error": None}
    gap = {"what": "claims", "reason": "libvirt did not answer."}
    host_state(world, report={"steps": [wait], "unknown": [gap]}, last_success=clock.now())
    page = logged_in(world.people.olga).get("/hosts").content.decode()
    for text in (
        "given away whole · virtual functions are off (16 possible)",
        "Wanted: shares of one size at a time",
        "1 thing the host could not tell",
        "ecc: It does &lt;not&gt; tell.",
        "<strong>Waits.</strong> set &lt;ECC&gt;: ada-demo uses it",
        "claims: libvirt did not answer.",
    ):
        assert text in page, text


def test_a_console_that_ends_with_the_boot_is_told_where_the_desktop_is(
    running: Reservation, world: make.World, logged_in: LogIn
) -> None:
    ada = logged_in(world.people.ada)
    pages = [
        reverse("bookings:reservation", args=[running.pk]),
        reverse("consoles:console", args=[running.machine_id]),
    ]
    word = "reached in the machine itself"
    assert not [page for page in pages if re.search(word, ada.get(page).content.decode())]
    machines.observed(
        running.machine_id, state=MachineState.RUNNING, screen="boot", licence="licensed", now=clock.now()
    )
    assert all(re.search(word, ada.get(page).content.decode()) for page in pages)
    assert "<dt>Licence</dt><dd>licensed</dd>" in ada.get(pages[0]).content.decode()


def test_a_disk_that_is_missing_on_its_host_is_told(running: Reservation, world: make.World, logged_in: LogIn) -> None:
    machines.observed(running.machine_id, state=MachineState.OFF, disk_missing=True, now=clock.now())
    ada = logged_in(world.people.ada)
    assert "disk missing" in ada.get(reverse("consoles:machines")).content.decode()
    assert "is missing on its host" in ada.get(reverse("bookings:reservation", args=[running.pk])).content.decode()


def test_a_mass_stop_is_confirmed_for_exactly_those(running: Reservation, world: make.World, logged_in: LogIn) -> None:
    machine = str(running.machine_id)
    host_state(world, needs_confirmation=[machine])
    olga = logged_in(world.people.olga)
    assert running.machine.hostname in olga.get("/hosts").content.decode()
    confirm = reverse("enforcement:confirm", args=["sim-t4"])
    assert logged_in(world.people.ada).post(confirm, {"machine": [machine]}).status_code == 403
    for wrong in ([machine, str(uuid4())], [], ["x"]):
        assert "Confirmed" not in olga.post(confirm, {"machine": wrong}, follow=True).content.decode()
    assert HostState.objects.get().confirmed == []
    assert "Confirmed" in olga.post(confirm, {"machine": [machine]}, follow=True).content.decode()
    assert HostState.objects.get().confirmed == [machine]


def test_without_hosts_the_page_says_what_to_do(db: None, logged_in: LogIn) -> None:
    assert "manage.py add_host" in logged_in(make.cast(clock.now()).olga).get("/hosts").content.decode()
