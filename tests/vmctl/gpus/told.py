"""What drivers tell of cards in MIG mode and of mixed sizes, as values for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from vmctl.card import Mode
from vmctl.gpus.driver import smi_tables
from vmctl.gpus.driver.answers import DriverFacts, Profile, TypeFacts
from vmctl.gpus.shares import Offer
from vmctl.gpus.type_names import memory_of, series_of
from vmctl.gpus.types import OfferedType

FIXTURES = Path(__file__).parents[2] / "data/fixtures"
ON = Mode(True, True)

# Starts and sizes of the seven profiles, by id: one table for A100 and H100 (dossier 3.3).
EIGHT_SLICES: Mapping[int, tuple[tuple[int, ...], int]] = {
    19: ((0, 1, 2, 3, 4, 5, 6), 1),
    20: ((0, 1, 2, 3, 4, 5, 6), 1),
    15: ((0, 2, 4, 6), 2),
    14: ((0, 2, 4), 2),
    9: ((0, 4), 4),
    5: ((0,), 4),
    0: ((0,), 8),
}


def offer(name: str, most: int | None = None, room: int | None = None) -> Offer:
    """A type as a function offers it."""
    return Offer(OfferedType("1", name, series_of(name), memory_of(name), most, None), room)


def profiles(names: Mapping[int, str]) -> tuple[Profile, ...]:
    """Profiles of an A100 or H100 by id and name."""
    return tuple(
        Profile(number, name, EIGHT_SLICES[number][1], EIGHT_SLICES[number][0], media=name.endswith("+me"))
        for number, name in names.items()
    )


def captured(lgip: str, lgipp: str) -> tuple[Profile, ...]:
    """Profiles as two captured lists tell them; one without a place in an older list is left out."""
    rows = smi_tables.profiles((FIXTURES / lgip).read_text()) or {}
    places = smi_tables.places((FIXTURES / lgipp).read_text())
    return tuple(
        Profile(row.id, row.name, size, starts, total=row.total, media="+me" in row.name)
        for row in rows[0]
        for starts, size in [places[0].get(row.id, ((), 0))]
        if starts
    )


def mig_card(found: Sequence[Profile], types: Mapping[str, TypeFacts] | None = None) -> DriverFacts:
    """A card in MIG mode with no GPU instance on it."""
    return DriverFacts(mig=ON, profiles=tuple(found), types=types or {}, instances=(), active=())


def mixed_card(region: Mapping[str, tuple[int, Sequence[int]]]) -> DriverFacts:
    """An empty card of mixed sizes: size and starts of each type."""
    types = {
        name: TypeFacts(name, placement_size=size, placements=tuple(starts), creatable=tuple(starts))
        for name, (size, starts) in region.items()
    }
    return DriverFacts(mig=Mode(False, False), mixed=True, types=types)


A100_40 = {19: "1g.5gb", 20: "1g.5gb+me", 15: "1g.10gb", 14: "2g.10gb", 9: "3g.20gb", 5: "4g.20gb", 0: "7g.40gb"}
A100_80 = {19: "1g.10gb", 20: "1g.10gb+me", 15: "1g.20gb", 14: "2g.20gb", 9: "3g.40gb", 5: "4g.40gb", 0: "7g.80gb"}

RTX_PRO = (
    Profile(47, "1g.24gb+gfx", 1, (0, 1, 2, 3), total=4),
    Profile(35, "2g.48gb+gfx", 2, (0, 2), total=2),
    Profile(32, "4g.96gb+gfx", 4, (0,), total=1),
)
"""A card whose GPU instances take several vGPUs (dossier 2); the ids are examples."""
RTX_PRO_TYPES = {
    f"RTX Pro 6000 Blackwell DC-{slices}-{size}{series}": TypeFacts(
        f"RTX Pro 6000 Blackwell DC-{slices}-{size}{series}", profile_id=profile, per_instance=slices * 24 // size
    )
    for slices, profile in ((1, 47), (2, 35), (4, 32))
    for size in (3, 6, 12, 24, 48)
    if size <= slices * 24
    for series in "QC"
}

GIB_48 = {
    "A40-48Q": (48, (0,)),
    "A40-24Q": (24, (0, 24)),
    "A40-16Q": (16, (0, 32)),
    "A40-12Q": (12, (0, 12, 24, 36)),
    "A40-8Q": (8, (0, 16, 24, 40)),
    "A40-6Q": (6, (0, 6, 12, 18, 24, 30, 36, 42)),
    "A40-4Q": (4, (0, 8, 12, 20, 24, 32, 36, 44)),
    "A40-4C": (4, (0, 8, 12, 20, 24, 32, 36, 44)),
}
"""Starts of a region of 48 GiB (dossier 3.2)."""


def busy(told: DriverFacts, name: str, creatable: Sequence[int]) -> DriverFacts:
    """The same card when the driver says which places of a type are left."""
    types = dict(told.types) | {name: replace(told.types[name], creatable=tuple(creatable))}
    return replace(told, types=types)
