"""A WebSocket as consoles need it: Origin checked before anything else, waits bounded, closed once with a reason."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

CLOSE_SECONDS = 5  # a browser that stopped reading does not even take the close frame; then the line is cut
CONSOLE_PATH = "/ws/console"  # where a ticket is shown
SUBPROTOCOL = "binary"
DEFAULT_PORTS = {"http": 80, "https": 443}


class SocketEnd(Exception):
    """The socket is to be closed with this code and reason. Code 0: the browser left, nothing is to be said."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class BrowserLeft(SocketEnd):
    """The other side is gone."""

    def __init__(self) -> None:
        super().__init__(0, "")


def origin_allowed(headers: Iterable[tuple[bytes, bytes]], allowed: Iterable[str]) -> bool:
    """Is there exactly one Origin, and is it one of ours by scheme, host and port?

    A missing one is refused: every browser sends it, and a program that has a ticket can.
    """
    origins = [value.decode("latin-1") for name, value in headers if name == b"origin"]
    if len(origins) != 1:
        return False
    origin = _parsed(origins[0])
    return origin is not None and origin in {_parsed(one) for one in allowed}


def _parsed(origin: str) -> tuple[str, str, int] | None:
    try:
        parts = urlsplit(origin)
        port = parts.port or DEFAULT_PORTS.get(parts.scheme)
    except ValueError:  # a port that is no number, half an IPv6 address
        return None
    plain = not (parts.path or parts.query or parts.fragment or parts.username)
    return (parts.scheme, parts.hostname, port) if plain and parts.hostname and port else None


class Socket:
    """One accepted WebSocket."""

    def __init__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send

    async def open(self, *, allowed: bool = True) -> bool:
        """Answer the handshake: refused (403) for a foreign Origin, or when only unknown sub-protocols are offered."""
        await self._receive()  # websocket.connect
        offered = self._scope.get("subprotocols") or []
        known = SUBPROTOCOL if SUBPROTOCOL in offered else None
        ours = origin_allowed(self._scope["headers"], settings.PUBLIC_ORIGINS)
        if not (allowed and ours) or (offered and not known):
            await self._send({"type": "websocket.close", "code": 4403})
            return False
        await self._send({"type": "websocket.accept", "subprotocol": known})
        return True

    async def receive(self) -> str | bytes:
        """The next frame; BrowserLeft when there is none any more."""
        message = await self._receive()
        if message["type"] != "websocket.receive":
            raise BrowserLeft
        text = message.get("text")
        return text if text is not None else message.get("bytes") or b""

    async def send_text(self, text: str) -> None:
        """One text frame."""
        await self._deliver({"type": "websocket.send", "text": text})

    async def send_bytes(self, data: bytes) -> None:
        """One binary frame; returns when the server has room for more, so a browser that stops reading stops us."""
        await self._deliver({"type": "websocket.send", "bytes": data})

    async def _deliver(self, message: Message) -> None:
        try:
            await self._send(message)
        except OSError as error:  # uvicorn's ClientDisconnected is one, as ASGI 2.4 asks
            raise BrowserLeft from error

    async def close(self, end: SocketEnd) -> None:
        """Say why and hang up. A browser that takes no frames is not waited for."""
        if isinstance(end, BrowserLeft):
            return
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._deliver({"type": "websocket.close", "code": end.code, "reason": short(end.reason)})
        except (TimeoutError, BrowserLeft):
            return  # nobody is there to be told; returning from the application ends the connection


def short(reason: str) -> str:
    """A close frame carries at most 123 bytes of reason."""
    return reason.encode()[:123].decode(errors="ignore")
