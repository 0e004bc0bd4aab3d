"""The GPUs of a host and the shares on them: one file per way of sharing, the same few functions in each.

Callers use only what stands here; which way a card is shared is decided card by card (cards.py).
"""

from __future__ import annotations

from vmctl.card import ProvidedVGPU
from vmctl.errors import Code, VmctlError
from vmctl.gpus import cards
from vmctl.gpus.address import normalise
from vmctl.gpus.cards import Card
from vmctl.gpus.inventory import HOLDERS, inventory, shares_on
from vmctl.gpus.shares import Order, Survey
from vmctl.gpus.ways import WAYS, way_of
from vmctl.host import Host
from vmctl.ledger import Ledger
from vmctl.model import Device, WantedVGPU

__all__ = ["HOLDERS", "device", "inventory", "normalise", "provide", "provided", "release"]


def provided(host: Host) -> list[ProvidedVGPU]:
    """Every share that exists on the host, whoever made it. Raises VmctlError when that cannot be told."""
    survey = Survey(host)
    return [share for card in survey.cards for share in shares_on(survey, card)]


def provide(host: Host, wanted: WantedVGPU, machine: str = "") -> ProvidedVGPU:
    """See to it that a wanted share exists, at one of its places; twice is as good as once.

    Raises VmctlError (of the first place), and then nothing of it is there.
    """
    refusals = []
    for place in wanted.places:
        try:
            return _provide_at(host, place, machine)
        except VmctlError as error:
            if error.code != Code.NO_CAPACITY:
                raise
            refusals.append(error)
    raise refusals[0]


def release(host: Host, share: ProvidedVGPU) -> None:
    """See to it that a share is gone; one that is gone already is fine.

    The caller has ended the machine that had it. Raises VmctlError when it is in use or stays; it stays noted then.
    """
    present = next((each for each in provided(host) if each.uuid == share.uuid), None)
    if present is not None:
        if (present.parent, present.type) != (share.parent, share.type):
            raise VmctlError(
                Code.NOT_OURS,
                f"The vGPU {share.uuid} is {present.type} on {present.parent}, not {share.type} on {share.parent}.",
                "Find out who made it; nothing was removed.",
            )
        way_of(present).release(host, _card(host, present.gpu), present)
    if share.uuid is not None:
        Ledger(host.state_dir).cross_out(share.uuid)


def device(share: ProvidedVGPU) -> Device:
    """What libvirt attaches for a share."""
    return way_of(share).device(share)


def _provide_at(host: Host, wanted: WantedVGPU, machine: str) -> ProvidedVGPU:
    card = _card(host, wanted.gpu)
    way = WAYS.get(card.framework)
    if way is None:
        reason = "; ".join(gap.reason for gap in card.reasons)
        raise VmctlError(
            Code.COULD_NOT_TELL,
            f"GPU {card.address} cannot be shared now: {reason}",
            "Run vmctl check on the host.",
            retry=True,
        )
    return way.provide(host, card, Order(wanted, machine, Ledger(host.state_dir)))


def _card(host: Host, address: str) -> Card:
    card = cards.find(host, address)
    if card is None:
        raise VmctlError(Code.FAILED, f"There is no GPU {address} on {host.name}.", "Look at vmctl gpus.")
    return card
