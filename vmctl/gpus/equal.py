"""The ruler of an equal-size GPU: cells [k, k+1), one size at a time (dossier 3.1). Pure."""

from collections.abc import Sequence

from vmctl.gpus.types import OfferedType
from vmctl.model import ProvidedVGPU, Regime, VGPUType


def ruled(kind: OfferedType, held: Sequence[ProvidedVGPU], room: int | None) -> VGPUType:
    """A type with its legal cells and those free now.

    `held` is what exists on the GPU; equal shares have no place of their own, so they are counted from the left.
    `room` is what the driver says it still takes, None when it could not be read: then nothing is offered as free.
    A type whose size or limit is unknown has no cells.
    """
    known = kind.memory_mib is not None
    cells = tuple((k, k + 1) for k in range(kind.most or 0)) if known else ()
    fits = all(vgpu.size_group == kind.size_group for vgpu in held)
    return VGPUType(
        name=kind.name,
        driver_id=kind.driver_id,
        series=kind.series,
        memory_mib=kind.memory_mib,
        size_group=kind.size_group,
        regime=Regime.EQUAL,
        max=kind.most or 0,
        cells=cells,
        free_cells=cells[len(held) :][: room or 0] if fits else (),
    )
