"""The ruler of an equal-size GPU: cells [k, k+1), one size at a time (dossier 3.1). Pure."""

from __future__ import annotations

from collections.abc import Sequence

from vmctl.card import ProvidedVGPU, Regime, VGPUType
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
    fits = all(vgpu.size_group == kind.size_group for vgpu in held)
    left = legal[len(held) :][: offer.room or 0] if fits else ()
    count = len(left) if known and offer.room is not None else None
    free = cells.least(count, offer.room) if fits else 0
    return cells.ruled(kind, Regime.EQUAL, max=kind.most, cells=legal, free_cells=left, free=free)
