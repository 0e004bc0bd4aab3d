"""What every way of sharing answers with."""

from dataclasses import dataclass

from vmctl.gpus.cards import Card
from vmctl.gpus.types import OfferedType
from vmctl.model import ProvidedVGPU, Unknown, VGPUType


@dataclass(frozen=True)
class Shares:
    """How a card can be cut now: types with their cells, how many vGPUs can exist, and what could not be read."""

    types: tuple[VGPUType, ...] = ()
    handles: int = 0
    unknown: tuple[Unknown, ...] = ()


def provided(card: Card, uuid: str, kind: OfferedType, parent: str) -> ProvidedVGPU:
    """A share that exists, seen from its card."""
    handle = next((function.number for function in card.virtual if function.address == parent), None)
    return ProvidedVGPU(uuid, card.address, kind.name, card.framework, parent, kind.size_group, handle)
