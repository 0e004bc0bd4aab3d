"""A host from which no answer comes: a pass waits for it, and nobody else does."""

import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from portal import gateway
from portal.enforcement import actions
from tests import make
from tests.fakes import FakeHost
from tests.portal.enforcement.conftest import Stage

PAGES = ("bookings:calendar", "bookings:book", "bookings:resources", "consoles:machines", "enforcement:hosts")
RELOADS = 100
LIMIT_SECONDS = 2.0
PASSWORD = "quite-long-enough-4711"


@dataclass
class SilentHost(FakeHost):
    """Takes the call and says nothing until it is let go: its packets are dropped."""

    let_go: threading.Event = field(default_factory=threading.Event)

    def apply(self, desired: Mapping[str, Any]) -> dict[str, Any]:
        self.calls.append(desired)
        assert self.let_go.wait(timeout=120)
        return super().apply(desired)


def in_a_worker(stage: Stage) -> None:
    """A tick, as a worker makes it."""
    try:
        stage.tick()
    finally:
        connection.close()


@pytest.mark.field("C05")
def test_a_host_that_hangs_slows_no_page_and_no_page_calls_a_host(
    stage: Stage, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = SilentHost("sim-t4")
    stage.host(host)
    make.user("dora", operator=True, password=PASSWORD, now=stage.now)
    booked = stage.world.book(None, 2)
    worker = threading.Thread(target=in_a_worker, args=(stage,))
    worker.start()
    try:
        while not host.calls:
            time.sleep(0.01)
        monkeypatch.setattr(subprocess, "Popen", lambda *args, **options: pytest.fail("A page called a host."))
        assert _seconds(partial(_log_in, client)) < LIMIT_SECONDS
        addresses = [reverse(name) for name in PAGES] + [reverse("bookings:reservation", args=[booked.pk])]
        slowest = max(_seconds(partial(_open, client, addresses[k % len(addresses)])) for k in range(RELOADS))
        assert slowest < LIMIT_SECONDS
        assert len(host.calls) == 1
    finally:
        host.let_go.set()
        worker.join(timeout=60)
    assert stage.status(booked) == "active"


def test_a_tick_is_patient_with_a_dead_host_and_a_person_is_not(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who presses the button wants to know now."""
    tried: list[str] = []
    monkeypatch.setattr(gateway, "try_at_once", lambda address: tried.append(address.name))
    stage.tick()
    assert tried == []
    olga = make.user("dora", operator=True, password=PASSWORD, now=stage.now)
    actions.ask_look(stage.world.host, by=olga, now=stage.at(0.1).now)
    stage.deliver()
    assert tried == [stage.world.host.name]


def _log_in(client: Client) -> None:
    answer = client.post(reverse("accounts:login"), {"username": "dora", "password": PASSWORD})
    assert answer.status_code == 302


def _open(client: Client, address: str) -> None:
    assert client.get(address).status_code == 200


def _seconds(deed: Callable[[], None]) -> float:
    began = time.monotonic()
    deed()
    return time.monotonic() - began
