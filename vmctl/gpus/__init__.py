"""The GPUs of a host and the shares on them: one file per way of sharing, the same few functions in each.

Callers use only what stands here; which way a card is shared is decided card by card (cards.py).
"""

from __future__ import annotations

from vmctl.card import HOLDERS, ProvidedVGPU, Regime
from vmctl.errors import Code, VmctlError
from vmctl.gpus import cards, drain, processes
from vmctl.gpus.address import normalise
from vmctl.gpus.cards import Card, doubtful
from vmctl.gpus.changes import change
from vmctl.gpus.inventory import inventory
from vmctl.gpus.layers import landing, mig, mixed, places
from vmctl.gpus.shares import Making, Survey
from vmctl.gpus.ways import whole
from vmctl.gpus.ways.choice import shares_on, way_for, way_of
from vmctl.host import Host
from vmctl.ledger import Ledger
from vmctl.model import Device, WantedVGPU

__all__ = [
    "HOLDERS",
    "change",
    "device",
    "devices",
    "doubtful",
    "having_open",
    "inventory",
    "normalise",
    "provide",
    "provided",
    "release",
]


def provided(host: Host) -> list[ProvidedVGPU]:
    """Every share that exists on the host, whoever made it. Raises VmctlError when that cannot be told."""
    survey = Survey(host)
    return [share for card in survey.cards for share in shares_on(survey, card)]


def provide(host: Host, wanted: WantedVGPU, machine: str = "", taken: frozenset[str] = frozenset()) -> ProvidedVGPU:
    """See to it that a wanted share exists, at one of its places; twice is as good as once.

    `taken`: addresses of functions that domains name which are not ours, running or off. Raises VmctlError (of the
    first place), and then nothing of it is there.
    """
    noted = Ledger(host.state_dir).get(wanted.uuid)
    there = (noted.gpu, noted.cell) if noted is not None else None
    refusals = []
    # Where it lies already comes first, or asking twice would move it from an alternative to the planned place.
    for place in sorted(wanted.places, key=lambda each: (each.gpu, each.cell) != there):
        try:
            return _provide_at(host, place, machine, taken)
        except VmctlError as error:
            if error.code != Code.NO_CAPACITY:
                raise
            refusals.append(error)
    raise refusals[0]


def release(host: Host, share: ProvidedVGPU) -> None:
    """See to it that a share is gone; one that is gone already is fine.

    The caller has ended the machine that had it. Raises VmctlError when it is in use or stays; it stays noted then,
    and so does one that is somebody else's.
    """
    if share.uuid is None:
        what = f"The {share.type} on {share.parent} was not made by vmctl."
        raise VmctlError(Code.NOT_OURS, what, "Find out who made it; nothing was removed.")
    survey = Survey(host)
    present = _present(survey, share.uuid, share.gpu)
    if present is not None:
        if (present.parent, present.type) != (share.parent, share.type):
            raise VmctlError(
                Code.NOT_OURS,
                f"The vGPU {share.uuid} is {present.type} on {present.parent}, not {share.type} on {share.parent}.",
                "Find out who made it; nothing was removed.",
            )
        _take_away(survey, _card(host, present.gpu), present)
    Ledger(host.state_dir).cross_out(share.uuid)


def device(share: ProvidedVGPU) -> Device:
    """What libvirt attaches for a share."""
    return way_of(share).device(share)


def devices(host: Host, share: ProvidedVGPU) -> tuple[Device, ...]:
    """Everything that libvirt attaches for a share: one device, or all functions of a whole card, the GPU first."""
    more = whole.companions(host, share) if share.regime is Regime.WHOLE else ()
    return (device(share), *more)


def having_open(host: Host, gpu: str) -> list[processes.Holder]:
    """The processes that have a card or a virtual function of it open."""
    card = _card(host, gpu)
    return processes.having_open(host, (card.address, *(function.address for function in card.virtual)))


def _provide_at(host: Host, wanted: WantedVGPU, machine: str, taken: frozenset[str]) -> ProvidedVGPU:
    _leave_other_place(host, wanted, machine)
    card, survey = _card(host, wanted.gpu), Survey(host)
    _refuse_lost(card)
    way, making = way_for(card, wanted.regime), Making(wanted, machine, survey.ledger, taken=taken)
    _refuse_regime(survey, card, wanted)
    try:
        if wanted.regime is Regime.MIXED:
            mixed.refuse_taken(wanted, shares_on(survey, card), survey.of(card))
        if wanted.regime is not Regime.MIG:
            return way.provide(host, card, making)
        making = mig.make_room(host, card, making, survey.of(card))
        return landing.provide(host, card, making, way.provide, way.release)
    except VmctlError as error:
        if wanted.regime is Regime.MIG:
            mig.after_release(host, card, wanted.uuid, Survey(host).of(card))
        if error.code == Code.NO_CAPACITY:
            Ledger(host.state_dir).cross_out(wanted.uuid)
        raise


def _leave_other_place(host: Host, wanted: WantedVGPU, machine: str) -> None:
    """A share that lies elsewhere, or is another one, goes first; on the same card it would be in its own way."""
    survey = Survey(host)
    if Making(wanted, machine, survey.ledger).moved:
        there = _present(survey, wanted.uuid, wanted.gpu)
        if there is not None:
            release(host, there)


def _refuse_lost(card: Card) -> None:
    """Raise VmctlError where a card does not answer any more: another one may have room."""
    if card.reason == cards.LOST:
        what = f"GPU {card.address} cannot be used: {card.reason[0].lower()}{card.reason[1:]}"
        raise VmctlError(Code.NO_CAPACITY, what, cards.AFTER_LOSS, retry=True)


def _refuse_regime(survey: Survey, card: Card, wanted: WantedVGPU) -> None:
    """No share of one regime on a card that is in another. Raises VmctlError.

    That a card is of equal size is not asked anew each time: its driver would have to be.
    """
    if wanted.regime is Regime.WHOLE:
        drain.refuse_held(survey, card, but=wanted.uuid, group=True)
        return
    for share in whole.shares(survey, card):
        what = f"GPU {card.address} is still given away whole ({share.uuid or 'not by vmctl'})."
        raise VmctlError(Code.BUSY, what, "Wait until it is released.", retry=True)
    if wanted.regime in (Regime.MIXED, Regime.MIG) and survey.regime(card) is not wanted.regime:
        what = f"GPU {card.address} is not in the regime {wanted.regime}, but {survey.regime(card)}."
        raise VmctlError(Code.BUSY, what, "Let an operator set its regime, or wait until that is done.", retry=True)


def _take_away(survey: Survey, card: Card, share: ProvidedVGPU) -> None:
    if not places.is_left_over(share):
        way_of(share).release(survey.host, card, share)
    if share.regime is Regime.MIG and share.uuid is not None:
        mig.after_release(survey.host, card, share.uuid, Survey(survey.host).of(card))


def _present(survey: Survey, uuid: str, gpu: str) -> ProvidedVGPU | None:
    """A share that exists: on its card, else on any. Raises VmctlError where that cannot be told."""
    ordered = sorted(survey.cards, key=lambda card: card.address != gpu)
    for card in ordered:
        for share in shares_on(survey, card):
            if share.uuid == uuid:
                return share
    return None


def _card(host: Host, address: str) -> Card:
    card = cards.find(host, address)
    if card is None:
        raise VmctlError(Code.FAILED, f"There is no GPU {address} on {host.name}.", "Look at vmctl gpus.")
    return card
