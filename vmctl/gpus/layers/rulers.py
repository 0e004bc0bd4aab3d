"""What a GPU can be cut into in the regime it is in: legal cells, free cells, how many more. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from vmctl.card import ProvidedVGPU, Regime, Unknown, VGPUType
from vmctl.gpus.driver.answers import DriverFacts
from vmctl.gpus.layers import cells, equal, mig_cells, mixed
from vmctl.gpus.shares import Offer


def ruled(
    regime: Regime | None,
    offers: Sequence[Offer],
    held: Sequence[ProvidedVGPU],
    told: DriverFacts,
    handles: int | None = None,
) -> tuple[VGPUType, ...]:
    """The types that the regime allows. `handles`: how many functions are still without a share; None: no limit.

    A card that is about to change its MIG mode takes nothing until it was reset (field log A19).
    """
    if told.mig is not None and told.mig.current != told.mig.pending:
        return ()
    return tuple(_ruled(regime, offer, held, told, handles) for offer in _of(regime, offers, told))


def untold(
    regime: Regime | None, offers: Sequence[Offer], held: Sequence[ProvidedVGPU], told: DriverFacts
) -> tuple[Unknown, ...]:
    """What could not be said of these types, and why."""
    if told.mig is not None and told.mig.current != told.mig.pending:
        mode = "on" if told.mig.pending else "off"
        return (Unknown("types", f"MIG mode will be {mode} after a reset of the card or a reboot of the host."),)
    if regime is Regime.EQUAL:
        return tuple(gap for offer in _of(regime, offers, told) for gap in equal.untold(offer, held))
    if regime is Regime.MIXED:
        return tuple(gap for offer in _of(regime, offers, told) for gap in mixed.untold(offer, held, told))
    if regime is Regime.MIG:
        return tuple(gap for offer in _of(regime, offers, told) for gap in mig_cells.untold(offer, told))
    return ()


def _of(regime: Regime | None, offers: Sequence[Offer], told: DriverFacts) -> list[Offer]:
    """Those of the regime: a driver may list types for GPU instances beside those that share the GPU's time."""
    if regime is None or regime is Regime.WHOLE:
        return []
    return [offer for offer in offers if mig_cells.is_backed(offer.kind.name, told) == (regime is Regime.MIG)]


def _ruled(
    regime: Regime | None, offer: Offer, held: Sequence[ProvidedVGPU], told: DriverFacts, handles: int | None
) -> VGPUType:
    if regime is Regime.MIG:
        return mig_cells.ruled(offer, held, told, handles)
    if regime is Regime.MIXED:
        return mixed.ruled(offer, held, told, handles)
    if regime is Regime.VF:
        return _numbered(offer, held)
    return equal.ruled(offer, held)


def _numbered(offer: Offer, held: Sequence[ProvidedVGPU]) -> VGPUType:
    """Plain SR-IOV: the parts are the virtual functions themselves, [k, k + 1) is number k (dossier 1.6)."""
    kind = offer.kind
    legal = tuple((number, number + 1) for number in range(kind.most or 0))
    taken = {share.handle for share in held}
    left = tuple(cell for cell in legal if cell[0] not in taken)
    free = cells.least(len(left), offer.room)
    return cells.ruled(kind, Regime.VF, max=kind.most, cells=legal, free_cells=left, free=free)
