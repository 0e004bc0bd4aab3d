"""What a tick costs on a host where nothing changed, and what looking costs on a large one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.result import Result, at_most, milliseconds
from tests.vmctl.build import NOW, document, machine, vgpu
from tests.vmctl.folder import FolderHypervisor, put_in, simulated_site
from vmctl import apply as applying
from vmctl import observe
from vmctl.answers import report
from vmctl.host import Host
from vmctl.model import DesiredState
from vmctl.plan import desired
from vmctl.simulate import layouts
from vmctl.simulate.boards import A40
from vmctl.site import Site

CARDS, MACHINES = 8, 100
LARGE = tuple(
    layouts.Card(A40, f"0000:{0x41 + number:02x}:00.0", f"0000:40:{number:02x}.0", number // 4, 40 + 33 * number)
    for number in range(CARDS)
)
"""Eight cards of 32 virtual functions, each of which shows 29 types: of all ways the one with the most files."""


def apply_nothing() -> Iterator[Result]:
    """`vmctl apply` with nothing to do on a simulated host, the whole process, beside `virsh list`."""
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder)
        settings = {
            "VMCTL_STATE_DIR": str(state / "state"),
            "VMCTL_STORAGE_DIR": str(state / "storage"),
            "VMCTL_IMAGES_DIR": os.environ["IMAGES_DIR"],
            "VMCTL_RUN_DIR": os.environ["RUN_DIR"],
            "VMCTL_NETWORK": os.environ["GUEST_NETWORK"],
            "VMCTL_HOST": "bench",
            "VMCTL_ROOT": str(state / "root"),
            "VMCTL_SIMULATE": "a40",
        }
        wanted = document(portal=str(uuid.uuid4()), host="bench")

        def apply() -> None:
            subprocess.run(
                [sys.executable, "-m", "vmctl", "apply", "--json"],
                input=json.dumps(wanted).encode(),
                env=os.environ | settings,
                check=True,
                stdout=subprocess.DEVNULL,
                timeout=60,
            )

        apply()  # the first makes the tree and tries KVM
        ours = milliseconds(apply, rounds=10)
    listing = ["virsh", "-c", os.environ["LIBVIRT_URI"], "list", "--all"]
    virsh = milliseconds(lambda: subprocess.run(listing, check=True, capture_output=True, timeout=60), rounds=10)
    yield at_most("apply_nothing", ours, "ms", virsh, "ms for virsh list --all", 80)


def large_host() -> Iterator[Result]:
    """`observe` and `plan` on 8 GPUs, 256 virtual functions and 100 machines, beside reading the same files.

    Simulated in memory, with a libvirt of files: what is measured is our own work, without a process's start.
    """
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder, pytest.MonkeyPatch.context() as patched:
        base = Path(folder)
        put_in(patched, base / "domains")
        patched.setitem(layouts.LAYOUTS, "large", LARGE)
        site, wanted = _filled(base)
        files = _files_read(patched, site, base)
        command = ["find", *files, "-exec", "cat", "{}", ";"]
        reading = milliseconds(lambda: subprocess.run(command, check=True, capture_output=True, timeout=300), rounds=1)
        name = f"ms for find -exec cat of the same {len(files)} files"
        observing = milliseconds(lambda: _observe(site, base), rounds=5)
        yield at_most("observe_large_host", observing, "ms", reading, name, 0.1)
        planning = milliseconds(lambda: applying.plan(site, wanted, NOW), rounds=5)
        yield at_most("plan_large_host", planning, "ms", reading, name, 0.1)


def _filled(base: Path) -> tuple[Site, DesiredState]:
    """The host with its machines running, each with a share, and what is wanted of it: that, and one more."""
    site = simulated_site(base, "large")
    wishes = []
    for number in range(MACHINES + 1):
        place, gpu = divmod(number, CARDS)
        share = vgpu(str(number), gpu=LARGE[gpu].address, type="A40-2Q", cell=[place, place + 1], handle=place)
        wishes.append(machine(str(number), vgpus=[share]))
    most = desired.parse(json.dumps(document(*wishes[:MACHINES])))
    done = applying.apply(site, most, NOW, budget=600)
    assert len(done["machines"]) == MACHINES  # type: ignore[arg-type]
    return site, desired.parse(json.dumps(document(*wishes)))


def _observe(site: Site, base: Path) -> str:
    found = observe.observe(site, FolderHypervisor(base / "domains"), None, NOW)  # type: ignore[arg-type]
    return json.dumps(report.report_json(found, None))


def _files_read(patched: pytest.MonkeyPatch, site: Site, base: Path) -> list[str]:
    """Every file that one look reads, each once."""
    found: set[str] = set()
    read = Host.read

    def noting(self: Host, path: Path) -> str:
        found.add(str(path))
        return read(self, path)

    with patched.context() as meanwhile:
        meanwhile.setattr(Host, "read", noting)
        _observe(site, base)
    return sorted(path for path in found if os.path.isfile(path))
