"""What cannot be, whoever waits for it: settings that a card cannot have, shares that no GPU gives. Pure.

Only what is known refuses. A list that could not be read, or a card that is not ready, is waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from vmctl.card import GPU, CardSettings, Cell, Framework, Regime, Slot, Unknown, span
from vmctl.errors import Code, VmctlError
from vmctl.model import DesiredMachine, Order, WantedVGPU

MOST_VCPUS = 255
"""libvirt's limit for Q35 without an IOMMU that has interrupts of extended mode; QEMU's own is 288 (7.2)."""
LOOK = "Look at vmctl gpus."
TIME_SHARED = (Framework.MDEV_PF, Framework.MDEV_VF, Framework.VENDOR_VFIO)
ON_FUNCTIONS = (Framework.MDEV_VF, Framework.VENDOR_VFIO)


def missing(gpu: str, unknown: Iterable[Unknown]) -> VmctlError:
    """There is no such GPU, or none could be seen."""
    doubts = [gap.reason for gap in unknown if gap.what == "gpus"]
    if doubts:
        return VmctlError(Code.COULD_NOT_TELL, f"GPU {gpu} cannot be seen: {' '.join(doubts)}", LOOK, retry=True)
    return VmctlError(Code.FAILED, f"There is no GPU {gpu} on this host.", LOOK)


# Settings -----------------------------------------------------------------------------------------


def unfit(settings: CardSettings, gpu: GPU) -> VmctlError | None:
    """Why a card can never be set so, if it cannot."""
    if gpu.driver is None or gpu.driver == "vfio-pci":
        return None  # nobody can be asked now
    why = _no_regime(gpu, settings.regime) or _no_count(gpu, settings.vfs)
    remedy = "Have other settings chosen for this card."
    return None if why is None else VmctlError(Code.FAILED, f"GPU {gpu.address} ({gpu.model}) {why}.", remedy)


def not_offered(types: Sequence[str] | None, gpu: GPU) -> VmctlError | None:
    """That a card is set to offer types of which its driver has none. Some may be those of another regime."""
    names = offered(gpu)
    if not types or not names or set(types) & set(names):
        return None
    what = f"The driver offers none of {', '.join(types)} on GPU {gpu.address}; it offers {_listed(names)}."
    return VmctlError(Code.FAILED, what, "Choose among these.")


def _no_regime(gpu: GPU, regime: Regime | None) -> str | None:
    match regime:
        case Regime.WHOLE if Regime.WHOLE not in gpu.regimes:
            return "cannot be given away whole: " + (
                "it has no IOMMU group"
                if gpu.iommu_group is None
                else "it drives the host's screen, or its IOMMU group has something of the host"
            )
        case Regime.VF if gpu.framework in TIME_SHARED or gpu.vendor == "NVIDIA" or _has_none(gpu):
            return "has no virtual functions that machines get as they are"
        case Regime.MIG if gpu.mig is None and not _gap(gpu, "mig"):
            return "has no MIG"
        case Regime.EQUAL | Regime.MIXED if gpu.framework is Framework.SRIOV:
            return "is shared by virtual functions (vf) only"
        case Regime.MIXED if gpu.framework is Framework.MDEV_PF:
            return "takes vGPUs of one size only"
        case Regime.MIXED if gpu.framework in ON_FUNCTIONS and gpu.mixed is None and not _gap(gpu, "mixed"):
            return "takes vGPUs of one size only"
        case Regime.EQUAL | Regime.MIXED if gpu.framework is Framework.PASSTHROUGH and gpu.vendor != "NVIDIA":
            return f"cannot be cut: {gpu.reason.rstrip('.')}"
    return None


def _no_count(gpu: GPU, count: int | None) -> str | None:
    if count is None:
        return None
    if _has_none(gpu):
        return "has no virtual functions"
    if gpu.vfs is not None and count > gpu.vfs.total:
        return f"has {gpu.vfs.total} virtual functions at most, not {count}"
    if gpu.framework in ON_FUNCTIONS or gpu.vendor == "NVIDIA":
        return "has as many virtual functions as its driver decides: no number can be set"
    return None


def _has_none(gpu: GPU) -> bool:
    return not gpu.vfs and not _gap(gpu, "vfs")


def _gap(gpu: GPU, what: str) -> bool:
    return any(gap.what == what for gap in gpu.unknown)


# Shares -------------------------------------------------------------------------------------------


def offered(gpu: GPU) -> tuple[str, ...]:
    """The types of a card as it is cut now; none where the list may lack some."""
    return () if _gap(gpu, "types") else tuple(kind.name for kind in gpu.types)


def impossible(wanted: WantedVGPU, gpu: GPU) -> VmctlError | None:
    """Why a share cannot be at its (first) place on a card that stays cut as it is, if it cannot."""
    if wanted.regime is Regime.WHOLE:
        return _other_model(wanted, gpu)
    names = offered(gpu)
    if gpu.regime is not wanted.regime or not names:
        return None
    kind = next((kind for kind in gpu.types if wanted.type in (kind.name, kind.driver_id)), None)
    if kind is None:
        what = f"The driver does not offer {wanted.type} on GPU {gpu.address}; it offers {_listed(names)}."
        return VmctlError(Code.FAILED, what, "Choose one of these.")
    if kind.cells and wanted.cell not in kind.cells:
        return _no_place(wanted, "place", wanted.cell, kind.cells)
    if kind.cells and wanted.slot not in kind.slots:
        return _no_place(wanted, "slot", wanted.slot, kind.slots)
    if wanted.handle is not None and gpu.handles and wanted.handle >= gpu.handles:
        what = f"GPU {gpu.address} has the handles 0 to {gpu.handles - 1}, not {wanted.handle}."
        return VmctlError(Code.FAILED, what, LOOK)
    return None


def _other_model(wanted: WantedVGPU, gpu: GPU) -> VmctlError | None:
    """A whole card is asked for by its model; one that is on vfio-pci may not tell that."""
    known = gpu.driver not in (None, "vfio-pci") and gpu.model != f"{gpu.vendor} {gpu.device}"
    if not known or wanted.type == Regime.WHOLE or _plain(wanted.type) == _plain(gpu.model):
        return None
    what = f"GPU {gpu.address} is a {gpu.model}, not a {wanted.type}, and is asked for whole."
    return VmctlError(Code.FAILED, what, f"Ask for a whole card by its model ({gpu.model}), or as whole.")


def _plain(model: str) -> str:
    """One model's name, with and without its maker's."""
    return model.casefold().removeprefix("nvidia ").removeprefix("tesla ")


def _no_place(wanted: WantedVGPU, what: str, asked: Cell | None, legal: Sequence[Cell | Slot]) -> VmctlError:
    said = f"{wanted.type} on GPU {wanted.gpu} has no {what} {span(asked)}; legal are {', '.join(map(span, legal))}."
    return VmctlError(Code.FAILED, said, LOOK)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


# Machines -----------------------------------------------------------------------------------------


def clashes(machines: Sequence[DesiredMachine], running: Iterable[str]) -> Mapping[str, VmctlError]:
    """By machine: that a share of it lies where one of a machine before it in the document, or running, lies too."""
    there = set(running)
    wanted = [wish for wish in machines if wish.order is Order.RUN]
    kept: list[tuple[WantedVGPU, DesiredMachine]] = []
    found: dict[str, VmctlError] = {}
    for wish in sorted(wanted, key=lambda each: each.machine not in there):
        for vgpu, other in _pairs(wish, kept):
            what = f"{other.name} has the place of {wish.name} on GPU {vgpu.gpu}, by the same document."
            found.setdefault(wish.machine, VmctlError(Code.FAILED, what, "Have the two placed apart."))
        if wish.machine not in found:
            kept += [(vgpu, wish) for vgpu in wish.vgpus]
    return {machine: error for machine, error in found.items() if machine not in there}


def _pairs(
    wish: DesiredMachine, kept: Sequence[tuple[WantedVGPU, DesiredMachine]]
) -> Iterator[tuple[WantedVGPU, DesiredMachine]]:
    for number, vgpu in enumerate(wish.vgpus):
        before = [*kept, *((each, wish) for each in wish.vgpus[:number])]
        yield from ((vgpu, other) for each, other in before if _clash(vgpu, each))


def _clash(one: WantedVGPU, other: WantedVGPU) -> bool:
    """Whether two shares cannot be beside each other: in one place, or on one function of a card that is given out so.

    Elsewhere handles are interchangeable: another free one is taken.
    """
    if one.gpu != other.gpu:
        return False
    if one.cell is None or other.cell is None:
        return True
    if one.regime is not other.regime:
        return False  # whoever looks at the card's regime says so
    if one.regime is Regime.EQUAL and one.type != other.type:
        return False
    cells = one.cell[0] < other.cell[1] and other.cell[0] < one.cell[1]
    slots = one.slot[0] < other.slot[1] and other.slot[0] < one.slot[1]
    if one.regime is Regime.VF and one.handle is not None and one.handle == other.handle:
        return True
    return cells and (slots or one.cell != other.cell)


def too_large(wish: DesiredMachine) -> VmctlError | None:
    """Why no hypervisor of this kind starts such a machine, if none does."""
    if wish.vcpus <= MOST_VCPUS:
        return None
    what = f"{wish.name} has {wish.vcpus} vCPUs; a Q35 machine without an IOMMU has {MOST_VCPUS} at most."
    return VmctlError(Code.FAILED, what, "Choose a smaller flavor.")
