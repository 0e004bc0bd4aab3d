"""A vGPU into the GPU instance that is planned for it, where the driver chooses among all that have room.

Nothing tells the driver which to take. So what came into another one stays there for a moment, as a share of its own
that nobody wants, until the next one lies right; then all of these go. A run that is cut off leaves them in the ledger,
and the next one releases them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID, uuid5

from vmctl.card import ProvidedVGPU
from vmctl.errors import VmctlError
from vmctl.gpus.cards import Card
from vmctl.gpus.layers import mig
from vmctl.gpus.shares import Making
from vmctl.host import Host

Make = Callable[[Host, Card, Making], ProvidedVGPU]
Release = Callable[[Host, Card, ProvidedVGPU], None]


def provide(host: Host, card: Card, making: Making, make: Make, release: Release) -> ProvidedVGPU:
    """Make a wanted share in its own GPU instance. Raises VmctlError, and then nothing of it is there."""
    aside: list[ProvidedVGPU] = []
    wrong: VmctlError | None = None
    try:
        while True:
            try:
                made = make(host, card, making)
            except VmctlError as error:
                raise wrong or error from error
            wrong = mig.elsewhere(host, card, made.parent, making.wanted)
            if wrong is None:
                return made
            aside.append(_put_aside(card, making, made, len(aside)))
    finally:
        for share in aside:
            release(host, card, share)
            making.ledger.cross_out(share.uuid or "")


def _put_aside(card: Card, making: Making, made: ProvidedVGPU, number: int) -> ProvidedVGPU:
    """Give a share another name in the ledger, and note the wanted one as not yet made."""
    noted = making.ledger.get(making.wanted.uuid)
    name = str(uuid5(UUID(making.wanted.uuid), str(number)))
    if noted is not None:
        making.ledger.note(replace(noted, uuid=name))
    making.note(card.address)
    return replace(made, uuid=name)
