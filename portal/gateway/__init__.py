"""The only door to vmctl: one function per verb the portal uses, for one host.

Every call has an argument list, a small environment and a limit in seconds. What goes in and what comes out are the
JSON documents of docs/schemas/. Whatever goes wrong becomes one GatewayError with its remedy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.conf import settings

from portal.gateway import child
from portal.gateway.child import command
from portal.gateway.errors import GatewayError
from portal.gateway.screen import ByteStream, ConsoleChild
from portal.host_address import HostAddress

__all__ = ["ByteStream", "GatewayError", "HostAddress", "apply", "command", "gpus", "observe", "open_console"]

Report = dict[str, Any]  # docs/schemas/report.schema.json
Desired = Mapping[str, Any]  # docs/schemas/desired.schema.json

LOOK_SECONDS = 30  # a look without a change: observe, gpus
CONSOLE_OPEN_SECONDS = 10  # until the screen's first bytes


def observe(address: HostAddress) -> Report:
    """What is on the host now; changes nothing."""
    return _call(address, "observe", limit=LOOK_SECONDS)


def gpus(address: HostAddress) -> dict[str, Any]:
    """The host's GPUs and what they can be divided into."""
    return _call(address, "gpus", limit=LOOK_SECONDS)


def apply(address: HostAddress, desired: Desired) -> Report:
    """Bring the host to the desired state; the report says what was done and what is there now."""
    return _call(address, "apply", limit=settings.APPLY_TIMEOUT_SECONDS, given=desired, accepted=(0, 1, 3))


async def open_console(address: HostAddress, machine: UUID) -> ByteStream:
    """The machine's screen. Returned only once the screen has spoken; otherwise GatewayError."""
    stream = await ConsoleChild.start(command(address, "console", "--machine", str(machine)))
    try:
        async with asyncio.timeout(CONSOLE_OPEN_SECONDS):
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


def _call(
    address: HostAddress, verb: str, *, limit: float, given: Desired | None = None, accepted: tuple[int, ...] = (0,)
) -> dict[str, Any]:
    return child.call(address, verb, limit=limit, given=given, accepted=accepted)
