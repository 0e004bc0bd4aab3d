"""Telling open pages, after the commit, that something changed. A nudge carries a URL and nothing else: the page's own
view renders again and checks rights as always."""

import asyncio
import logging
from functools import partial

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction
from redis.exceptions import RedisError  # its ConnectionError is no OSError

log = logging.getLogger(__name__)

EVERYONE = "all"
SEND_SECONDS = 2.0  # the person who booked waits for this


def group_of(user_id: int) -> str:
    """The channel group of one person's open pages."""
    return f"user.{user_id}"


def sockets_of_user(user_id: int) -> str:
    """The channel group of everything one person has open, told when a right of theirs may have gone."""
    return f"sockets.user.{user_id}"


def consoles_on_host(host_id: int) -> str:
    """The channel group of the open consoles on one host, told when a reservation there has changed."""
    return f"sockets.host.{host_id}"


def user(user_id: int, *, url: str) -> None:
    """Once committed, tell this person's open pages to fetch `url` again."""
    transaction.on_commit(partial(_send, group_of(user_id), {"type": "nudge", "url": url}))


def everyone(*, url: str) -> None:
    """Once committed, tell all open pages to fetch `url` again."""
    transaction.on_commit(partial(_send, EVERYONE, {"type": "nudge", "url": url}))


def recheck(group: str) -> None:
    """Once committed, tell the open sockets of a group to ask again whether they may stay open."""
    transaction.on_commit(partial(_send, group, {"type": "recheck"}))


def _send(group: str, message: dict[str, str]) -> None:
    """A channel layer that is away or hangs costs a page its freshness, never the committed work: pages and
    consoles also ask by themselves."""
    try:
        async_to_sync(_deliver)(group, message)
    except (OSError, TimeoutError, RedisError) as error:
        log.warning("No nudge to %s: %s", group, str(error) or "no answer in time")


async def _deliver(group: str, message: dict[str, str]) -> None:
    layer = get_channel_layer()
    if layer is not None:
        async with asyncio.timeout(SEND_SECONDS):
            await layer.group_send(group, message)
