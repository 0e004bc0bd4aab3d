"""Mediated devices on the physical function: Turing and older NVIDIA cards, Intel GVT-g (dossier 1.1)."""

from collections.abc import Sequence

from vmctl.gpus import mdev
from vmctl.gpus.cards import Card
from vmctl.gpus.equal import ruled
from vmctl.gpus.shares import Shares, provided
from vmctl.gpus.types import offered
from vmctl.host import Host
from vmctl.model import MediatedDevice, ProvidedVGPU, WantedVGPU


def look(host: Host, card: Card, held: Sequence[ProvidedVGPU]) -> Shares:
    """What the card can be cut into now. The handles are as many as its smallest type has."""
    kinds, unknown = offered(host, card.address)
    types = tuple(ruled(kind, held, kind.available) for kind in kinds)
    return Shares(types, max((kind.most or 0 for kind in kinds), default=0), tuple(unknown))


def provide(host: Host, card: Card, wanted: WantedVGPU) -> ProvidedVGPU:
    """See to it that a wanted share exists. All shares are made on the card itself, whatever their handle."""
    kind = mdev.make(host, wanted, card.address)
    return provided(card, wanted.uuid, kind, card.address)


def release(host: Host, share: ProvidedVGPU) -> None:
    """See to it that a share is gone."""
    mdev.take_away(host, share.uuid)


def device(share: ProvidedVGPU) -> MediatedDevice:
    """What a machine gets."""
    return MediatedDevice(share.uuid)
