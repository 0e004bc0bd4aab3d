"""Whether a card is empty: what must be so before its modes are changed or a machine gets it whole."""

from __future__ import annotations

from vmctl.card import Framework, ProvidedVGPU
from vmctl.errors import Code, VmctlError
from vmctl.gpus import processes
from vmctl.gpus.cards import Card
from vmctl.gpus.layers import mig, places
from vmctl.gpus.shares import Survey
from vmctl.gpus.ways import groups
from vmctl.gpus.ways.choice import shares_on


def refuse_held(survey: Survey, card: Card, *, but: str | None = None, group: bool = False) -> None:
    """Raise VmctlError (busy) while a share is on the card, other than the one named; `group`: or on its neighbours.

    Raises VmctlError too where that cannot be told.
    """
    around = groups.members(survey.host, card.address) if group else ()
    for other in survey.cards:
        if other.address == card.address or other.address in around:
            held = [share for share in _on(survey, other) if share.uuid is None or share.uuid != but]
            if held:
                names = ", ".join(f"{each.type} on {each.parent} ({each.uuid or 'not ours'})" for each in held)
                what = f"GPU {card.address} is not empty: there is {names}."
                raise VmctlError(Code.BUSY, what, "Wait until it is released.", retry=True)


def _on(survey: Survey, card: Card) -> list[ProvidedVGPU]:
    """Every share on a card, and every GPU instance that is nobody's we know."""
    if card.framework is not Framework.MDEV_PF:
        mig.refuse_untold(card.address, survey.of(card))
    found = shares_on(survey, card)
    return found + places.foreign(survey, card, found)


def refuse_open(survey: Survey, card: Card) -> None:
    """Raise VmctlError (busy) while a process has the card open: rebinding it would sleep in the kernel (B10)."""
    functions = (card.address, *(function.address for function in card.virtual))
    processes.refuse_open(survey.host, card.address, functions)
