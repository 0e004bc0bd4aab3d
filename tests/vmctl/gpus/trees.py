"""Plants files of a machine below a folder, in the form of the captured hosts: `/path = text`, `/path -> target`."""

from __future__ import annotations

import os
from pathlib import Path

DATA = Path(__file__).parents[2] / "data/hosts"


def captured(name: str) -> str:
    return (DATA / name).read_text()


def plant(root: Path, text: str) -> None:
    """Make every file and link of a tree. Links are given as absolute paths of the machine, `<...>` are no texts."""
    for line in text.splitlines():
        path, equals, content = line.partition(" = ")
        if line.startswith("#") or not line.strip():
            continue
        if equals:
            _file(root, path.split(" [")[0], content.replace("\\n", "\n"))
        else:
            name, _, target = line.partition(" -> ")
            _link(root, name, target)


def _file(root: Path, name: str, content: str) -> None:
    where = root / name.lstrip("/")
    if name.endswith("/"):
        where.mkdir(parents=True, exist_ok=True)
        return
    where.parent.mkdir(parents=True, exist_ok=True)
    where.write_text("" if content.startswith("<") else f"{content}\n")


def _link(root: Path, name: str, target: str) -> None:
    where = root / name.lstrip("/")
    where.parent.mkdir(parents=True, exist_ok=True)
    aim = os.path.relpath(root / target.lstrip("/"), where.parent) if target.startswith("/") else target
    where.symlink_to(aim)


def function(address: str, **texts: str) -> str:
    """A PCI function, by default an NVIDIA GPU on its driver; a text of None leaves the file out."""
    facts = {"vendor": "0x10de", "class": "0x030200", "device": "0x1eb8", "numa_node": "0"} | texts
    lines = [f"/sys/bus/pci/devices/{address}/{name} = {text}" for name, text in facts.items() if name != "driver"]
    driver = facts.get("driver", "nvidia")
    return "\n".join([*lines, f"/sys/bus/pci/devices/{address}/driver -> /sys/bus/pci/drivers/{driver}", ""])


def kind(address: str, driver_id: str, *, name: str = "", description: str = "", available: str = "1") -> str:
    """An mdev type of a function; an empty name or description is not there at all, as some drivers have it."""
    folder = f"/sys/bus/pci/devices/{address}/mdev_supported_types/{driver_id}"
    lines = [
        f"{folder}/available_instances = {available}",
        f"{folder}/device_api = vfio-pci",
        f"{folder}/devices/ = <dir>",
    ]
    if name:
        lines.append(f"{folder}/name = {name}")
    if description:
        lines.append(f"{folder}/description = {description}")
    return "\n".join([*lines, ""])


def nvidia(size: int, most: int) -> str:
    """NVIDIA's description of a Q type."""
    return f"num_heads=4, frl_config=60, framebuffer={size * 1024}M, max_resolution=7680x4320, max_instance={most}"
