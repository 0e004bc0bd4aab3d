"""vGPU types as a driver offers them on one function of a card: read once, here, from sysfs (dossier 1.1 and 2)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from vmctl.card import Unknown
from vmctl.gpus.cards import MDEV_TYPES
from vmctl.gpus.type_names import memory_of, plain, series_of
from vmctl.host import Host

APERTURES = re.compile(r".+-GVTg_V\d+_(\d+)")
"""Intel GVT-g: the last number is how many of this type the graphics memory holds (dossier 1.6)."""

MOST = 1024
"""More vGPUs than any GPU takes: 48 are known (dossier 3.1)."""


@dataclass(frozen=True)
class OfferedType:
    """One type on one function. Only its id is sure: name and description are optional in the kernel's interface."""

    driver_id: str
    name: str  # the driver's name without its prefix, or the id
    series: str  # Q, B, A, C, or nothing
    memory_mib: int | None
    most: int | None  # how many at equal size on one GPU
    available: int | None  # the driver's counter: advice, not a promise (field log A08)
    folder: Path = Path()  # of an mdev type
    group: str | None = None  # its size group, where the way names it

    @property
    def size_group(self) -> str:
        """Types of one group may stand side by side on an equal-size GPU; without a size only with themselves."""
        if self.group is not None:
            return self.group
        if self.memory_mib is None:
            return self.driver_id
        return f"{self.memory_mib // 1024}G" if self.memory_mib % 1024 == 0 else f"{self.memory_mib}M"


def offered(host: Host, address: str) -> tuple[list[OfferedType], list[Unknown]]:
    """The mdev types on a function, and what could not be read about them: a type is never dropped in silence."""
    names, unknown = _names(host, address)
    types = [read_type(host, host.pci(address) / MDEV_TYPES / name) for name in names]
    for kind in types:
        unknown += gaps(kind)
        if kind.available is None:
            unknown.append(_unread(host, address, kind.name, kind.folder))
    return types, unknown


def room(host: Host, address: str, known: list[OfferedType]) -> tuple[dict[str, int | None], list[Unknown]]:
    """Only the counters, by type id: for the second and later functions of a card, which have the same types."""
    names, unknown = _names(host, address)
    called = {kind.driver_id: kind.name for kind in known}
    free: dict[str, int | None] = {}
    above = host.pci(address) / MDEV_TYPES
    for name in names:
        count = _counter(host, f"{above}/{name}")
        free[name] = count
        if count is None:
            unknown.append(_unread(host, address, called.get(name, name), above / name))
    return free, unknown


def _names(host: Host, address: str) -> tuple[list[str], list[Unknown]]:
    names = host.names(host.pci(address) / MDEV_TYPES)
    if any(name.startswith("pci-") for name in names):
        # The driver has not finished: its types still bear the bus's name (dossier 1.2).
        return [], [Unknown("types", f"The driver is not ready on {address}: its types are still called pci-...")]
    if not names:
        return [], [Unknown("types", f"The driver lists no vGPU types on {address}.")]
    return names, []


def read_type(host: Host, folder: Path) -> OfferedType:
    """One type from its folder; what is missing or odd in it is None."""
    name = plain((host.read_or_none(folder / "name") or folder.name).strip())
    description = host.read_or_none(folder / "description") or ""
    apertures = APERTURES.fullmatch(folder.name)
    memory = _number(r"framebuffer=(\d+)M\b", description) or _number(r"high_gm_size: (\d+)MB\b", description)
    return OfferedType(
        driver_id=folder.name,
        name=name,
        series=series_of(name),
        memory_mib=memory or memory_of(name),
        most=believable(int(apertures[1]) if apertures else _number(r"max_instance=(\d+)", description)),
        available=_counter(host, folder),
        folder=folder,
    )


def believable(most: int | None) -> int | None:
    """How many vGPUs a GPU takes; no driver means so many as a garbled text may say."""
    return most if most is not None and most <= MOST else None


def gaps(kind: OfferedType) -> list[Unknown]:
    """What the driver does not say of a type, which leaves it without cells."""
    found = []
    if kind.memory_mib is None:
        why = "The driver gives neither a name nor a description that tells its size."
        found.append(Unknown(f"types.{kind.name}.frame_buffer_mib", why))
    if kind.most is None:
        found.append(Unknown(f"types.{kind.name}.max", "The driver does not say how many fit."))
    return found


def _number(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text)
    return int(found[1]) if found else None


def _counter(host: Host, folder: Path | str) -> int | None:
    return _number(r"^\s*(\d+)\s*$", host.read_or_none(f"{folder}/available_instances") or "")


def _unread(host: Host, address: str, name: str, folder: Path) -> Unknown:
    said = host.read_or_none(folder / "available_instances")
    text = "cannot be read" if said is None else f"says {said!r}"
    return Unknown(f"types.{name}.free", f"available_instances on {address} {text}.")
