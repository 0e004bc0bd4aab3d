"""The only door to vmctl: one function per verb the portal uses, for one host.

Every call has an argument list, a small environment and a limit in seconds. What goes in and what comes out are the
JSON documents of docs/schemas/. Whatever goes wrong becomes one GatewayError with its remedy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings

from portal.gateway import child, ssh
from portal.gateway.errors import ON_THE_WAY, GatewayError
from portal.gateway.screen import ByteStream, ConsoleChild
from portal.gateway.ssh.keys import public_keys
from portal.gateway.ssh.opening import host_key_of
from portal.host_address import HostAddress

__all__ = [
    "ON_THE_WAY",
    "ByteStream",
    "GatewayError",
    "HostAddress",
    "apply",
    "command",
    "gpus",
    "host_key_of",
    "observe",
    "open_console",
    "public_keys",
    "try_at_once",
]

Report = dict[str, Any]  # docs/schemas/report.schema.json
Desired = Mapping[str, Any]  # docs/schemas/desired.schema.json

LOOK_SECONDS = 30  # a look without a change: observe, gpus
CONSOLE_OPEN_SECONDS = 10  # until the screen's first bytes, from when vmctl was asked for it
WAY_SECONDS = 15  # more for a host over SSH: to connect and to log in


def observe(address: HostAddress) -> Report:
    """What is on the host now; changes nothing."""
    return _look(address, "observe")


def gpus(address: HostAddress) -> dict[str, Any]:
    """The host's GPUs and what they can be divided into."""
    return _look(address, "gpus")


def apply(address: HostAddress, desired: Desired) -> Report:
    """Bring the host to the desired state; the report says what was done and what is there now."""
    limit = settings.APPLY_TIMEOUT_SECONDS
    if address.ssh:
        return ssh.call(address, "apply", limit=limit, given=desired, accepted=(0, 1, 3), patient=True)
    return child.call(address, "apply", limit=limit, given=desired, accepted=(0, 1, 3))


def try_at_once(address: HostAddress) -> None:
    """Somebody waits to know whether the host is back: the next apply tries, however often it failed before."""
    if address.ssh:
        ssh.LINES.try_at_once(address)


async def open_console(address: HostAddress, machine: UUID) -> ByteStream:
    """The machine's screen. Returned only once the screen has spoken; otherwise GatewayError."""
    words = await asyncio.to_thread(command, address, "console", "--machine", str(machine))
    stream = await ConsoleChild.start(words, partial(ssh.complaint, address))
    try:
        async with asyncio.timeout(CONSOLE_OPEN_SECONDS + (WAY_SECONDS if address.ssh else 0)):
            await stream.wait_for_greeting()
    except TimeoutError:
        await stream.close()
        raise GatewayError(
            "no_screen", "The machine's screen did not answer.", "Open the console again in a moment.", True
        ) from None
    except BaseException:
        await stream.close()
        raise
    return stream


def command(address: HostAddress, verb: str, *arguments: str) -> list[str]:
    """The argument list for one verb; no shell ever sees it."""
    if address.ssh:
        return ssh.command(address.ssh, ssh.remote_words(verb, *arguments))
    return child.command(address, verb, *arguments)


def _look(address: HostAddress, verb: str) -> dict[str, Any]:
    if address.ssh:
        return ssh.call(address, verb, limit=LOOK_SECONDS, given=None, accepted=(0,), patient=False)
    return child.call(address, verb, limit=LOOK_SECONDS, given=None, accepted=(0,))
