"""How a socket waits: for the database, for messages, for the first of several things to end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, ParamSpec, TypeVar

from channels.db import database_sync_to_async
from channels.layers import get_channel_layer
from redis.exceptions import RedisError

log = logging.getLogger(__name__)

CANCEL_AGAIN_SECONDS = 0.5
LEAVE_SECONDS = 5  # a channel layer that is away must not keep a socket that has ended
LAYER_AWAY = (OSError, RedisError)  # redis-py's ConnectionError is no OSError
P = ParamSpec("P")
T = TypeVar("T")
Heard = Callable[[float | None], Awaitable[dict[str, Any] | None]]


async def in_database(question: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Ask in a thread, so that the event loop goes on; the thread's connection is closed as after a request.

    asgiref (3.13) swallows a cancelling that comes while the thread works; it is raised here, or the caller lives on.
    """
    answer: T = await database_sync_to_async(question)(*args, **kwargs)
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
    return answer


async def first_to_end(*parts: Coroutine[Any, Any, None]) -> None:
    """Run all parts until one ends, end the others, and raise what the first one raised."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _end(tasks)
    for task in tasks:
        if task in done:
            task.result()


async def _end(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel until all have ended: libraries now and then swallow one (redis-py 8 does while it connects)."""
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=CANCEL_AGAIN_SECONDS)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # looked at, or asyncio would complain that nobody did


@asynccontextmanager
async def listening(*groups: str) -> AsyncIterator[Heard]:
    """Inside, `await heard(seconds)` is the next message to one of the groups, or None when the seconds are over.

    The layer's own receive is never cancelled between two messages: that would leave buffers behind.
    """
    layer = get_channel_layer()
    assert layer is not None
    channel = await layer.new_channel()
    for group in groups:
        await layer.group_add(group, channel)
    receiving: asyncio.Future[dict[str, Any]] = asyncio.ensure_future(layer.receive(channel))

    async def heard(seconds: float | None) -> dict[str, Any] | None:
        nonlocal receiving
        done, _ = await asyncio.wait({receiving}, timeout=seconds)
        if not done:
            return None
        message = receiving.result()
        receiving = asyncio.ensure_future(layer.receive(channel))
        return message

    try:
        yield heard
    finally:
        receiving.cancel()
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                await asyncio.gather(receiving, return_exceptions=True)
                for group in groups:
                    await layer.group_discard(group, channel)
        except (TimeoutError, *LAYER_AWAY):
            log.warning("The channel layer did not take leave of %s", channel)
