"""Ranges on the ruler of a GPU, and types upon it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from vmctl.card import Cell, Regime, VGPUType
from vmctl.gpus.types import OfferedType


def overlap(one: Cell, other: Cell) -> bool:
    """Whether two half-open ranges have a part in common."""
    return one[0] < other[1] and other[0] < one[1]


def apart(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """As many of them as can be had at once: whoever ends first goes first, which is the most there is."""
    chosen: list[Cell] = []
    for cell in sorted(cells, key=lambda cell: (cell[1], cell[0])):
        if not chosen or cell[0] >= chosen[-1][1]:
            chosen.append(cell)
    return tuple(chosen)


def least(count: int | None, *limits: int | None) -> int | None:
    """A count within the limits that are known. None: it is not told, and no limit leaves nothing anyway."""
    if count is None:
        return 0 if any(limit is not None and limit <= 0 for limit in limits) else None
    return at_most(count, *limits)


def at_most(count: int, *limits: int | None) -> int:
    """A count within the limits that are known."""
    return max(0, min([count, *(limit for limit in limits if limit is not None)]))


def ruled(kind: OfferedType, regime: Regime, **places: Any) -> VGPUType:
    """A type as the driver offers it, with its places on the ruler of a regime."""
    return VGPUType(
        name=kind.name,
        driver_id=kind.driver_id,
        series=kind.series,
        memory_mib=kind.memory_mib,
        size_group=kind.size_group,
        regime=regime,
        **places,
    )
