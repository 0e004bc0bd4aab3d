"""Mediated devices on SR-IOV virtual functions: Ampere and later on kernels with mdev (dossier 1.2).

One vGPU per virtual function; the card's frame buffer is shared by all of them, so what each function says is free
must never be added up. The handle of a share is the number of its function.
"""

from __future__ import annotations

from collections import Counter

from vmctl.card import ProvidedVGPU, Unknown
from vmctl.errors import Code, VmctlError
from vmctl.gpus import mdev
from vmctl.gpus.cards import Card
from vmctl.gpus.shares import Offer, Offers, Order, Survey, provided
from vmctl.gpus.types import OfferedType, offered, room
from vmctl.host import Host
from vmctl.model import MediatedDevice


def look(survey: Survey, card: Card) -> Offers:
    """What the card can be cut into now: the types of its functions, each as often as functions still take it."""
    kinds: list[OfferedType] = []
    free: Counter[str] = Counter()
    unknown: list[Unknown] = []
    for function in card.virtual:
        if kinds:
            counts, gaps = room(survey.host, function.address)
        else:
            kinds, gaps = offered(survey.host, function.address)
            counts = {kind.driver_id: kind.available or 0 for kind in kinds}
        free += Counter(counts)
        unknown += gaps
    offers = tuple(Offer(kind, free[kind.driver_id]) for kind in kinds)
    return Offers(offers, len(card.virtual), tuple(unknown))


def shares(survey: Survey, card: Card) -> list[ProvidedVGPU]:
    """The mediated devices on the card's functions."""
    return mdev.shares(survey, card)


def provide(host: Host, card: Card, order: Order) -> ProvidedVGPU:
    """See to it that a wanted share exists on the function of its handle."""
    wanted = order.wanted
    for function in card.virtual:
        if function.number == wanted.handle:
            order.note(function.address)
            kind = mdev.make(host, wanted, function.address)
            return provided(card, wanted.uuid, kind, function.address, order.ledger.get(wanted.uuid))
    raise VmctlError(
        Code.FAILED,
        f"GPU {card.address} has no virtual function {wanted.handle}; it has {len(card.virtual)}.",
        "Choose a handle below that number, or look at why functions are missing (vmctl gpus).",
    )


def release(host: Host, card: Card, share: ProvidedVGPU) -> None:
    """See to it that a share is gone."""
    mdev.take_away(host, share.device)


def device(share: ProvidedVGPU) -> MediatedDevice:
    """What a machine gets."""
    return MediatedDevice(share.device)
