"""The two sockets: a machine's screen, and the nudges for open pages."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Any

from portal import clock, gateway, nudge
from portal.consoles import actions, rights
from portal.consoles.models import ConsoleTicket
from portal.consoles.socket import BrowserLeft, Receive, Send, Socket, SocketEnd
from portal.consoles.waiting import LAYER_AWAY, first_to_end, in_database, listening
from portal.gateway import ByteStream, GatewayError

log = logging.getLogger(__name__)

TICKET_SECONDS = 5  # for the first frame
CHECK_SECONDS = 5.0  # between two looks at whether the console may stay open
LOOK_AGAIN_SECONDS = 1.0
WRITE_SECONDS = 30  # a machine that takes no key for so long has no living screen
SEND_SECONDS = 30  # a browser that takes no picture for so long is gone, whatever its connection says
LONGEST_FRAME = 500  # characters of the frame with the ticket

BAD_TICKET = 4401
LATE = 4408
UNREACHABLE = 4502
BROKEN = 1011
TRY_LATER = 1013


async def console(scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
    """One console from handshake to hang-up. The machine is the ticket's; nothing in URL or frames chooses it."""
    socket = Socket(scope, receive, send)
    if not await socket.open():
        return
    try:
        await _serve(socket, scope)
    except SocketEnd as end:
        await socket.close(end)
    except Exception:
        log.exception("A console broke")
        await socket.close(SocketEnd(BROKEN, "The portal failed; open the console again."))


async def _serve(socket: Socket, scope: Mapping[str, Any]) -> None:
    """Admit, connect, relay. Ends by raising a SocketEnd; what was opened is closed on every way out."""
    ticket = await _admit(socket, scope)
    stream = await _connect(ticket)
    try:
        await socket.send_text(json.dumps({"ok": True}))
        await first_to_end(_to_browser(socket, stream), _to_machine(socket, stream), _watch(ticket))
    finally:
        await stream.close()


async def _admit(socket: Socket, scope: Mapping[str, Any]) -> ConsoleTicket:
    """The first frame must be {"ticket": ...}, within seconds, and good."""
    try:
        async with asyncio.timeout(TICKET_SECONDS):
            frame = await socket.receive()
    except TimeoutError:
        raise SocketEnd(LATE, "No ticket came in time.") from None
    session = scope.get("session")
    try:
        ticket = await in_database(_redeem, _secret_in(frame), (session.session_key if session else None) or "")
    except (ValueError, actions.TicketRefused):
        raise SocketEnd(BAD_TICKET, "This ticket is not valid; open the console again.") from None
    await _check(ticket)
    return ticket


def _secret_in(frame: str | bytes) -> str:
    """ValueError for everything that is not {"ticket": "a short text"}."""
    message = json.loads(frame) if isinstance(frame, str) and len(frame) <= LONGEST_FRAME else None
    secret = message.get("ticket") if isinstance(message, dict) else None
    if not isinstance(secret, str):
        raise ValueError("no ticket in the first frame")
    return secret


def _redeem(secret: str, session_key: str) -> ConsoleTicket:
    return actions.redeem(secret, session_key=session_key, now=clock.now())


def _objection(ticket: ConsoleTicket) -> SocketEnd | None:
    return rights.objection(ticket, clock.now())


async def _check(ticket: ConsoleTicket) -> None:
    end = await in_database(_objection, ticket)
    if end is not None:
        raise end


async def _connect(ticket: ConsoleTicket) -> ByteStream:
    host = ticket.machine.host
    if host is None:
        raise SocketEnd(rights.NOT_RUNNING, "The machine is not running.")
    try:
        return await gateway.open_console(host.address, ticket.machine_id)
    except GatewayError as error:
        if error.code in gateway.ON_THE_WAY:
            log.warning("No console of %s: %s %s", ticket.machine, error.what, error.remedy)
            raise SocketEnd(UNREACHABLE, "The machine's host cannot be reached now; tell an operator.") from error
        log.info("No console of %s: %s", ticket.machine, error.what)
        code = rights.NOT_RUNNING if error.code == "not_running" else UNREACHABLE
        raise SocketEnd(code, error.what) from error


async def _to_browser(socket: Socket, stream: ByteStream) -> None:
    while data := await stream.read():
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await socket.send_bytes(data)
        except TimeoutError:
            raise BrowserLeft from None
    raise SocketEnd(rights.NOT_RUNNING, "The machine's screen is gone; it may be starting again.")


async def _to_machine(socket: Socket, stream: ByteStream) -> None:
    while True:
        frame = await socket.receive()
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                await stream.write(frame.encode() if isinstance(frame, str) else frame)
        except (TimeoutError, ConnectionError):
            raise SocketEnd(UNREACHABLE, "The machine's screen takes no input.") from None


async def _watch(ticket: ConsoleTicket) -> None:
    """Ask again whether the console may stay open. While nobody can be heard, by the clock alone."""
    while True:
        try:
            await _listen(ticket)
        except LAYER_AWAY as error:
            log.warning("The channel layer is away; consoles look by themselves: %s", error)
            await _check(ticket)
            await asyncio.sleep(CHECK_SECONDS)


async def _listen(ticket: ConsoleTicket) -> None:
    """Ask every few seconds, and at once when told to."""
    host_id = ticket.machine.host_id
    groups = [nudge.sockets_of_user(ticket.user_id), *([nudge.consoles_on_host(host_id)] if host_id else [])]
    async with listening(*groups) as heard:
        patience = CHECK_SECONDS
        while True:
            await _check(ticket)
            # A log-out is told a moment before its session is gone: after a message, look twice
            patience = CHECK_SECONDS if await heard(patience) is None else LOOK_AGAIN_SECONDS


async def nudges(scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
    """Tell one person's open page what to fetch again. Carries URLs, no data; needs a log-in."""
    socket = Socket(scope, receive, send)
    user, session = scope.get("user"), scope.get("session")
    logged_in = user is not None and session is not None and user.is_authenticated
    if not await socket.open(allowed=logged_in) or user is None or session is None:
        return
    try:
        await first_to_end(_pass_on(socket, user.pk, session.session_key or ""), _until_gone(socket))
    except SocketEnd as end:
        await socket.close(end)
    except LAYER_AWAY as error:
        log.warning("No nudges, the channel layer is away: %s", error)
        await socket.close(SocketEnd(TRY_LATER, "The portal has no news to tell now; the page will connect again."))
    except Exception:
        log.exception("A nudge socket broke")
        await socket.close(SocketEnd(BROKEN, "The portal failed; the page will connect again."))


async def _until_gone(socket: Socket) -> None:
    while True:
        await socket.receive()


async def _pass_on(socket: Socket, user_id: int, session_key: str) -> None:
    groups = (nudge.group_of(user_id), nudge.EVERYONE, nudge.sockets_of_user(user_id))
    async with listening(*groups) as heard:
        patience = None
        while True:
            message = await heard(patience)
            patience = None
            if message is not None and message["type"] == "nudge":
                await socket.send_text(json.dumps({"url": message["url"]}))
            elif not await in_database(rights.is_logged_in, user_id, session_key):
                raise rights.logged_out()
            elif message is not None:
                patience = LOOK_AGAIN_SECONDS
