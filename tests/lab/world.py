"""The portal of a lab: its real programs on the environment's services, with the lab as its only host, over SSH."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.journeys.portal import Portal, drop_database, settings_of, wait_until
from tests.lab.machine import Lab

HOST = "lab"
MACHINES = "/var/lib/tessera/machines"
ADDED = 180.0
OFFERED = 240.0  # seconds until the portal has seen what a card can be cut into
ASKED_AGAIN = 2.0
RUNS = 300.0  # from a booking to a running machine
GONE = 240.0  # from its cancelling to nothing left
TOLD = "tessera: reservation"
BOOTED = 300.0  # until the guest has told all on its serial port
# On an idle machine these are some 10, 20, 20 and 15; a lab that shares two processors with others is ten times slower.
APPLY_SECONDS, TICK_SECONDS = "240", "15"


@dataclass(frozen=True)
class Booking:
    """One that was made, with the token of who made it."""

    id: str
    machine: str
    user: str
    token: str


@dataclass(kw_only=True)
class World(Portal):
    """A portal whose machines run in the lab. `passwords`: of the people who may log in."""

    lab: Lab
    passwords: dict[str, str] = field(default_factory=dict)
    _tokens: dict[str, str] = field(default_factory=dict)

    def token(self, user: str) -> str:
        """One for each person."""
        if user not in self._tokens:
            self._tokens[user] = super().token(user)
        return self._tokens[user]

    def shell(self, code: str) -> str:
        """What Python code prints that runs inside the portal."""
        return self.manage("shell", "-v0", "-c", f"from tests.lab import stock\n{code}")

    def add_lab(self) -> None:
        """Add the lab as a host, by the fingerprint of its own key; again where a loaded lab is too slow for it."""
        address = f"root@127.0.0.1:{self.lab.port}"
        known = self.lab.keys.host_fingerprint

        def add() -> bool:
            try:
                self.manage("add_host", HOST, "--ssh", address, "--fingerprint", known, "--simulated-gpus")
            except subprocess.CalledProcessError:
                return False
            return True

        wait_until(add, ADDED, "the lab is added; standard error says why not")

    def cut(self, *addresses: str) -> None:
        """Have cards shared in equal sizes; the host's next pass switches their virtual functions on."""
        self.shell(f"stock.cut(*{addresses!r})")

    # -- bookings

    def book(self, user: str, flavor: str, *, minutes: int = 30, disposable: bool = True) -> Booking:
        """Book from now on by the API, as soon as the host offers it."""
        token = self.token(user)
        end = (datetime.now(UTC) + timedelta(minutes=minutes)).replace(second=0, microsecond=0)
        wish = {"flavor": flavor, "image": "demo", "disposable": disposable, "end": end.isoformat()}

        def ask() -> dict[str, Any] | None:
            status, document = self.call("POST", "reservations", token, wish)
            assert status in (201, 409), document
            if status == 201:
                return dict(document)
            refused.append(document)
            time.sleep(ASKED_AGAIN)
            return None

        refused: list[Any] = []
        try:
            made = wait_until(ask, OFFERED, f"{flavor} can be booked")
        except AssertionError as late:
            raise AssertionError(f"{late}: {refused[-1]}") from None
        return Booking(made["id"], made["machine"], user, token)

    def runs(self, booking: Booking, seconds: float = RUNS) -> dict[str, Any]:
        """The reservation once its machine runs."""
        return self.wait_for_status(booking.token, booking.id, "active", seconds)

    def boots(self, booking: Booking, seconds: float = BOOTED) -> str:
        """The machine's serial log once its guest has told what it sees."""
        return self.wait_for_serial(booking.machine, TOLD, seconds)

    def end_booking(self, booking: Booking, seconds: float = GONE) -> None:
        """Cancel it and wait until the share is given back."""
        status, document = self.call("POST", f"reservations/{booking.id}/cancel", booking.token)
        assert status == 200, document
        self.wait_for_status(booking.token, booking.id, "ended", seconds)

    # -- what is in the lab, asked past our own code

    def serial(self, machine: str) -> str:
        """A machine's serial log so far."""
        return self.lab.shell(f"cat {MACHINES}/{machine}/serial.log 2>/dev/null || true")

    def domain(self, machine: str) -> ET.Element:
        """A machine as libvirt has it."""
        return ET.fromstring(self.lab.shell(f"virsh -q dumpxml {machine}"))

    def mediated(self, machine: str) -> str:
        """The UUID of the one mediated device in a machine's domain, which is on the kernel's bus."""
        named = [found.attrib["uuid"] for found in self.domain(machine).iterfind("devices/hostdev/source/address")]
        assert len(named) == 1, named
        self.lab.shell(f"ls -d /sys/bus/mdev/devices/{named[0]}")
        return named[0]

    def functions(self, booking: Booking) -> list[tuple[str, str]]:
        """The PCI functions that a guest sees: VENDOR:DEVICE and class of each, by its own word."""
        pattern = r"tessera-pci: ([0-9a-f]{4}:[0-9a-f]{4}) [0-9a-f:]{9} ([0-9a-f]{6})"
        return re.findall(pattern, self.boots(booking))


@contextmanager
def portal_of(lab: Lab, folder: Path) -> Iterator[World]:
    """A portal with people, flavors and the lab as its host, that runs as long as this context lasts."""
    times = {"TICK_SECONDS": TICK_SECONDS, "APPLY_TIMEOUT_SECONDS": APPLY_SECONDS}
    world = World(settings_of(folder, SSH_DIR=str(folder / "ssh"), **times), folder, lab=lab)
    try:
        _give_keys(lab, folder / "ssh")
        world.manage("migrate", "--no-input", "-v0")
        world.passwords = json.loads(world.shell("stock.fill()").splitlines()[-1])
        world.add_lab()
        for name in ("web", "worker", "beat"):
            world.start(name)
        wait_until(world.ready, 60, f"the portal is ready; logs in {folder}")
        yield world
    finally:
        world.end()
        drop_database(world.settings["DATABASE_URL"], os.environ["DATABASE_URL"])


def _give_keys(lab: Lab, folder: Path) -> None:
    """The private keys whose lines stand in the lab's authorized_keys."""
    folder.mkdir(mode=0o700)
    for name, key in (("apply", lab.keys.apply), ("console", lab.keys.console)):
        file = folder / name
        file.touch(mode=0o600)
        file.write_bytes(key.read_bytes())
