"""The daemon restarted, frozen and freed again: a sentence in seconds, then as if nothing had been."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vmctl.real.place import Place, libvirt_uri, until

GIVEN_UP_IN = 15.0
"""Seconds until a frozen daemon is given up: connecting has 5, the look at the disks the rest."""


def libvirtd() -> int:
    """The daemon of these tests, 0 while it is being started again. They need a private one: no other may be frozen."""
    file = Path(os.environ["RUN_DIR"]) / "libvirt" / "libvirtd.pid"
    return int(file.read_text() or 0) if file.exists() else 0


def answers() -> bool:
    command = ["virsh", "-q", "-c", libvirt_uri(), "uri"]
    return subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 0


@pytest.fixture
def frozen() -> Iterator[int]:
    """The daemon, frozen until the test ends or thaws it."""
    pid = libvirtd()
    os.kill(pid, signal.SIGSTOP)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.field("C01")
def test_a_restarted_daemon_costs_one_call_and_no_machine(place: Place) -> None:
    wanted = place.machine("a")
    place.apply(wanted)
    before, qemu = libvirtd(), place.qemu("a")
    os.kill(before, signal.SIGTERM)
    until(lambda: libvirtd() not in (0, before) and answers(), 60)
    until(lambda: place.observe().states == {place.uuid("a"): "running"}, 20)  # first it finds its QEMUs again
    assert place.apply(wanted).kinds == []
    assert place.qemu("a") == qemu


@pytest.mark.field("C04")
def test_a_frozen_daemon_is_given_up_and_all_is_well_when_it_thaws(place: Place, frozen: int) -> None:
    seen = place.observe()
    assert (seen.status, seen.document["error"]["code"], seen.document["error"]["retry"]) == (3, "unreachable", True)
    assert seen.seconds < GIVEN_UP_IN
    os.kill(frozen, signal.SIGCONT)
    assert place.settle(place.machine("a")).states == {place.uuid("a"): "running"}


@pytest.mark.field("C03")
def test_no_connection_outlives_a_call(place: Place) -> None:
    """vmctl needs no event loop and no keep-alive: there is nothing that could grow stale between two calls."""

    def connections() -> int:
        return len(list(Path(f"/proc/{libvirtd()}/fd").iterdir()))

    place.apply(place.machine("a"))
    idle = connections()
    for _ in range(3):
        place.observe()
    until(lambda: connections() <= idle, 10)
