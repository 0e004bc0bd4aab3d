"""Consoles through the real server: what a browser that stops reading, or vanishes, costs the portal."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest
import websockets
from django.db import connection

from portal import clock
from portal.bookings import actions as bookings
from portal.bookings.models import Reservation
from portal.consoles import actions
from tests import make
from tests.portal.consoles.conftest import outside, running

STAND_IN = """
import os, sys
machine = sys.argv[sys.argv.index("--machine") + 1]
os.write(1, b"RFB 003.008\\n")
sent = 0
while {flood}:
    sent += os.write(1, b"x" * 65536)
    open(os.path.join({folder!r}, "sent"), "w").write(str(sent))
while data := os.read(0, 65536):
    os.write(1, data)
"""


@dataclass
class Server:
    """uvicorn as a process of its own, seen from outside."""

    process: subprocess.Popen[bytes]
    port: int
    folder: Path

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def children(self) -> list[str]:
        return Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()

    def memory_mib(self) -> float:
        """What it holds now, in MiB."""
        line = next(one for one in Path(f"/proc/{self.process.pid}/status").read_text().splitlines() if "VmRSS" in one)
        return int(line.split()[1]) / 1024

    def sent(self) -> int:
        """Bytes that a flooding screen could get rid of."""
        file = self.folder / "sent"
        return int(file.read_text() or 0) if file.exists() else 0

    async def answers(self) -> float:
        """Seconds for a page, while all else goes on."""
        began = time.monotonic()
        url = f"{self.origin}/healthz"
        await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=10).read())
        return time.monotonic() - began


@pytest.fixture
def serve(transactional_db: None, tmp_path: Path) -> Iterator[Callable[[str], Server]]:
    """`serve(flood)`: a server whose screens echo ("False") or send without end ("True")."""
    started: list[Server] = []

    def start(flood: str) -> Server:
        script = tmp_path / "vmctl.py"
        script.write_text(STAND_IN.format(flood=flood, folder=str(tmp_path)))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with (tmp_path / "server.log").open("wb") as log:
            words = [sys.executable, "-m", "tests.portal.consoles.server", str(port), str(script)]
            process = subprocess.Popen(words, env=_environment(port), stdout=log, stderr=log)
        started.append(Server(process, port, tmp_path))
        _await_answer(started[0])
        return started[0]

    yield start
    for server in started:
        server.process.terminate()
        server.process.wait(20)


def _environment(port: int) -> dict[str, str]:
    url = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}")
    return os.environ | {
        "DATABASE_URL": urlunsplit(url),
        "PORT": str(port),
        "PUBLIC_ORIGINS": f"http://127.0.0.1:{port}",
    }


def _await_answer(server: Server) -> None:
    limit = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(f"{server.origin}/healthz", timeout=5)
        except OSError:
            assert time.monotonic() < limit, (server.folder / "server.log").read_text()
            assert server.process.poll() is None, (server.folder / "server.log").read_text()
            time.sleep(0.1)
        else:
            return


@pytest.fixture
def ticket(world: make.World) -> Callable[[], Awaitable[str]]:
    """`await ticket()`: one for Ada's running machine, as a program gets it."""
    machine = running(world).machine

    def issue() -> str:
        return actions.issue(machine, to=world.people.ada, session_key="", now=clock.now()).secret

    return outside(issue)


async def until(condition: Callable[[], Any], what: str, seconds: float = 30) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, what
        await asyncio.sleep(0.1)


async def talk(server: Server, secret: str) -> websockets.ClientConnection:
    """An open console of a well-behaved browser."""
    client = await websockets.connect(
        f"ws://127.0.0.1:{server.port}/ws/console", origin=websockets.Origin(server.origin)
    )
    await client.send(json.dumps({"ticket": secret}))
    assert json.loads(await client.recv()) == {"ok": True}
    first = await client.recv()
    assert isinstance(first, bytes)
    assert first.startswith(b"RFB 003.008\n")  # a flooding screen's next bytes may come with it
    return client


def stop_reading(server: Server, secret: str) -> socket.socket:
    """A browser that hands in its ticket and then neither reads nor answers any more."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", server.port))
    key = base64.b64encode(os.urandom(16)).decode()
    lines = [
        "GET /ws/console HTTP/1.1",
        f"Host: 127.0.0.1:{server.port}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {key}",
        "Sec-WebSocket-Version: 13",
        f"Origin: {server.origin}",
    ]
    client.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        answer += client.recv(1)
    assert answer.startswith(b"HTTP/1.1 101")
    payload = json.dumps({"ticket": secret}).encode()
    client.sendall(bytes([0x81, 0x80 | len(payload)]) + b"\0\0\0\0" + payload)  # one masked text frame
    return client


@pytest.mark.field("F05")
@pytest.mark.field("F06")
async def test_a_hundred_rounds_leave_memory_descriptors_and_children_as_they_were(
    serve: Callable[[str], Server], ticket: Callable[[], Awaitable[str]]
) -> None:
    server = serve("False")

    async def rounds(count: int, kill: bool) -> None:
        for _ in range(count):
            clients = [await talk(server, await ticket()) for _ in range(5)]
            for client in clients:
                if kill:
                    client.transport.abort()
                else:
                    await client.close()
        await until(lambda: not server.children(), "a child is left")

    await rounds(4, kill=False)
    memory, descriptors = server.memory_mib(), server.descriptors()
    await rounds(12, kill=False)
    await rounds(12, kill=True)
    await until(lambda: server.descriptors() <= descriptors + 1, "a descriptor is left")
    assert server.memory_mib() < memory * 1.1 + 2


@pytest.mark.field("F06")
async def test_a_browser_that_stops_reading_costs_no_memory_and_delays_nobody(
    serve: Callable[[str], Server], ticket: Callable[[], Awaitable[str]]
) -> None:
    server = serve("True")
    idle, memory = server.descriptors(), server.memory_mib()
    browsers = [await asyncio.to_thread(stop_reading, server, await ticket()) for _ in range(3)]
    await until(lambda: server.sent() > 0, "the screens have begun to send")
    assert max([await server.answers() for _ in range(5)]) < 2
    assert server.sent() < 16 * 1024 * 1024
    assert server.memory_mib() < memory + 30
    await until(lambda: not server.children(), "who answers no ping is hung up on")
    for browser in browsers:
        browser.close()
    await until(lambda: server.descriptors() <= idle + 1, "a descriptor is left")


async def _read_on(client: websockets.ClientConnection) -> None:
    while True:
        await client.recv()


async def test_a_reading_browser_gets_everything_until_the_reservation_ends(
    serve: Callable[[str], Server], ticket: Callable[[], Awaitable[str]], world: make.World
) -> None:
    server = serve("True")
    client = await talk(server, await ticket())
    received = 0
    while received < 20_000_000:
        received += len(await client.recv())
    reservation = await outside(Reservation.objects.get)()
    await outside(bookings.end_now)(reservation, by=world.people.ada, now=await outside(clock.now)())
    with pytest.raises(websockets.ConnectionClosedError):
        await _read_on(client)
    assert (client.close_code, client.close_reason) == (4410, "The reservation has ended.")
    await until(lambda: not server.children(), "the child is gone")


@pytest.mark.field("G06")
@pytest.mark.field("G07")
async def test_the_servers_log_knows_no_ticket_and_a_foreign_page_gets_403(
    serve: Callable[[str], Server], ticket: Callable[[], Awaitable[str]]
) -> None:
    server = serve("False")
    secret = await ticket()
    await (await talk(server, secret)).close()
    url = f"ws://127.0.0.1:{server.port}/ws/console"
    for origin in (None, websockets.Origin("http://evil.example"), websockets.Origin("null")):
        with pytest.raises(websockets.InvalidStatus) as refused:
            await websockets.connect(url, origin=origin)
        assert refused.value.response.status_code == 403
    log = (server.folder / "server.log").read_text()
    assert "/ws/console" in log
    assert secret not in log
