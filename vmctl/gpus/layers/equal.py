"""The ruler of an equal-size GPU: cells [k, k+1), one size at a time (dossier 3.1). Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vmctl.card import ProvidedVGPU, Regime, Unknown, VGPUType
from vmctl.gpus.layers import cells
from vmctl.gpus.shares import Offer


def ruled(offer: Offer, held: Sequence[ProvidedVGPU]) -> VGPUType:
    """A type with its legal cells and those free now.

    `held` is what exists on the GPU; equal shares have no place of their own, so they are counted from the left.
    A type whose size or limit is unknown has no cells; where the driver's room is unknown, so is what is free.
    """
    kind = offer.kind
    known = kind.memory_mib is not None and kind.most is not None
    legal = tuple((k, k + 1) for k in range(kind.most or 0)) if known else ()
    others = [vgpu for vgpu in held if vgpu.size_group != kind.size_group]
    left = () if others else legal[len(held) :][: offer.room or 0]
    told = known and offer.room is not None
    if others:
        told = not any(map(_is_unsized, others))
    free = cells.least(len(left) if told else None, offer.room)
    return cells.ruled(kind, Regime.EQUAL, max=kind.most, cells=legal, free_cells=left, free=free)


def untold(offer: Offer, held: Sequence[ProvidedVGPU]) -> tuple[Unknown, ...]:
    """What cannot be said of a type, and why."""
    name, group = offer.kind.name, offer.kind.size_group
    unsized = [vgpu.device for vgpu in held if vgpu.size_group != group and _is_unsized(vgpu)]
    return (Unknown(f"types.{name}.free", f"The size of {', '.join(unsized)} is not told."),) if unsized else ()


def _is_unsized(vgpu: ProvidedVGPU) -> bool:
    """Whether a share goes by the number of its type, as its driver tells no size."""
    return re.fullmatch(r"\d+[GM]", vgpu.size_group) is None
