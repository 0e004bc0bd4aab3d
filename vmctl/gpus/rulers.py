"""The ruler of each regime: which cells of a GPU are legal for a type, and which are free now (dossier 3). Pure."""

from __future__ import annotations

from collections.abc import Sequence

from vmctl.card import ProvidedVGPU, Regime, VGPUType
from vmctl.gpus import equal
from vmctl.gpus.facts import DriverFacts
from vmctl.gpus.shares import Offer


def ruled(
    regime: Regime, offers: Sequence[Offer], held: Sequence[ProvidedVGPU], told: DriverFacts
) -> tuple[VGPUType, ...]:
    """Every type on offer with its legal cells and those free now."""
    return tuple(equal.ruled(offer, held) for offer in offers) if regime is Regime.EQUAL else ()
