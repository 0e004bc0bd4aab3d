"""Mediated devices on SR-IOV virtual functions: Ampere and later on kernels with mdev (dossier 1.2).

One vGPU per virtual function; the card's frame buffer is shared by all of them, so what each function says is free
must never be added up. The handle of a share is the number of its function.
"""

from collections import Counter
from collections.abc import Sequence

from vmctl.errors import Code, VmctlError
from vmctl.gpus import mdev
from vmctl.gpus.cards import Card
from vmctl.gpus.equal import ruled
from vmctl.gpus.shares import Shares, provided
from vmctl.gpus.types import OfferedType, offered, room
from vmctl.host import Host
from vmctl.model import MediatedDevice, ProvidedVGPU, Unknown, WantedVGPU


def look(host: Host, card: Card, held: Sequence[ProvidedVGPU]) -> Shares:
    """What the card can be cut into now: the types of its functions, each as often as functions still take it."""
    kinds: list[OfferedType] = []
    free: Counter[str] = Counter()
    unknown: list[Unknown] = []
    for function in card.virtual:
        if kinds:
            counts, gaps = room(host, function.address)
        else:
            kinds, gaps = offered(host, function.address)
            counts = {kind.driver_id: kind.available or 0 for kind in kinds}
        free += Counter(counts)
        unknown += gaps
    types = tuple(ruled(kind, held, free[kind.driver_id]) for kind in kinds)
    return Shares(types, len(card.virtual), tuple(unknown))


def provide(host: Host, card: Card, wanted: WantedVGPU) -> ProvidedVGPU:
    """See to it that a wanted share exists on the function of its handle."""
    for function in card.virtual:
        if function.number == wanted.handle:
            kind = mdev.make(host, wanted, function.address)
            return provided(card, wanted.uuid, kind, function.address)
    raise VmctlError(
        Code.FAILED,
        f"GPU {card.address} has no virtual function {wanted.handle}; it has {len(card.virtual)}.",
        "Choose a handle below that number, or look at why functions are missing (vmctl gpus).",
    )


def release(host: Host, share: ProvidedVGPU) -> None:
    """See to it that a share is gone."""
    mdev.take_away(host, share.uuid)


def device(share: ProvidedVGPU) -> MediatedDevice:
    """What a machine gets."""
    return MediatedDevice(share.uuid)
