"""The ways a share is made: which file serves which kernel interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from vmctl.card import Framework, ProvidedVGPU
from vmctl.errors import Code, VmctlError
from vmctl.gpus import mdev_pf, mdev_vf
from vmctl.gpus.cards import Card
from vmctl.gpus.shares import Offers, Order, Survey
from vmctl.host import Host
from vmctl.model import Device


class Way(Protocol):
    """What a file for one way of sharing has."""

    def look(self, survey: Survey, card: Card) -> Offers:
        """What the card can be cut into now. Raises nothing."""

    def shares(self, survey: Survey, card: Card) -> list[ProvidedVGPU]:
        """The shares on the card, whoever made them. Raises VmctlError when that cannot be told."""

    def provide(self, host: Host, card: Card, order: Order) -> ProvidedVGPU:
        """See to it that a share exists. Raises VmctlError, and then nothing of it is there."""

    def release(self, host: Host, card: Card, share: ProvidedVGPU) -> None:
        """See to it that a share is gone. Raises VmctlError when it is in use or stays."""

    def device(self, share: ProvidedVGPU) -> Device:
        """What a machine gets for it."""


WAYS: Mapping[Framework, Way] = {Framework.MDEV_PF: mdev_pf, Framework.MDEV_VF: mdev_vf}


def way_of(share: ProvidedVGPU) -> Way:
    """The way by which a share was made. Raises VmctlError where its card has changed its interface since."""
    way = WAYS.get(share.framework)
    if way is None:
        what = f"The vGPU {share.device} is on a card whose interface ({share.framework}) this version cannot use."
        raise VmctlError(Code.COULD_NOT_TELL, what, "Run vmctl check on the host.", retry=True)
    return way
