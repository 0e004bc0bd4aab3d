"""How busy the cards of a host and the vGPUs on them are at this moment, as their driver tells."""

from __future__ import annotations

from dataclasses import dataclass

from vmctl.card import Unknown
from vmctl.gpus import cards
from vmctl.gpus.cards import Card
from vmctl.gpus.driver.answers import GPUFigures, Untold, VGPUFigures
from vmctl.gpus.driver.facts import DRIVER, Asked, asked
from vmctl.host import Host


@dataclass(frozen=True)
class CardFigures:
    """One card, the functions on which its vGPUs lie, and what runs on it. None: the driver does not say."""

    address: str
    functions: frozenset[str]
    gpu: GPUFigures | None = None
    vgpus: tuple[VGPUFigures, ...] | None = None
    unknown: tuple[Unknown, ...] = ()


def read(host: Host) -> tuple[CardFigures, ...]:
    """The figures of every card, by address; a card that another driver has, has none.

    Raises VmctlError only where the PCI bus cannot be listed.
    """
    found = cards.cards(host)
    if not any(card.driver == DRIVER for card in found):
        return tuple(_bare(card) for card in found)
    with asked(host, "usage") as driver:
        return tuple(_figures(card, driver) if card.driver == DRIVER else _bare(card) for card in found)


def _bare(card: Card) -> CardFigures:
    return CardFigures(card.address, frozenset(function.address for function in card.virtual))


def _figures(card: Card, driver: Asked) -> CardFigures:
    gpu = driver.ask(lambda source: source.figures(card.address))
    makes_vgpus = driver.ask(lambda source: source.vgpu_host(card.address))
    vgpus = driver.ask(lambda source: source.vgpus(card.address)) if makes_vgpus is not False else ()
    bare = _bare(card)
    return CardFigures(
        bare.address,
        bare.functions,
        None if isinstance(gpu, Untold) else gpu,
        None if isinstance(vgpus, Untold) else vgpus,
        tuple(
            Unknown(f"{what} {card.address}", answer.reason)
            for what, answer in (("figures of", gpu), ("vgpus of", vgpus))
            if isinstance(answer, Untold)
        ),
    )
