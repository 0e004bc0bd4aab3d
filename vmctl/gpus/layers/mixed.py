"""Mixed size: vGPUs of several sizes on one GPU, each at a start that the driver allows for its size (dossier 3.2).

The driver would choose a place by itself. vmctl demands the planned one by the plugin's parameter, because only so do
bookings of tomorrow still fit: a place that is free in sum need not be one piece.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

from vmctl.card import Cell, ProvidedVGPU, Regime, Unknown, VGPUType, span
from vmctl.errors import Code, VmctlError
from vmctl.gpus.driver.answers import DriverFacts
from vmctl.gpus.layers.cells import apart, least, overlap
from vmctl.gpus.layers.cells import ruled as ruled_type
from vmctl.gpus.shares import Offer
from vmctl.host import Host
from vmctl.model import WantedVGPU

REFUSED = (errno.ENOSPC, errno.EINVAL, errno.EIO)
"""How the driver says that a share cannot have this place; another place may do."""
PARAMETERS = "nvidia/vgpu_params"
DEMAND = "vgpu-placement-id="


def ruled(offer: Offer, held: Sequence[ProvidedVGPU], told: DriverFacts, handles: int | None = None) -> VGPUType:
    """A type with the cells that the driver supports and those free now.

    `held` is what exists on the GPU; a share without a cell may lie anywhere, so nothing is free beside it.
    """
    kind, facts = offer.kind, told.types.get(offer.kind.name)
    cells = _cells(told, kind.name)
    creatable = facts.creatable if facts is not None else None
    hidden = creatable is None or any(share.cell is None for share in held)
    taken = [share.cell for share in held if share.cell is not None]
    free = tuple(
        cell
        for cell in cells
        if not hidden and cell[0] in (creatable or ()) and not any(overlap(cell, other) for other in taken)
    )
    return ruled_type(
        kind,
        Regime.MIXED,
        max=len(apart(cells)) if cells else None,
        cells=cells,
        free_cells=free,
        free=least(None if hidden else len(apart(free)), offer.room, handles),
    )


def untold(offer: Offer, held: Sequence[ProvidedVGPU], told: DriverFacts) -> tuple[Unknown, ...]:
    """What cannot be said of a type, and why."""
    name, facts = offer.kind.name, told.types.get(offer.kind.name)
    if facts is None or facts.placements is None or facts.placement_size is None:
        return (Unknown(f"types.{name}.cells", "The driver does not tell where vGPUs of this type may lie."),)
    if facts.creatable is None:
        return (Unknown(f"types.{name}.free", "The driver does not tell which places are free."),)
    lost = [share.device for share in held if share.cell is None]
    if lost:
        return (Unknown(f"types.{name}.free", f"Where {', '.join(lost)} lies will be known when its machine runs."),)
    return ()


def cell_at(told: DriverFacts, name: str, start: int) -> Cell | None:
    """The cell of a vGPU of a type that lies at a start; None where the type's size is not known."""
    facts = told.types.get(name)
    return None if facts is None or facts.placement_size is None else (start, start + facts.placement_size)


def refuse_taken(wanted: WantedVGPU, held: Sequence[ProvidedVGPU], told: DriverFacts) -> None:
    """Raise when a wanted share cannot have its place. The driver would take the demand, and refuse the machine."""
    cells, cell = _cells(told, wanted.type), wanted.cell
    if cell is None or cell not in cells:
        legal = ", ".join(map(span, cells)) or "none that the driver tells"
        what = f"{wanted.type} on GPU {wanted.gpu} cannot lie at {span(cell)}; legal places are {legal}."
        raise VmctlError(Code.FAILED, what, "Plan it at one of these places.")
    others = [share for share in held if share.uuid != wanted.uuid or share.uuid is None]
    taken = [share.device for share in others if share.cell is None or overlap(share.cell, cell)]
    if not taken and len(others) == len(held) and cell[0] not in (told.types[wanted.type].creatable or ()):
        taken = ["something that vmctl does not see"]
    if taken:
        raise VmctlError(
            Code.NO_CAPACITY,
            f"GPU {wanted.gpu} has no room for {wanted.type} at {span(cell)}: {', '.join(taken)} is there, or may be.",
            "Free that place, or use another one.",
            retry=True,
        )


def place(host: Host, folder: Path, cell: Cell) -> None:
    """Demand a place for the vGPU of a virtual function or mediated device, and read back that it is demanded.

    An impossible place would show only when the machine starts: the driver refuses the machine then, not the demand.
    Raises VmctlError; the caller takes the share away then.
    """
    params, wish = folder / PARAMETERS, f"{DEMAND}{cell[0]}"
    if wish not in _listed(host, params):
        try:
            host.write(params, wish, reading=params)
        except OSError as error:
            raise VmctlError(
                Code.NO_CAPACITY if error.errno in REFUSED else Code.FAILED,
                f"The driver does not let {folder.name} have the place {cell[0]}: {error.strerror}.",
                "Look at which places are free (vmctl types), and at the kernel's log of this minute (dmesg).",
                retry=True,
            ) from error
    shown = start(host, folder)
    if wish not in _listed(host, params) or shown not in (None, cell[0]):
        raise VmctlError(
            Code.FAILED,
            f"{folder.name} was to lie at {cell[0]}, but the driver {_shows(shown)}.",
            "Look at what else sets parameters of vGPUs on this host.",
            retry=True,
        )


def clear(host: Host, folder: Path) -> None:
    """Take the demand back: one blank (dossier 4.3), as the next share on this function may want another place."""
    params = folder / PARAMETERS
    if not any(word.startswith(DEMAND) for word in _listed(host, params)):
        return
    try:
        host.write(params, " ", reading=params)
    except OSError as error:
        what = f"The driver does not forget the place of {folder.name}: {error.strerror}."
        raise VmctlError(Code.BUSY, what, "End the machine that uses it.", retry=True) from error


def start(host: Host, folder: Path) -> int | None:
    """Where a vGPU lies, as its function shows; None until its machine runs (ENXIO), and where nothing shows it."""
    text = (host.read_or_none(folder / "nvidia/placement_id") or "").strip()
    return int(text) if text.isdecimal() else None


def _shows(shown: int | None) -> str:
    return "did not keep the demand" if shown is None else f"put it at {shown}"


def _cells(told: DriverFacts, name: str) -> tuple[Cell, ...]:
    facts = told.types.get(name)
    if facts is None or facts.placements is None or facts.placement_size is None:
        return ()
    return tuple((start, start + facts.placement_size) for start in sorted(facts.placements))


def _listed(host: Host, params: Path) -> list[str]:
    """The parameters that are set, one by one: they are written as a comma list."""
    return (host.read_or_none(params) or "").replace(",", " ").split()
