"""A libvirt whose domains are files in a folder: it outlives the process that uses it, as the real one does."""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.vmctl.build import HOST
from vmctl import accept, expire, observe, simulate
from vmctl import apply as applying
from vmctl.commands import Answer, run_command
from vmctl.hypervisor import Domain, Node
from vmctl.model import Accelerator
from vmctl.observation import MachineState
from vmctl.site import Site

NETWORK = """<network><name>tessera</name><bridge name="br0"/><ip address="10.9.0.1" netmask="255.255.255.0">
<dhcp><range start="10.9.0.128" end="10.9.0.254"/></dhcp></ip></network>"""


@dataclass(frozen=True)
class FolderHypervisor:
    """What vmctl asks of libvirt, from files: UUID.xml is a domain that runs, UUID.off one that is defined."""

    folder: Path

    @contextmanager
    def hurried(self, left: Callable[[float], float]) -> Iterator[None]:
        yield

    def domains(self) -> tuple[Domain, ...]:
        return tuple(_domain(path) for path in sorted(self.folder.iterdir()) if path.suffix in (".xml", ".off"))

    def node(self) -> Node:
        return Node(vcpus=64, memory_mib=262144, qemu_user=None)

    def version(self) -> tuple[int, int, int]:
        return 11, 0, 0

    def network(self, name: str) -> str:
        return NETWORK

    def leases(self, name: str) -> frozenset[str]:
        return frozenset()

    def filter(self, name: str) -> str | None:
        path = self.folder / "filter"
        return path.read_text() if path.exists() else None

    def define_filter(self, xml: str) -> None:
        (self.folder / "filter").write_text(xml)

    def start(self, xml: str) -> None:
        new = self.folder / "new"
        new.write_text(xml)
        os.replace(new, self.folder / f"{ET.fromstring(xml).findtext('uuid')}.xml")

    def force_stop(self, uuid: str) -> None:
        (self.folder / f"{uuid}.xml").unlink(missing_ok=True)


def _domain(path: Path) -> Domain:
    xml = path.read_text()
    state = MachineState.RUNNING if path.suffix == ".xml" else MachineState.OFF
    return Domain(ET.fromstring(xml).findtext("name", ""), path.stem, state, xml, None)


def put_in(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Have every verb use such a libvirt."""

    @contextmanager
    def connect(uri: str) -> Iterator[FolderHypervisor]:
        yield FolderHypervisor(folder)

    folder.mkdir(parents=True, exist_ok=True)
    for module in (applying, accept, expire, observe):
        monkeypatch.setattr(module, "connect", connect)
    emulated = Accelerator(False, "qemu", "There is no /dev/kvm.")
    monkeypatch.setattr("vmctl.kvm.accelerator", lambda host: emulated)


@contextmanager
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for a simulated host and its libvirt; in memory where there is room: it has thousands of small files."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(prefix="vmctl-", dir=memory if memory.is_dir() else None) as folder:
        put_in(monkeypatch, Path(folder, "domains"))
        yield Path(folder)


def simulated_site(base: Path, layout: str) -> Site:
    """A simulated host below a folder, with an image and nothing else; the same one when asked again."""
    simulate.prepare(base / "root", layout)
    (base / "images").mkdir(exist_ok=True)
    (base / "images/demo.qcow2").touch()
    host = simulate.SimulatedHost(HOST, root=base / "root", state_dir=base / "state", commands=quick_commands)
    return Site(host, "x", base / "machines", base / "images", base / "run", "tessera")


def quick_commands(command: Sequence[str], *, limit: float, given: str = "") -> Answer:
    """The tools that make disks and seeds, in no time; every other command runs."""
    match command:
        case ["qemu-img", "create", *_, path, _]:
            Path(path).write_text("a disk")
        case ["qemu-img", "info", *_, path]:
            base = "demo.qcow2" if Path(path).name.startswith("disk") else ""
            return Answer(0, json.dumps({"virtual-size": 1, "backing-filename": base}), "")
        case ["xorriso", *_, path, _]:
            Path(path).write_text("a seed")
        case ["ip", *_]:
            return Answer(0, "[]", "")
        case _:
            return run_command(command, limit=limit, given=given)
    return Answer(0, "", "")
