"""The kernel's bus of mediated devices: which there are, where, and of which type (dossier 1.1)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from vmctl.errors import Code, VmctlError
from vmctl.host import Host


@dataclass(frozen=True)
class BusDevice:
    """A mediated device that exists: where it is and what it is."""

    uuid: str
    parent: str
    driver_id: str


def bus(host: Host) -> Path:
    """Its folder; absent where the kernel has no mediated devices."""
    return host.path("/sys/bus/mdev/devices")


def devices(host: Host) -> list[BusDevice]:
    """All mediated devices of the machine. None where the kernel has no such bus: then nothing was made.

    Raises VmctlError where the bus or a device on it cannot be read: a share that nobody can see is not a free one.
    """
    found = []
    for name in host.listed(bus(host)):
        made = device(host, name)
        if made is not None:
            found.append(made)
        elif os.path.lexists(bus(host) / name):
            what = f"The mediated device {name} does not say of which type it is."
            raise VmctlError(Code.COULD_NOT_TELL, what, "It may just be coming or going; look again.", retry=True)
    return found


def device(host: Host, uuid: str) -> BusDevice | None:
    """One of them, None when there is none."""
    where, kind = bus(host) / uuid, host.link(bus(host) / uuid / "mdev_type")
    if kind is None:
        return None  # not there, or just going
    try:
        return BusDevice(uuid, where.resolve().parent.name, kind)
    except FileNotFoundError:
        return None  # gone between two looks
