"""Ranges on the ruler of a GPU. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from vmctl.card import Cell


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


def least(*limits: int | None) -> int:
    """The smallest of the limits that are known."""
    return max(0, min(limit for limit in limits if limit is not None))
