"""Processes in the lab that have a share open and are nobody's machine: a QEMU started by hand, and one that hides."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.lab.machine import Lab

SECONDS = 60.0
HIDES = """
import fcntl, os, struct, sys, time

SET_IOMMU, SET_CONTAINER, GET_DEVICE = 0x3B66, 0x3B68, 0x3B6A
container, group = os.open("/dev/vfio/vfio", os.O_RDWR), os.open(f"/dev/vfio/{sys.argv[1]}", os.O_RDWR)
fcntl.ioctl(group, SET_CONTAINER, struct.pack("i", container))
fcntl.ioctl(container, SET_IOMMU, 1)
fcntl.ioctl(group, GET_DEVICE, bytearray(sys.argv[2].encode() + bytes(1)))
os.close(group)
time.sleep(3600)
"""


@contextmanager
def qemu(lab: Lab, device: str, number: int = 0) -> Iterator[None]:
    """A QEMU of somebody's that has a device open (its folder in sysfs), as long as this lasts."""
    words = f"-accel tcg -m 64 -nodefaults -display none -S -device vfio-pci,sysfsdev={device}"
    yield from _held(lab, f"stranger{number}", f"qemu-system-x86_64 {words}", "/dev/vfio/[0-9]")


@contextmanager
def hidden(lab: Lab, device: str, number: int = 0) -> Iterator[None]:
    """A process that has a mediated device open, and none of the files in /dev by which one would find it.

    The kernel lets a device be kept when the file of its group is closed.
    """
    lab.shell(f"cat >/tmp/hides.py <<'SCRIPT'\n{HIDES}\nSCRIPT")
    command = f"python3 /tmp/hides.py $(basename $(readlink {device}/iommu_group)) $(basename {device})"
    yield from _held(lab, f"stranger{number}", command, "vfio-device")


def _held(lab: Lab, unit: str, command: str, opened: str) -> Iterator[None]:
    """Run a command in the lab as long as this lasts, from the moment when it has something open."""
    lab.shell(
        f"""systemd-run -q --collect --unit {unit} {command}
        for n in $(seq 200); do
            ls -l /proc/$(systemctl show -P MainPID {unit})/fd 2>/dev/null | grep -q '{opened}' && exit
            sleep 0.2
        done
        journalctl -q -o cat -u {unit} >&2
        exit 1""",
        limit=SECONDS,
    )
    try:
        yield
    finally:
        lab.shell(
            f"systemctl kill --signal KILL {unit}\nwhile systemctl -q is-active {unit}; do sleep 0.2; done",
            limit=SECONDS,
        )
