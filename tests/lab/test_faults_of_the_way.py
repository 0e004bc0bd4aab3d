"""The way to a host is cut, the host stands still, or it is not the host that it was: the portal's view of it."""

from __future__ import annotations

import json
import select
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.portal import wait_until
from tests.lab import leaks
from tests.lab.machine import Lab
from tests.lab.world import HOST, Booking, World
from tests.leaks import ask

pytestmark = pytest.mark.timeout(1200)
OTHER = "beside"
TOLD = 240.0
"""Seconds until a host that does not answer is told as that; its last call has that long."""
BACK = 300.0
WATCHED = 40.0
SLOW_MS = 15_000
GREETED = 120.0
CUT_OFF = 60.0
"""Longer than sshd waits for a sign of life (three times 15 s)."""
GONE = "for n in $(seq 100); do pgrep -f '[s]erve console' || exit 0; sleep 0.2; done; exit 1"
MAKING = "for n in $(seq 600); do pgrep -f '[m]dev_supported_types.*create' && exit; sleep 0.2; done; exit 1"
"""The brackets keep the shell that looks from finding itself."""
SILENT = {"silent", "lost", "unreachable", "handshake", "timeout"}


@dataclass(frozen=True)
class Seen:
    """How the portal sees its hosts, asked of its database."""

    url: str

    def ask(self, sql: str) -> str:
        return ask("psql", "-XAtq", "-v", "ON_ERROR_STOP=1", self.url, "-c", sql).strip()

    def state(self, host: str, column: str) -> str:
        tables = "enforcement_hoststate AS s JOIN inventory_host AS h ON s.host_id = h.id"
        return self.ask(f"SELECT {column} FROM {tables} WHERE h.name = '{host}'")

    def error(self, host: str) -> dict[str, Any]:
        """What was wrong with the last call; empty: nothing was."""
        return dict(json.loads(self.state(host, "last_error") or "{}"))

    def longest(self, host: str, seconds: float) -> float:
        """The longest time without a good answer of a host, in the next so many seconds."""
        end, longest = time.monotonic() + seconds, 0.0
        while time.monotonic() < end:
            longest = max(longest, float(self.state(host, "extract(epoch FROM now() - last_success)")))
            time.sleep(0.5)
        return longest


@pytest.fixture(scope="module")
def beside(portal: World) -> None:
    """A second host of the same portal, with simulated GPUs on this machine; nothing that the tests book is offered."""
    portal.manage("add_host", OTHER, "--simulate", "gvtg")


@pytest.fixture
def seen(world: World, beside: None) -> Iterator[Seen]:
    """Both hosts answer, before and after the test."""
    seen = Seen(world.settings["DATABASE_URL"])
    hosts = (HOST, OTHER)
    wait_until(lambda: all(seen.state(host, "last_success") for host in hosts), BACK, "both hosts have answered")
    yield seen
    wait_until(lambda: not any(seen.error(host) for host in hosts), BACK, "both hosts answer again")


FAULTS: dict[str, tuple[Callable[[Lab], None], Callable[[Lab], None]]] = {
    "frozen": (Lab.freeze, Lab.thaw),
    "cut off": (Lab.cut, Lab.mend),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_host_that_does_not_answer(world: World, seen: Seen, fault: str) -> None:
    """It is told as that, in words; its machine runs on; the other host is seen as often as before."""
    begin, end = FAULTS[fault]
    before = leaks.look(world.lab)
    booking = world.book("ada", "t4")
    world.runs(booking)
    qemu = qemus(world, booking)
    usual = seen.longest(OTHER, WATCHED)
    begin(world.lab)
    try:
        wait_until(lambda: seen.error(HOST).get("code") in SILENT, TOLD, f"{HOST} is {fault}")
        assert seen.longest(OTHER, WATCHED) < 2 * usual + 1
        error = seen.error(HOST)  # by now it is a connection that cannot be made anew
        assert error["code"] in SILENT, error
        assert error["retry"], error
        assert error["remedy"].startswith("Look "), error
        assert world.reservation(booking.token, booking.id)["status"] == "active"
    finally:
        end(world.lab)
    wait_until(lambda: not seen.error(HOST), BACK, f"{HOST} answers again")
    assert qemus(world, booking) == qemu
    world.end_booking(booking)
    assert leaks.left(before, leaks.look(world.lab)) == []


def test_a_host_that_is_cut_off_in_the_middle_of_a_start(world: World, seen: Seen) -> None:
    """What was begun goes on there, unseen; then it is found, and nothing is made twice."""
    before = leaks.look(world.lab)
    world.lab.shell(f"echo {SLOW_MS} >/sys/module/nvidia/parameters/slow_create_ms")
    booking = world.book("ada", "t4")
    world.lab.shell(MAKING, limit=240)
    world.lab.cut()
    try:
        wait_until(lambda: seen.error(HOST).get("code") in SILENT, TOLD, f"{HOST} is cut off")
    finally:
        world.lab.mend()
    world.lab.shell("echo 0 >/sys/module/nvidia/parameters/slow_create_ms")
    world.runs(booking, BACK)
    assert len(qemus(world, booking)) == 1
    world.end_booking(booking)
    assert leaks.left(before, leaks.look(world.lab)) == []


def test_a_screen_whose_viewer_is_cut_off(world: World, seen: Seen) -> None:
    """The console key opens a screen; when the viewer is not heard of any more, what served it ends by itself."""
    before = leaks.look(world.lab)
    booking = world.book("ada", "t4")
    world.runs(booking)
    viewer = subprocess.Popen(
        [*ssh(world.lab), "root@127.0.0.1", f"console --machine {booking.machine}"],
        cwd=world.lab.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert viewer.stdout is not None
        assert select.select([viewer.stdout], [], [], GREETED)[0], "the screen greets"
        assert viewer.stdout.read(4) == b"RFB "
        world.lab.cut()
        time.sleep(CUT_OFF)
        world.lab.mend()
        world.lab.shell(GONE, limit=60)
    finally:
        world.lab.mend()
        viewer.kill()
        viewer.wait()
    assert world.reservation(booking.token, booking.id)["status"] == "active"
    world.end_booking(booking)
    assert leaks.left(before, leaks.look(world.lab)) == []


def test_another_host_at_the_same_address(world: World, seen: Seen, tmp_path: Path) -> None:
    """Its key is not the pinned one: it is told by fingerprint, and told nothing."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True, timeout=30)
    strange = " ".join((tmp_path / "key.pub").read_text().split()[:2])
    pinned = seen.ask(f"SELECT host_key FROM inventory_host WHERE name = '{HOST}'")
    usual = seen.longest(OTHER, WATCHED)
    seen.ask(f"UPDATE inventory_host SET host_key = '{strange}' WHERE name = '{HOST}'")
    try:
        wait_until(lambda: seen.error(HOST).get("code") == "host_key", TOLD, "the key is refused")
        assert seen.longest(OTHER, WATCHED) < 2 * usual + 1
        error = seen.error(HOST)
        assert world.lab.keys.host_fingerprint in error["what"], error
        assert "change_host" in error["remedy"], error
    finally:
        seen.ask(f"UPDATE inventory_host SET host_key = '{pinned}' WHERE name = '{HOST}'")


def qemus(world: World, booking: Booking) -> list[str]:
    """The processes of a machine."""
    return world.lab.shell(f"pgrep -f '^/usr/bin/qemu-system.*{booking.machine}' || true").split()


def ssh(lab: Lab) -> list[str]:
    """OpenSSH with the console key, to this host alone."""
    settings = {
        "BatchMode": "yes",
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": "known_hosts",
        "HostKeyAlias": "tessera-lab",
        "IdentitiesOnly": "yes",
    }
    words = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    return ["ssh", "-F", "none", *words, "-i", str(lab.keys.console), "-p", str(lab.port)]
