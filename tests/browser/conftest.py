"""A real browser in front of the real portal: uvicorn in a thread, PostgreSQL, Redis. Only the hosts are missing."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any

import pytest
import uvicorn
from django.conf import settings
from django.db import connections
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright

from portal import clock
from portal.accounts.models import User
from portal.bookings import actions as bookings
from portal.bookings import rules
from portal.bookings.models import Reservation
from portal.bookings.rules import Wish
from portal.bookings.states import Status
from portal.enforcement import tasks
from tests import make
from tests.browser.chromium import arguments, chromium

START_SECONDS = 20
# A refused form, a ticket for a machine that is off, a socket that is closed, a portal that does not answer
SAID_ON_THE_PAGE = ("Failed to load resource", "WebSocket", "htmx:afterRequest", "htmx:sendError")


@pytest.fixture(scope="session", autouse=True)
def _orm_beside_a_loop() -> Iterator[None]:
    """Playwright's synchronous interface keeps an event loop running in this thread, so Django takes plain queries here
    for asynchronous code."""
    before = os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE")
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    yield
    if before is None:
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


Backstage = Callable[..., Any]


@pytest.fixture(scope="session")
def backstage() -> Iterator[Backstage]:
    """`backstage(action, ...)` does something beside the browser, in a thread without a loop: actions tell the channel
    layer of what they did, and that wants a loop of its own."""
    with ThreadPoolExecutor(1) as thread:
        yield lambda action, *args, **kwargs: thread.submit(action, *args, **kwargs).result()
        thread.submit(connections.close_all).result()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with (
        sync_playwright() as playwright,
        closing(playwright.chromium.launch(executable_path=chromium(), args=arguments())) as launched,
    ):
        yield launched


@pytest.fixture(scope="session")
def _portal() -> Iterator[tuple[str, uvicorn.Server]]:
    """The portal's address, and its server. The address is added to the origins in place: the sockets' door keeps that
    very list."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        settings.PUBLIC_ORIGINS.append(address)
        from portal.asgi import application

        config = uvicorn.Config(application, ws="websockets-sansio", log_level="warning", lifespan="off")
        server = uvicorn.Server(config)
        listener.listen()
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True)
        thread.start()
        _wait_until(lambda: server.started)
        yield address, server
        server.should_exit = True
        thread.join(START_SECONDS)
        settings.PUBLIC_ORIGINS.remove(address)


def _wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not done():
        if time.monotonic() > deadline:
            pytest.fail(f"The portal did not start, or did not come to rest, in {START_SECONDS} s.")
        time.sleep(0.02)


@pytest.fixture
def portal(
    _portal: tuple[str, uvicorn.Server], transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The address, with an empty database for each test. Nobody enforces here: no worker is woken."""
    address, server = _portal
    monkeypatch.setattr(tasks, "soon", lambda host_id, now: None)
    yield address
    # The database is emptied next, which must not meet a request that still reads it
    _wait_until(lambda: not server.server_state.connections and not server.server_state.tasks)


@pytest.fixture
def world(portal: str, backstage: Backstage) -> make.World:
    """The usual world, seen a moment ago."""
    made: make.World = backstage(make.world, clock.now())
    return made


@pytest.fixture
def step(portal: str) -> datetime:
    """The first step of the calendar that lies ahead."""
    return rules.next_step(clock.now() + timedelta(seconds=1), rules.policy())


@pytest.fixture
def running(world: make.World, step: datetime, backstage: Backstage) -> Reservation:
    """Ada's machine runs, for two hours from now."""
    wish = Wish(flavor=world.small, image=world.image, end=step + timedelta(hours=2))
    reservation: Reservation = backstage(bookings.book, wish, by=world.people.ada, now=clock.now())
    for old, new in ((Status.BOOKED, Status.STARTING), (Status.STARTING, Status.ACTIVE)):
        assert backstage(bookings.move, reservation, old, new, now=clock.now())
    return reservation


OpenPage = Callable[..., Page]


@pytest.fixture
def open_page(browser: Browser, portal: str, backstage: Backstage) -> Iterator[OpenPage]:
    """`open_page(user, **context options)`: a page in which this person is logged in. What the browser complains about
    fails the test: a refused script or style, a broken script."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error" and not any(said in message.text for said in SAID_ON_THE_PAGE):
            complaints.append(message.text)

    def open_for(user: User | None, **options: Any) -> Page:
        context = browser.new_context(
            base_url=portal, viewport=options.pop("viewport", {"width": 1440, "height": 900}), **options
        )
        contexts.append(context)
        if user is not None:
            context.add_cookies([{"name": "sessionid", "value": backstage(_session, user), "url": portal}])
        page = context.new_page()
        page.on("console", note)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.set_default_timeout(15_000)
        return page

    yield open_for
    for context in contexts:
        context.close()
    assert complaints == []


def _session(user: User) -> str:
    client = Client()
    client.force_login(user)
    return client.cookies["sessionid"].value
