"""vGPU types as a driver offers them on one function of a card: read once, here, from sysfs (dossier 1.1)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from vmctl.card import Unknown
from vmctl.gpus.cards import MDEV_TYPES
from vmctl.host import Host

NAME = re.compile(r".+-(?P<gigabytes>\d+)(?P<series>[QBAC])\d*")


@dataclass(frozen=True)
class OfferedType:
    """One type on one function. Only its id is sure: name and description are optional in the kernel's interface."""

    driver_id: str
    name: str  # the driver's name without its prefix, or the id
    series: str  # Q, B, A, C, or nothing
    memory_mib: int | None
    most: int | None  # how many at equal size on one GPU
    available: int | None  # the driver's counter: advice, not a promise (field log A08)
    folder: Path

    @property
    def size_group(self) -> str:
        """Types of one group may stand side by side on an equal-size GPU; without a size only with themselves."""
        if self.memory_mib is None:
            return self.driver_id
        return f"{self.memory_mib // 1024}G" if self.memory_mib % 1024 == 0 else f"{self.memory_mib}M"


def offered(host: Host, address: str) -> tuple[list[OfferedType], list[Unknown]]:
    """The types on a function, and what could not be read about them: a type is never dropped in silence."""
    names, unknown = _names(host, address)
    types = [read_type(host, host.pci(address) / MDEV_TYPES / name) for name in names]
    for kind in types:
        unknown += _gaps(host, address, kind)
    return types, unknown


def room(host: Host, address: str) -> tuple[dict[str, int], list[Unknown]]:
    """Only the counters, by type id: for the second and later functions of a card, which have the same types."""
    names, unknown = _names(host, address)
    free = {}
    for name in names:
        folder = host.pci(address) / MDEV_TYPES / name
        count = _counter(host, folder)
        free[name] = count or 0
        if count is None:
            unknown.append(_unread(host, address, name, folder))
    return free, unknown


def _names(host: Host, address: str) -> tuple[list[str], list[Unknown]]:
    names = host.names(host.pci(address) / MDEV_TYPES)
    if any(name.startswith("pci-") for name in names):
        # The driver has not finished: its types still bear the bus's name (dossier 1.2).
        return [], [Unknown(f"types of {address}", "The driver is not ready: its types are still called pci-...")]
    if not names:
        return [], [Unknown(f"types of {address}", "The driver lists no vGPU types on it.")]
    return names, []


def plain(name: str) -> str:
    """A type's name without the prefix that some drivers print."""
    return name.removeprefix("GRID ").removeprefix("NVIDIA ")


def read_type(host: Host, folder: Path) -> OfferedType:
    """One type from its folder; what is missing or odd in it is None."""
    name = plain((host.read_or_none(folder / "name") or folder.name).strip())
    description = host.read_or_none(folder / "description") or ""
    parts = NAME.fullmatch(name)
    memory = _number(r"framebuffer=(\d+)M\b", description)
    if memory is None and parts is not None:
        memory = int(parts["gigabytes"]) * 1024  # the number in the name is the frame buffer (dossier 2)
    return OfferedType(
        driver_id=folder.name,
        name=name,
        series=parts["series"] if parts is not None else "",
        memory_mib=memory,
        most=_number(r"max_instance=(\d+)", description),
        available=_counter(host, folder),
        folder=folder,
    )


def _number(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text)
    return int(found[1]) if found else None


def _counter(host: Host, folder: Path) -> int | None:
    return _number(r"^\s*(\d+)\s*$", host.read_or_none(folder / "available_instances") or "")


def _unread(host: Host, address: str, name: str, folder: Path) -> Unknown:
    said = host.read_or_none(folder / "available_instances")
    text = "cannot be read" if said is None else f"says {said!r}"
    return Unknown(f"free instances of {name} on {address}", f"available_instances {text}.")


def _gaps(host: Host, address: str, kind: OfferedType) -> list[Unknown]:
    gaps = []
    if kind.memory_mib is None:
        gaps.append(
            Unknown(f"size of {kind.name} on {address}", "The driver gives neither a name nor a description with it.")
        )
    if kind.most is None:
        gaps.append(Unknown(f"most of {kind.name} on {address}", "The driver's description does not say how many fit."))
    if kind.available is None:
        gaps.append(_unread(host, address, kind.name, kind.folder))
    return gaps
