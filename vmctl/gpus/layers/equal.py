"""The ruler of an equal-size GPU: cells [k, k+1), one size at a time (dossier 3.1). Pure."""

from __future__ import annotations

from collections.abc import Sequence

from vmctl.card import ProvidedVGPU, Regime, VGPUType
from vmctl.gpus.shares import Offer


def ruled(offer: Offer, held: Sequence[ProvidedVGPU]) -> VGPUType:
    """A type with its legal cells and those free now.

    `held` is what exists on the GPU; equal shares have no place of their own, so they are counted from the left.
    A type whose size or limit is unknown has no cells; where the driver's room is unknown nothing is free.
    """
    kind = offer.kind
    known = kind.memory_mib is not None
    cells = tuple((k, k + 1) for k in range(kind.most or 0)) if known else ()
    fits = all(vgpu.size_group == kind.size_group for vgpu in held)
    free = cells[len(held) :][: offer.room or 0] if fits else ()
    return VGPUType(
        name=kind.name,
        driver_id=kind.driver_id,
        series=kind.series,
        memory_mib=kind.memory_mib,
        size_group=kind.size_group,
        regime=Regime.EQUAL,
        max=kind.most or 0,
        cells=cells,
        free_cells=free,
        free=len(free),
    )
