"""Hearing channel groups without ever cancelling the layer's own receive, which would leave buffers behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from channels.layers import get_channel_layer

Heard = Callable[[float | None], Awaitable[dict[str, Any] | None]]


@asynccontextmanager
async def listening(*groups: str) -> AsyncIterator[Heard]:
    """Inside, `await heard(seconds)` is the next message to one of the groups, or None when the seconds are over."""
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
        await asyncio.gather(receiving, return_exceptions=True)
        for group in groups:
            await layer.group_discard(group, channel)
