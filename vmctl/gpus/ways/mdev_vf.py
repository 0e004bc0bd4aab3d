"""Mediated devices on SR-IOV virtual functions: Ampere and later on kernels with mdev (dossier 1.2).

One vGPU per virtual function; the card's frame buffer is shared by all of them, so what each function says is free
must never be added up beyond that. The handle of a share is the number of its function.
"""

from __future__ import annotations

from collections.abc import Mapping

from vmctl.card import ProvidedVGPU, Regime, Unknown
from vmctl.errors import VmctlError
from vmctl.gpus import mdev_bus
from vmctl.gpus.cards import Card, VirtualFunction
from vmctl.gpus.layers import mixed
from vmctl.gpus.shares import Making, Offer, Offers, Survey, first_that_takes, functions_for, provided, together
from vmctl.gpus.types import OfferedType, offered, room
from vmctl.gpus.ways import mdev
from vmctl.host import Host
from vmctl.model import MediatedDevice


def look(survey: Survey, card: Card) -> Offers:
    """What the card can be cut into now: the types of its functions, each as often as functions still take it."""
    kinds: list[OfferedType] = []
    rooms: list[Mapping[str, int | None]] = []
    unknown: list[Unknown] = []
    for function in card.virtual:
        if kinds:
            counts, gaps = room(survey.host, function.address, kinds)
        else:
            kinds, gaps = offered(survey.host, function.address)
            counts = {kind.driver_id: kind.available for kind in kinds}
        rooms.append(counts)
        unknown += gaps
    offers = tuple(Offer(kind, together([counts.get(kind.driver_id) for counts in rooms])) for kind in kinds)
    return Offers(offers, len(card.virtual), tuple(unknown))


def shares(survey: Survey, card: Card) -> list[ProvidedVGPU]:
    """The mediated devices on the card's functions."""
    return mdev.shares(survey, card)


def provide(host: Host, card: Card, making: Making) -> ProvidedVGPU:
    """See to it that a wanted share exists, on the function of its handle or another free one."""
    uuid = making.wanted.uuid
    devices = mdev_bus.devices(host)
    taken = {device.parent for device in devices if device.uuid != uuid} | making.taken
    there = next((device.parent for device in devices if device.uuid == uuid), None)

    def make(function: VirtualFunction) -> ProvidedVGPU:
        kind = mdev.make(host, making, function.address)
        _place(host, making)
        return provided(card, uuid, kind, function.address, making.ledger.get(uuid))

    return first_that_takes(card, functions_for(card, making.wanted.handle, taken, there), make)


def _place(host: Host, making: Making) -> None:
    """Demand the share's place where sizes are mixed. Raises VmctlError, and then the share is gone again."""
    wanted = making.wanted
    if wanted.regime is not Regime.MIXED or wanted.cell is None:
        return
    try:
        mixed.place(host, host.path(f"/sys/bus/mdev/devices/{wanted.uuid}"), wanted.cell)
    except (VmctlError, OSError):
        mdev.take_away(host, wanted.uuid)
        raise


def release(host: Host, card: Card, share: ProvidedVGPU) -> None:
    """See to it that a share is gone; its demand for a place goes with it."""
    mdev.take_away(host, share.device)


def device(share: ProvidedVGPU) -> MediatedDevice:
    """What a machine gets."""
    return MediatedDevice(share.device)
