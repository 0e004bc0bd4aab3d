"""A running machine of Ada's, people in front of browsers, and screens that are fakes with a character."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest
from asgiref.testing import ApplicationCommunicator
from channels.db import database_sync_to_async
from django.contrib.auth import SESSION_KEY
from django.test import Client

from portal import clock, gateway
from portal.accounts.models import User
from portal.asgi import application
from portal.bookings import actions as bookings
from portal.bookings.models import Reservation
from portal.bookings.rules import Wish
from portal.bookings.states import Status
from portal.gateway import HostAddress
from tests import make

PATIENCE = 10.0  # seconds, on a machine that others use as well
ORIGIN = "http://127.0.0.1:8000"


def running(world: make.World, **wish: Any) -> Reservation:
    """A reservation that a host has reported as up. Times are the database's."""
    now = clock.now()
    image = {} if "machine" in wish else {"image": world.image}
    end = _next_step(now)
    fields: dict[str, Any] = {"flavor": world.small, "project": world.people.project} | image | wish
    reservation = bookings.book(Wish(start=None, end=end, **fields), by=world.people.ada, now=now)
    assert bookings.move(reservation, Status.BOOKED, Status.STARTING, now=now)
    assert bookings.move(reservation, Status.STARTING, Status.ACTIVE, now=now, confirmed_end=end)
    return reservation


def _next_step(now: Any) -> Any:
    from datetime import timedelta

    return now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=3)


@dataclass
class Screen:
    """Greets as VNC does and echoes what it is sent."""

    out: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)
    closed: bool = False

    def __post_init__(self) -> None:
        self.out.put_nowait(b"RFB 003.008\n")

    async def read(self) -> bytes:
        return await self.out.get()

    async def write(self, data: bytes) -> None:
        await self.out.put(data)

    async def close(self) -> None:
        self.closed = True


class StuckScreen(Screen):
    """Takes no input."""

    async def write(self, data: bytes) -> None:
        await asyncio.sleep(3600)


@dataclass
class Screens:
    """Stands in for the gateway: which machines were asked for, and what they show."""

    kind: type[Screen] = Screen
    asked: list[tuple[HostAddress, UUID]] = field(default_factory=list)
    opened: list[Screen] = field(default_factory=list)
    error: gateway.GatewayError | None = None

    async def open(self, address: HostAddress, machine: UUID) -> Screen:
        self.asked.append((address, machine))
        if self.error is not None:
            raise self.error
        self.opened.append(self.kind())
        return self.opened[-1]


@dataclass
class Person:
    """Somebody with a browser: cookies, and sockets opened with them."""

    user: User
    client: Client

    @property
    def session_key(self) -> str:
        assert self.client.session[SESSION_KEY] == str(self.user.pk)
        return self.client.session.session_key or ""

    def ask(self, machine: Any) -> Any:
        """POST for a ticket, as the console page does."""
        return self.client.post(f"/api/v1/machines/{machine}/console", headers={"X-CSRFToken": self.csrf()})

    def ticket(self, machine: Any) -> str:
        answer = self.ask(machine)
        assert answer.status_code == 200, answer.content
        return str(answer.json()["ticket"])

    def csrf(self) -> str:
        """A fresh proof, in cookie and header alike."""
        from django.middleware.csrf import _get_new_csrf_string

        secret = _get_new_csrf_string()
        self.client.cookies["csrftoken"] = secret
        return secret

    def cookies(self) -> str:
        return "; ".join(f"{name}={morsel.value}" for name, morsel in self.client.cookies.items())


class Wire:
    """One WebSocket, spoken to the application as a server would. (Channels' own communicator needs daphne.)"""

    def __init__(self, scope: dict[str, Any]) -> None:
        build: Any = ApplicationCommunicator  # without hints
        self.line = build(application, scope)

    async def connect(self) -> tuple[bool, str | None]:
        """Accepted or not, and the sub-protocol answered."""
        await self.line.send_input({"type": "websocket.connect"})
        answer = await self.next_output()
        return answer["type"] == "websocket.accept", answer.get("subprotocol")

    async def say(self, frame: str | bytes) -> None:
        """One frame to the portal."""
        key = "text" if isinstance(frame, str) else "bytes"
        await self.line.send_input({"type": "websocket.receive", key: frame})

    async def hear(self) -> Any:
        """The next frame from the portal; a hang-up is a failure."""
        message = await self.next_output()
        assert message["type"] == "websocket.send", message
        return message.get("text") or message.get("bytes")

    async def next_output(self, seconds: float = PATIENCE) -> dict[str, Any]:
        """Whatever the portal does next."""
        message: dict[str, Any] = await self.line.receive_output(timeout=seconds)
        return message

    async def is_silent(self, seconds: float) -> bool:
        """Does nothing come for so long?"""
        return bool(await self.line.receive_nothing(timeout=seconds))

    async def let_go(self) -> None:
        """Wait until the portal has finished with this socket."""
        await self.line.wait(timeout=PATIENCE)

    async def leave(self) -> None:
        """The browser goes; returns when the portal has let go as well."""
        await self.line.send_input({"type": "websocket.disconnect", "code": 1001})
        await self.let_go()


def knock(
    path: str = "/ws/console",
    *,
    cookies: str = "",
    origins: tuple[str, ...] = (ORIGIN,),
    subprotocols: list[str] | None = None,
) -> Wire:
    """A WebSocket to the whole application, not connected yet."""
    headers = [(b"origin", origin.encode()) for origin in origins]
    if cookies:
        headers.append((b"cookie", cookies.encode()))
    bare, _, query = path.partition("?")
    scope = {"type": "websocket", "path": bare, "query_string": query.encode(), "headers": headers}
    return Wire(scope | {"subprotocols": subprotocols or []})


async def enter(socket: Wire, ticket: str) -> None:
    """Connect and hand in the ticket; returns when the portal has said yes."""
    connected, _ = await socket.connect()
    assert connected
    await present(socket, ticket)
    assert json.loads(await socket.hear()) == {"ok": True}


async def present(socket: Wire, ticket: str) -> None:
    """Hand the ticket in, as the first frame."""
    await socket.say(json.dumps({"ticket": ticket}))


async def close_code(socket: Wire, seconds: float = PATIENCE) -> int:
    """With which code the portal hangs up; bytes that still come are passed over."""
    while True:
        message = await socket.next_output(seconds)
        if message["type"] == "websocket.close":
            assert message["code"] != 1011, message
            return int(message["code"])


def outside(work: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """Run database work of a test beside the event loop."""
    beside: Callable[..., Awaitable[Any]] = database_sync_to_async(work)
    return beside


@pytest.fixture
def world(transactional_db: None) -> make.World:
    """The usual world, now."""
    return make.world(clock.now())


@pytest.fixture
def machine(world: make.World) -> UUID:
    """Ada's machine, running now; Ben shares its project."""
    return running(world).machine_id


@pytest.fixture
def person(world: make.World) -> Callable[[User], Person]:
    """`person(user)`: logged in, in a browser of their own."""

    def log_in(user: User) -> Person:
        client = Client()
        client.force_login(user)
        return Person(user, client)

    return log_in


@pytest.fixture
def screens(monkeypatch: pytest.MonkeyPatch) -> Screens:
    """Fake screens in place of the hosts'."""
    made = Screens()
    monkeypatch.setattr(gateway, "open_console", made.open)
    return made
