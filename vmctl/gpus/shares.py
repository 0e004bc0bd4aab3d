"""What every way of sharing takes and answers with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from vmctl.card import Framework, ProvidedVGPU, Regime, Unknown
from vmctl.errors import Code, VmctlError
from vmctl.gpus import cards, mdev_bus, processes
from vmctl.gpus.cards import Card, VirtualFunction
from vmctl.gpus.driver import facts
from vmctl.gpus.driver.answers import DriverFacts
from vmctl.gpus.types import OfferedType
from vmctl.host import Host
from vmctl.ledger import Ledger, Made
from vmctl.model import WantedVGPU

TRIES = 4
"""So many virtual functions of a card are tried for one share before another card's turn comes."""


class Survey:
    """One look at a host's cards; each source is asked once, and only when somebody wants it.

    `told`: what the driver told already; None: it is asked. `locked`: the caller holds the cards' lock.
    """

    def __init__(self, host: Host, told: Mapping[str, DriverFacts] | None = None, *, locked: bool = False) -> None:
        self.host = host
        self._told = told
        self._locked = locked

    @cached_property
    def cards(self) -> list[Card]:
        return cards.cards(self.host)

    @cached_property
    def facts(self) -> Mapping[str, DriverFacts]:
        return facts.read(self.host, locked=self._locked) if self._told is None else self._told

    @cached_property
    def ledger(self) -> Ledger:
        """Raises VmctlError where it cannot be read: then nobody can say whose a share is."""
        return Ledger(self.host.state_dir)

    @cached_property
    def users(self) -> processes.Holders:
        """Which processes have a device open, as far as this user can see."""
        return processes.everyone(self.host)

    @cached_property
    def mediated(self) -> list[mdev_bus.BusDevice]:
        """Every mediated device of the host. Raises VmctlError where that cannot be told."""
        return mdev_bus.devices(self.host)

    def of(self, card: Card) -> DriverFacts:
        """What the driver tells of a card; empty where it tells nothing."""
        return self.facts.get(card.address, DriverFacts())

    def regime(self, card: Card) -> Regime | None:
        """How the card is shared now; None where it cannot be."""
        if card.framework is Framework.NONE:
            return None
        if card.framework is Framework.PASSTHROUGH:
            return Regime.WHOLE
        if card.framework is Framework.SRIOV:
            return Regime.VF
        if card.framework is Framework.MDEV_PF:
            return Regime.EQUAL  # neither MIG nor mixed sizes without virtual functions (dossier 3.1)
        told = self.of(card)
        if told.mig is not None and told.mig.current:
            return Regime.MIG
        return Regime.MIXED if told.mixed else Regime.EQUAL

    def share(self, card: Card, uuid: str | None, kind: OfferedType, parent: str) -> ProvidedVGPU:
        """A share that was found; where our notes do not have it, it has the card's regime."""
        made = self.ledger.get(uuid)
        if made is not None:
            return provided(card, uuid, kind, parent, made)
        return provided(card, uuid, kind, parent, None, self.regime(card) or Regime.EQUAL)

    def driven(self, address: str) -> bool:
        """Whether a process drives a function that nobody noted. Raises VmctlError where that cannot be told."""
        if processes.function_nodes(self.host, address) & self.users.nodes:
            return True
        if self.users.whole or not cards.is_vfio(self.host.link(self.host.pci(address) / "driver")):
            return False
        what = f"Whether a machine has {address} cannot be told: not every process could be looked at."
        raise VmctlError(Code.COULD_NOT_TELL, what, "Run vmctl as root on the host itself.", retry=True)

    def made_on(self, card: Card) -> Iterator[Made]:
        """What vmctl made on a card."""
        return (made for made in self.ledger if made.gpu == card.address)


@dataclass(frozen=True)
class Making:
    """A share that is to be made, and where that is written down first."""

    wanted: WantedVGPU
    machine: str
    ledger: Ledger
    profile_id: int | None = None  # MIG: the profile of its GPU instance
    taken: frozenset[str] = frozenset()  # functions that domains name which are not ours

    @property
    def moved(self) -> bool:
        """Whether our notes have the share on another card, as another type, or at another place where they differ."""
        made, wanted = self.ledger.get(self.wanted.uuid), self.wanted
        if made is None:
            return False
        placed = wanted.regime in (Regime.MIXED, Regime.MIG)
        same = (made.gpu, made.type, made.regime) == (wanted.gpu, wanted.type, wanted.regime)
        return not same or (placed and made.cell != wanted.cell)

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
                profile_id=self.profile_id,
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
    handles: int | None = 0  # None: not told
    unknown: tuple[Unknown, ...] = ()


def together(rooms: Sequence[int | None]) -> int | None:
    """The room of all functions of a card. Where some do not tell, the others' is the least; nothing is no answer."""
    found = sum(room or 0 for room in rooms)
    return None if not found and None in rooms else found


def provided(
    card: Card, uuid: str | None, kind: OfferedType, parent: str, made: Made | None, regime: Regime = Regime.EQUAL
) -> ProvidedVGPU:
    """A share that exists, seen from its card; where it lies is known from our own notes."""
    regime = regime if made is None else Regime(made.regime)
    placed = made is not None and regime is not Regime.EQUAL  # equal shares have no place of their own
    return ProvidedVGPU(
        uuid,
        card.address,
        kind.name,
        card.framework,
        parent,
        kind.size_group,
        next((function.number for function in card.virtual if function.address == parent), None),
        regime=regime,
        cell=made.cell if made is not None and placed else None,
        slot=made.slot if made is not None and placed else None,
    )


def functions_for(
    card: Card, handle: int | None, taken: Collection[str], there: str | None = None
) -> list[VirtualFunction]:
    """The functions to try for a share, in turn: where it lies already, the one of its handle, then free ones.

    Handles are interchangeable: a function that somebody else took meanwhile must not keep a machine from starting.
    """
    free = [function for function in card.virtual if function.address == there or function.address not in taken]
    return sorted(free, key=lambda each: (each.address != there, each.number != handle))[:TRIES]


def first_that_takes(
    card: Card, functions: Collection[VirtualFunction], make: Callable[[VirtualFunction], ProvidedVGPU]
) -> ProvidedVGPU:
    """A share on the first function that takes it. Raises VmctlError: what the first said, or that there is none."""
    refusals = []
    for function in functions:
        try:
            return make(function)
        except VmctlError as error:
            if error.code not in (Code.NO_CAPACITY, Code.COULD_NOT_TELL):
                raise
            refusals.append(error)
    if refusals:
        raise next((each for each in refusals if each.code == Code.NO_CAPACITY), refusals[0])
    raise VmctlError(
        Code.NO_CAPACITY,
        f"GPU {card.address} has no free virtual function; it has {len(card.virtual)}.",
        "Free a share on it, or use another GPU.",
        retry=True,
    )
