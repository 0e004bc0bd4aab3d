"""The kernel's bus of mediated devices: which there are, where, and of which type (dossier 1.1)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vmctl.host import Host


@dataclass(frozen=True)
class Device:
    """A mediated device that exists: where it is and what it is."""

    uuid: str
    parent: str
    driver_id: str


def bus(host: Host) -> Path:
    """Its folder; absent where the kernel has no mediated devices."""
    return host.path("/sys/bus/mdev/devices")


def devices(host: Host) -> list[Device]:
    """All mediated devices of the machine. None where the kernel has no such bus: then nothing was made.

    Raises VmctlError where the bus cannot be read: a share that nobody can see is not a free one.
    """
    found = (device(host, name) for name in host.listed(bus(host)))
    return [each for each in found if each is not None]


def device(host: Host, uuid: str) -> Device | None:
    """One of them, None when there is none."""
    where, kind = bus(host) / uuid, host.link(bus(host) / uuid / "mdev_type")
    if kind is None:
        return None  # not there, or just going
    return Device(uuid, where.resolve().parent.name, kind)
