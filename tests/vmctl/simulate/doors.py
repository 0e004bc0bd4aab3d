"""What a test does with a simulated machine, in short words."""

from __future__ import annotations

import uuid
from pathlib import Path

from vmctl.simulate import SimulatedHost

FIXTURES = Path(__file__).parents[2] / "data/fixtures"


def captured(name: str) -> str:
    return (FIXTURES / name).read_text()


def smi(host: SimulatedHost, words: str, *, status: int = 0) -> str:
    """What nvidia-smi says, after making sure of its exit status."""
    answer = host.run(["nvidia-smi", *words.split()])
    assert answer.status == status, answer.output
    return answer.output


def write(host: SimulatedHost, path: Path, value: str) -> str | None:
    return host.write(path, value, reading=path)


def vf_type(host: SimulatedHost, function: str) -> Path:
    return host.pci(function) / "nvidia/current_vgpu_type"


def creatable(host: SimulatedHost, function: str) -> set[str]:
    """The names in a VF's table, without the board's."""
    lines = (host.pci(function) / "nvidia/creatable_vgpu_types").read_text().splitlines()[1:]
    return {line.split(":", 1)[1].rsplit("-", 1)[1] for line in lines}


def mdev(host: SimulatedHost, function: str, driver_id: str) -> str:
    """Make a mediated device; its uuid."""
    name = str(uuid.uuid4())
    folder = host.pci(function) / "mdev_supported_types" / driver_id
    host.write(folder / "create", name, reading=folder / "available_instances")
    return name


def left(host: SimulatedHost, function: str, driver_id: str) -> int:
    return int(host.read(host.pci(function) / "mdev_supported_types" / driver_id / "available_instances"))


def vfs(host: SimulatedHost, address: str) -> int:
    shown = int(host.read(host.pci(address) / "sriov_numvfs"))
    links = [name for name in host.names(host.pci(address)) if name.startswith("virtfn")]
    assert len(links) == shown
    return shown


def everything(host: SimulatedHost) -> set[str]:
    """Every path of the tree but the machine's own notes."""
    found = (path.relative_to(host.root) for path in host.root.rglob("*"))
    return {str(path) for path in found if not path.name.startswith(".") or path.parts[0] == ".types"}
