"""Mediated devices on the physical function: Turing and older NVIDIA cards, Intel GVT-g (dossier 1.1 and 1.6)."""

from __future__ import annotations

from vmctl.card import ProvidedVGPU
from vmctl.gpus.cards import Card
from vmctl.gpus.shares import Making, Offer, Offers, Survey, provided
from vmctl.gpus.types import offered
from vmctl.gpus.ways import mdev
from vmctl.host import Host
from vmctl.model import MediatedDevice


def look(survey: Survey, card: Card) -> Offers:
    """What the card can be cut into now. The handles are as many as its smallest type has."""
    kinds, unknown = offered(survey.host, card.address)
    handles = max((kind.most for kind in kinds if kind.most is not None), default=None)
    return Offers(tuple(Offer(kind, kind.available) for kind in kinds), handles, tuple(unknown))


def shares(survey: Survey, card: Card) -> list[ProvidedVGPU]:
    """The mediated devices on the card."""
    return mdev.shares(survey, card)


def provide(host: Host, card: Card, making: Making) -> ProvidedVGPU:
    """See to it that a wanted share exists. All shares are made on the card itself, whatever their handle."""
    kind = mdev.make(host, making, card.address)
    return provided(card, making.wanted.uuid, kind, card.address, making.ledger.get(making.wanted.uuid))


def release(host: Host, card: Card, share: ProvidedVGPU) -> None:
    """See to it that a share is gone."""
    mdev.take_away(host, share.device)


def device(share: ProvidedVGPU) -> MediatedDevice:
    """What a machine gets."""
    return MediatedDevice(share.device)
