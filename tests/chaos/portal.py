"""A portal with real Celery workers and real hosts, whose ticks the test sends itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from django.conf import settings
from django.db import connection

from portal import clock
from portal.bookings import actions as bookings
from portal.bookings.models import Reservation
from portal.bookings.rules import Wish
from portal.enforcement import tasks
from portal.enforcement.models import HostState
from portal.gateway import HostAddress
from portal.inventory import actions as inventory
from portal.inventory.models import Flavor, Host, HostKind, Image
from tests import make
from tests.leaks import Places, leaks

TICK_SECONDS = 2
GRACE_SECONDS = 3
PATIENCE = 60.0  # seconds; several emulated guests and test suites may share two processors


def until(condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> None:
    """Wait for something that nothing sends a message about."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, f"not within {seconds:g} s: {what}"
        time.sleep(0.1)


@dataclass
class Worker:
    """One Celery worker, a process of its own."""

    process: subprocess.Popen[bytes]

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """As the kernel does when memory runs out: nothing is tidied up."""
        self.process.kill()
        self.process.wait()


@dataclass
class Portal:
    """The world of one test; everything it started ends with it."""

    people: make.Cast
    host: Host
    flavor: Flavor
    image: Image
    log: Path
    workers: list[Worker] = field(default_factory=list)

    def worker(self) -> Worker:
        """Start one; it is used as soon as it listens."""
        words = ["worker", "--pool", "threads", "--concurrency", "4", "--loglevel", "INFO", "--without-gossip"]
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", "portal.celery", *words, "-n", f"w{len(self.workers)}@chaos"],
                env=os.environ | self.environment(),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.workers.append(Worker(process))
        already = self.log.read_text(errors="replace").count(" ready.")
        until(lambda: self.log.read_text(errors="replace").count(" ready.") > already, "the worker listens")
        return self.workers[-1]

    def environment(self) -> dict[str, str]:
        """What a worker must know of this test: its database, and short times."""
        url = urlunsplit(urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}"))
        return {
            "DATABASE_URL": url,
            "TICK_SECONDS": str(TICK_SECONDS),
            "STOP_GRACE_SECONDS": str(GRACE_SECONDS),
            "APPLY_TIMEOUT_SECONDS": "30",
            "SLOT_MINUTES": "1",
        }

    def tick(self) -> None:
        """What beat does."""
        tasks.tick.apply_async(expires=TICK_SECONDS)
        time.sleep(TICK_SECONDS)

    def ticks_until(self, condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> None:
        """Go on ticking until it is so."""
        limit = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < limit, f"not within {seconds:g} s: {what}\n{self.last_words()}"
            self.tick()

    def last_words(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-30:])

    def book(self, **changes: Any) -> Reservation:
        """A reservation of Ada's that starts now."""
        now = clock.now()
        end = now.replace(second=0, microsecond=0) + timedelta(minutes=30)
        fields: dict[str, Any] = {"flavor": self.flavor, "image": self.image, "project": None} | changes
        return bookings.book(Wish(start=None, end=end, **fields), by=self.people.ada, now=now)

    def end(self, reservation: Reservation) -> None:
        bookings.end_now(reservation, by=self.people.ada, now=clock.now())

    def status(self, reservation: Reservation) -> str:
        return str(Reservation.objects.values_list("status", flat=True).get(pk=reservation.pk))

    def state(self) -> HostState:
        return HostState.objects.get(host=self.host)

    @property
    def address(self) -> HostAddress:
        return HostAddress(self.host.name, self.host.kind, self.host.layout)

    def left(self, reservation: Reservation) -> list[str]:
        """What an independent look finds of a reservation that is over."""
        places = Places.of(dict(os.environ) | self.environment())
        kept = not reservation.disposable
        return leaks(places, machine=str(reservation.machine_id), reservation=str(reservation.pk), kept=kept)


def virsh(*words: str) -> str:
    """libvirt, asked past our own code."""
    command = ["virsh", "-q", "-c", settings.LIBVIRT_URI, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def qemu_of(machine: object) -> list[int]:
    """Processes of QEMU that carry this machine's id."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue  # it ended while we looked
            if b"qemu-system" in words.split(b"\0")[0] and str(machine).encode() in words:
                found.append(int(entry.name))
    return found


def add_host(name: str) -> Host:
    """A simulated host; its GPUs are found by the first pass."""
    return inventory.add_host(name, HostKind.SIMULATED, layout="t4", by=None, now=clock.now())
