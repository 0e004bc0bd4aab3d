"""What every way of sharing takes and answers with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from vmctl.card import ProvidedVGPU, Regime, Unknown
from vmctl.gpus import cards, facts
from vmctl.gpus.cards import Card
from vmctl.gpus.facts import DriverFacts
from vmctl.gpus.types import OfferedType
from vmctl.host import Host
from vmctl.ledger import Ledger, Made
from vmctl.model import WantedVGPU


class Survey:
    """One look at a host's cards; each source is asked once, and only when somebody wants it."""

    def __init__(self, host: Host) -> None:
        self.host = host

    @cached_property
    def cards(self) -> list[Card]:
        return cards.cards(self.host)

    @cached_property
    def facts(self) -> Mapping[str, DriverFacts]:
        return facts.read(self.host)

    @cached_property
    def ledger(self) -> Ledger:
        """Raises VmctlError where it cannot be read: then nobody can say whose a share is."""
        return Ledger(self.host.state_dir)

    def of(self, card: Card) -> DriverFacts:
        """What the driver tells of a card; empty where it tells nothing."""
        return self.facts.get(card.address, DriverFacts())

    def made_on(self, card: Card) -> Iterator[Made]:
        """What vmctl made on a card."""
        return (made for made in self.ledger if made.gpu == card.address)


@dataclass(frozen=True)
class Order:
    """A share that is to be made, and where that is written down first."""

    wanted: WantedVGPU
    machine: str
    ledger: Ledger

    def note(self, device: str, **more: Any) -> None:
        """Write down that the share is about to be made on a function."""
        wanted = self.wanted
        self.ledger.note(
            Made(
                wanted.uuid,
                self.machine,
                wanted.gpu,
                wanted.type,
                regime=str(wanted.regime),
                device=device,
                cell=wanted.cell,
                slot=wanted.slot,
                **({"handle": wanted.handle} | more),
            )
        )


@dataclass(frozen=True)
class Offer:
    """A type on one card, and how many more of it the driver says it takes now; None: it does not say."""

    kind: OfferedType
    room: int | None


@dataclass(frozen=True)
class Offers:
    """How a card can be cut now: what the driver offers, how many shares can exist, and what could not be read."""

    offers: tuple[Offer, ...] = ()
    handles: int = 0
    unknown: tuple[Unknown, ...] = ()


def provided(card: Card, uuid: str | None, kind: OfferedType, parent: str, made: Made | None) -> ProvidedVGPU:
    """A share that exists, seen from its card; where it lies is known from our own notes."""
    handle = next((function.number for function in card.virtual if function.address == parent), None)
    return ProvidedVGPU(
        uuid,
        card.address,
        kind.name,
        card.framework,
        parent,
        kind.size_group,
        handle,
        regime=Regime.EQUAL if made is None else Regime(made.regime),
        cell=None if made is None or made.regime == Regime.EQUAL else made.cell,
        slot=None if made is None or made.regime == Regime.EQUAL else made.slot,
    )
