"""What is left of a reservation after its end, asked of the machine itself: virsh, ps, ls and psql, none of our code.

    python -m tests.leaks --machine UUID --reservation UUID [--disposable]

reads LIBVIRT_URI, DATABASE_URL, RUN_DIR, STORAGE_DIR and VAR_DIR.  Exit status 1 if something is left.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# A kept machine keeps its disk and, beside it, the variables of its firmware.
KEPT = re.compile(r"disk\.qcow2|.*(vars|VARS)\.fd")


@dataclass(frozen=True)
class Places:
    """Where to look.  `hosts` has a folder per host; a simulated one has its kernel's files in `root` there."""

    libvirt_uri: str
    database_url: str
    run_dir: Path
    storage: Path
    hosts: Path

    @classmethod
    def of(cls, environ: dict[str, str]) -> Places:
        return cls(
            libvirt_uri=environ["LIBVIRT_URI"],
            database_url=environ["DATABASE_URL"],
            run_dir=Path(environ["RUN_DIR"]),
            storage=Path(environ["STORAGE_DIR"]),
            hosts=Path(environ["VAR_DIR"]) / "hosts",
        )


def leaks(places: Places, *, machine: str, reservation: str, kept: bool) -> list[str]:
    """One line for each thing that should be gone, or should be there and is not; none if all is well.

    Raises CalledProcessError when something could not be asked: that is not "nothing found".
    """
    return [
        *domains(places, machine),
        *processes(machine),
        *held_placements(places, reservation),
        *mediated_devices(places, reservation),
        *console_sockets(places, machine),
        *files(places, machine, kept=kept),
    ]


def domains(places: Places, machine: str) -> Iterator[str]:
    for line in ask("virsh", "-q", "-c", places.libvirt_uri, "list", "--all", "--uuid").split():
        if line == machine:
            state = ask("virsh", "-q", "-c", places.libvirt_uri, "domstate", machine).strip()
            yield f"domain {machine} is there ({state})"


def processes(machine: str) -> Iterator[str]:
    for line in ask("ps", "axww", "-o", "pid=,args=").splitlines():
        if f"-uuid {machine}" in line:
            yield f"QEMU runs: {line.strip()[:60]}"


def held_placements(places: Places, reservation: str) -> Iterator[str]:
    wanted = f"SELECT id FROM bookings_placement WHERE held AND reservation_id = '{reservation}'"
    for placement in query(places, wanted):
        yield f"placement {placement} is still held"


def mediated_devices(places: Places, reservation: str) -> Iterator[str]:
    """A vGPU of this reservation, or one that no held placement stands behind."""
    own = query(places, f"SELECT id FROM bookings_placement WHERE reservation_id = '{reservation}'")
    held = query(places, "SELECT id FROM bookings_placement WHERE held")
    for host in listed(places.hosts):
        for device in listed(places.hosts / host / "root/sys/bus/mdev/devices"):
            if device in own or device not in held:
                yield f"vGPU {device} exists on {host}"


def console_sockets(places: Places, machine: str) -> Iterator[str]:
    for name in listed(places.run_dir / "console"):
        if machine in name:
            yield f"console socket {name} is there"


def files(places: Places, machine: str, *, kept: bool) -> Iterator[str]:
    """Storage has a folder per host, and in it one per machine."""
    disks = 0
    for host in listed(places.storage):
        if machine not in listed(places.storage / host):
            continue
        folder = places.storage / host / machine
        if not kept:
            yield f"the folder {host}/{machine} of a disposable machine is there"
        for name in listed(folder):
            disks += name == "disk.qcow2"
            if not KEPT.fullmatch(name):
                yield f"{name} is left in {host}/{machine}"
    if kept and disks != 1:
        yield f"a kept machine has {disks} disks"


def listed(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return ask("ls", "-A", "--", str(folder)).splitlines()


def query(places: Places, sql: str) -> list[str]:
    return ask("psql", "-XAtq", "-v", "ON_ERROR_STOP=1", places.database_url, "-c", sql).split()


def ask(*command: str) -> str:
    answer = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return answer.stdout


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.leaks")
    parser.add_argument("--machine", required=True)
    parser.add_argument("--reservation", required=True)
    parser.add_argument("--disposable", action="store_true", help="its disk must be gone too")
    known = parser.parse_args()
    found = leaks(
        Places.of(dict(os.environ)),
        machine=known.machine,
        reservation=known.reservation,
        kept=not known.disposable,
    )
    print("\n".join(found) or "nothing is left")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
