"""The ways a share is made: which file serves which kernel interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from vmctl.card import Framework, ProvidedVGPU, Regime
from vmctl.errors import Code, VmctlError
from vmctl.gpus.cards import Card
from vmctl.gpus.layers import places
from vmctl.gpus.shares import Making, Offers, Survey
from vmctl.gpus.ways import mdev_pf, mdev_vf, sriov, vendor_vfio, whole
from vmctl.host import Host
from vmctl.model import Device


class Way(Protocol):
    """What a file for one way of sharing has.

    After a reboot or a new start of the driver nothing of a share is left but its note in the ledger; to recover is to
    provide again, once the card's functions and modes are back (changes.py).
    """

    def look(self, survey: Survey, card: Card) -> Offers:
        """What the card can be cut into now. Raises nothing."""

    def shares(self, survey: Survey, card: Card) -> list[ProvidedVGPU]:
        """The shares on the card, whoever made them. Raises VmctlError when that cannot be told."""

    def provide(self, host: Host, card: Card, making: Making) -> ProvidedVGPU:
        """See to it that a share exists. Raises VmctlError, and then nothing of it is there."""

    def release(self, host: Host, card: Card, share: ProvidedVGPU) -> None:
        """See to it that a share is gone. Raises VmctlError when it is in use or stays."""

    def device(self, share: ProvidedVGPU) -> Device:
        """What a machine gets for it."""


WAYS: Mapping[Framework, Way] = {
    Framework.MDEV_PF: mdev_pf,
    Framework.MDEV_VF: mdev_vf,
    Framework.VENDOR_VFIO: vendor_vfio,
    Framework.SRIOV: sriov,
    Framework.PASSTHROUGH: whole,
}


def way_of(share: ProvidedVGPU) -> Way:
    """The way by which a share was made. Raises VmctlError where its card has changed its interface since."""
    way = WAYS.get(share.framework)
    if way is None:
        what = f"The vGPU {share.device} is on a card whose interface ({share.framework}) this version cannot use."
        raise VmctlError(Code.COULD_NOT_TELL, what, "Run vmctl check on the host.", retry=True)
    return way


def way_for(card: Card, regime: Regime) -> Way:
    """The way by which a share of a regime is made on a card. Raises VmctlError (retry) where there is none now."""
    if regime is Regime.WHOLE:
        return whole
    way = WAYS.get(card.framework)
    if way is None or way is whole or card.reason:
        what = f"GPU {card.address} cannot be shared now: {card.reason}"
        raise VmctlError(Code.COULD_NOT_TELL, what, "Run vmctl check on the host.", retry=True)
    return way


def shares_on(survey: Survey, card: Card) -> list[ProvidedVGPU]:
    """Every share on a card, whoever made it. Raises VmctlError when that cannot be told."""
    way = WAYS.get(card.framework)
    found = way.shares(survey, card) if way is not None else []
    if way is not whole:
        found += whole.shares(survey, card)  # one that is given back only in part
    return places.seen(survey, card, found)
