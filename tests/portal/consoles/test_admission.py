"""Who gets to a screen: by ticket, once, soon, from our own pages, and only to the ticket's machine."""

import json
import logging
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from portal import clock
from portal.accounts import actions as accounts
from portal.accounts.models import Scope, User
from portal.audit.models import Entry
from portal.bookings import actions as bookings
from portal.bookings.states import Status
from portal.consoles import consumers
from portal.consoles.models import ConsoleTicket
from portal.gateway import GatewayError
from portal.machines.models import VirtualMachine
from tests import make
from tests.portal.consoles.conftest import ORIGIN, Person, Screens, close_code, enter, knock, outside, present, running

People = Callable[[User], Person]


async def test_a_ticket_opens_the_screen_and_bytes_go_both_ways(
    world: make.World, machine: UUID, person: People, screens: Screens
) -> None:
    ada = await outside(person)(world.people.ada)
    socket = knock(cookies=ada.cookies())
    await enter(socket, await outside(ada.ticket)(machine))
    assert await socket.hear() == b"RFB 003.008\n"
    await socket.say(b"\x00\xff")
    assert await socket.hear() == b"\x00\xff"
    await socket.leave()
    assert screens.opened[0].closed
    assert [asked for _, asked in screens.asked] == [machine]


@pytest.mark.field("G01")
@pytest.mark.parametrize(("who", "status"), [("ada", 200), ("ben", 403), ("cleo", 404), ("olga", 200)])
def test_who_may_ask(world: make.World, machine: UUID, person: People, who: str, status: int) -> None:
    assert person(getattr(world.people, who)).ask(machine).status_code == status


@pytest.mark.field("G01")
def test_nobody_and_nothing(world: make.World, machine: UUID, person: People) -> None:
    from django.test import Client

    assert Client().post(f"/api/v1/machines/{machine}/console").status_code == 401
    assert person(world.people.ada).ask(uuid4()).status_code == 404
    assert person(world.people.ada).client.get(f"/api/v1/machines/{machine}/console").status_code == 405


def test_a_machine_that_does_not_run_has_no_screen(world: make.World, machine: UUID, person: People) -> None:
    reservation = VirtualMachine.objects.get(pk=machine).reservations.get()
    bookings.end_now(reservation, by=world.people.ada, now=clock.now())
    answer = person(world.people.ada).ask(machine)
    assert (answer.status_code, answer.json()["code"]) == (409, "state")


@pytest.mark.field("G05")
async def test_a_second_use_is_refused(world: make.World, machine: UUID, person: People, screens: Screens) -> None:
    ada = await outside(person)(world.people.ada)
    ticket = await outside(ada.ticket)(machine)
    first, second = knock(cookies=ada.cookies()), knock(cookies=ada.cookies())
    await enter(first, ticket)
    await second.connect()
    await present(second, ticket)
    assert await close_code(second) == 4401
    await first.leave()


@pytest.mark.field("G05")
@pytest.mark.parametrize("thief", ["nobody", "ben", "ada elsewhere"])
async def test_a_copied_ticket_opens_nothing_in_another_browser(
    world: make.World, machine: UUID, person: People, screens: Screens, thief: str
) -> None:
    ada = await outside(person)(world.people.ada)
    ticket = await outside(ada.ticket)(machine)
    others = {"nobody": None, "ben": world.people.ben, "ada elsewhere": world.people.ada}
    other = others[thief]
    socket = knock(cookies=(await outside(person)(other)).cookies() if other else "")
    await socket.connect()
    await present(socket, ticket)
    assert await close_code(socket) == 4401
    assert screens.asked == []
    rightful = knock(cookies=ada.cookies())
    await enter(rightful, ticket)  # the theft has not used it up
    await rightful.leave()


@pytest.mark.field("G05")
async def test_an_old_ticket_is_refused(world: make.World, machine: UUID, person: People, screens: Screens) -> None:
    ada = await outside(person)(world.people.ada)
    ticket = await outside(ada.ticket)(machine)
    await outside(lambda: ConsoleTicket.objects.update(expires=clock.now() - timedelta(milliseconds=1)))()
    socket = knock(cookies=ada.cookies())
    await socket.connect()
    await present(socket, ticket)
    assert await close_code(socket) == 4401


NO_TICKETS: tuple[str | bytes, ...] = (
    "not json",
    "[]",
    "{}",
    '{"ticket": 5}',
    json.dumps({"ticket": "x" * 5000}),
    '{"ticket": "unknown"}',
    "[" * 5000,
    b'{"ticket": "x"}',
    b"\xff\xfe",
)


async def test_whatever_else_comes_first_is_refused(transactional_db: None) -> None:
    for frame in NO_TICKETS:
        socket = knock()
        await socket.connect()
        await socket.say(frame)
        assert await close_code(socket) == 4401, frame


async def test_who_says_nothing_is_too_late(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "TICKET_SECONDS", 0.2)
    socket = knock()
    await socket.connect()
    assert await close_code(socket) == 4408


@pytest.mark.field("F02")
@pytest.mark.parametrize(
    ("offered", "answer"),
    [(None, None), (["binary"], "binary"), (["binary", "base64"], "binary"), (["base64", "binary"], "binary")],
)
async def test_sub_protocols(transactional_db: None, offered: list[str] | None, answer: str | None) -> None:
    socket = knock(subprotocols=offered)
    assert await socket.connect() == (True, answer)
    await socket.leave()


@pytest.mark.field("F02")
async def test_only_unknown_sub_protocols_are_refused(transactional_db: None) -> None:
    connected, _ = await knock(subprotocols=["base64", "chat"]).connect()
    assert not connected


FOREIGN_ORIGINS: tuple[tuple[str, ...], ...] = (
    (),
    ("null",),
    ("http://evil.example",),
    ("https://127.0.0.1:8000",),
    ("http://127.0.0.1",),
    ("http://127.0.0.1:8001",),
    ("http://127.0.0.1:8000.evil.example",),
    ("http://evil.example/http://127.0.0.1:8000",),
    ("http://127.0.0.1:8000@evil.example",),
    ("http://[::1",),
    ("*",),
    ("http://evil.example", ORIGIN),
)


@pytest.mark.parametrize("path", ["/", "/ws/", "/ws/console/", "/ws/consoles", "/wp-admin"])
async def test_an_address_that_is_no_socket_is_refused(path: str) -> None:
    assert not (await knock(path).connect())[0]


@pytest.mark.field("G07")
@pytest.mark.parametrize("path", ["/ws/console", "/ws/nudge"])
async def test_a_foreign_origin_is_refused_with_the_best_of_cookies(
    world: make.World, person: People, path: str
) -> None:
    ada = await outside(person)(world.people.ada)
    for origins in FOREIGN_ORIGINS:
        connected, _ = await knock(path, cookies=ada.cookies(), origins=origins).connect()
        assert not connected, origins
    ours = knock(path, cookies=ada.cookies())
    assert (await ours.connect())[0]
    await ours.leave()


@pytest.mark.field("G12")
async def test_nothing_in_the_url_chooses_a_target(
    world: make.World, machine: UUID, person: People, screens: Screens
) -> None:
    ada = await outside(person)(world.people.ada)
    other = (await outside(running)(world)).machine_id
    path = f"/ws/console?host=evil.example&port=5900&path=x&machine={other}&token={other}&url=http://evil.example"
    socket = knock(path, cookies=ada.cookies())
    await enter(socket, await outside(ada.ticket)(machine))
    address, asked = screens.asked[0]
    assert (address.name, asked) == (world.host.name, machine)
    await socket.leave()


async def test_a_program_with_an_api_token_needs_no_session(world: make.World, machine: UUID, screens: Screens) -> None:
    from django.test import Client

    def ask() -> str:
        ada = world.people.ada
        _, token = accounts.make_token(ada, name="t", scopes=[Scope.CONSOLE], days=None, by=ada, now=clock.now())
        answer = Client().post(f"/api/v1/machines/{machine}/console", headers={"Authorization": f"Bearer {token}"})
        return str(answer.json()["ticket"])

    socket = knock()
    await enter(socket, await outside(ask)())
    await socket.leave()


@pytest.mark.field("G06")
async def test_the_secret_is_in_no_table_no_log_and_no_url(
    world: make.World, machine: UUID, person: People, screens: Screens, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    ada = await outside(person)(world.people.ada)
    answer = await outside(ada.ask)(machine)
    secret = answer.json()["ticket"]
    assert answer.json()["path"] == "/ws/console"
    socket = knock(cookies=ada.cookies())
    await enter(socket, secret)
    await socket.leave()
    rows = await outside(lambda: str([list(ConsoleTicket.objects.values()), list(Entry.objects.values())]))()
    assert secret not in rows
    assert secret not in caplog.text


@pytest.mark.parametrize(
    ("code", "close"), [("not_running", 4409), ("no_screen", 4502), ("unreachable", 4502), ("no_program", 4502)]
)
async def test_a_screen_that_cannot_be_had(
    world: make.World, machine: UUID, person: People, screens: Screens, code: str, close: int
) -> None:
    screens.error = GatewayError(code, "It does not answer.", "Wait.", True)
    ada = await outside(person)(world.people.ada)
    socket = knock(cookies=ada.cookies())
    await socket.connect()
    await present(socket, await outside(ada.ticket)(machine))
    assert await close_code(socket) == close


@pytest.mark.parametrize("code", ["unreachable", "host_key"])
async def test_where_a_host_is_reached_is_told_to_operators_only(
    world: make.World, machine: UUID, person: People, screens: Screens, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    screens.error = GatewayError(code, "root@gpu1.example.org cannot be reached.", "Wait.", True)
    ada = await outside(person)(world.people.ada)
    socket = knock(cookies=ada.cookies())
    await socket.connect()
    await present(socket, await outside(ada.ticket)(machine))
    message = await socket.next_output(5)
    assert (message["type"], message["code"]) == ("websocket.close", 4502)
    assert "gpu1" not in message["reason"]
    assert "root@gpu1.example.org cannot be reached." in caplog.text


async def test_between_ticket_and_use_the_reservation_may_end(
    world: make.World, machine: UUID, person: People, screens: Screens
) -> None:
    ada = await outside(person)(world.people.ada)
    ticket = await outside(ada.ticket)(machine)

    def end() -> None:
        reservation = VirtualMachine.objects.get(pk=machine).reservations.get()
        bookings.move(reservation, Status.ACTIVE, Status.ENDING, now=clock.now())

    await outside(end)()
    socket = knock(cookies=ada.cookies())
    await socket.connect()
    await present(socket, ticket)
    assert await close_code(socket) == 4410
    assert screens.asked == []
