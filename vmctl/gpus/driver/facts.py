"""Asks the driver what only it can tell of a card: NVML where its library answers, else nvidia-smi (dossier 5).

Both hold the cards while they look, so a look and a change of modes exclude each other by a lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from vmctl.card import Framework, Scheduler, Unknown
from vmctl.errors import VmctlError
from vmctl.gpus import cards
from vmctl.gpus.cards import Card
from vmctl.gpus.driver import lock
from vmctl.gpus.driver.answers import DriverFacts, Source, TypeFacts, Untold
from vmctl.gpus.driver.kernel_log import KernelLog
from vmctl.gpus.driver.nvml import NVML
from vmctl.gpus.driver.smi import Budget, NvidiaSMI
from vmctl.host import Host

T = TypeVar("T")

DRIVER = "nvidia"
TOTAL_SECONDS = 12.0
NVML_SECONDS = 5.0


def read(host: Host, *, locked: bool = False) -> Mapping[str, DriverFacts]:
    """The facts of every card that the driver drives, by address as sysfs writes it.

    Takes at most about 14 s. `locked`: the caller holds the lock of the cards' modes already. Raises VmctlError only
    where the PCI bus cannot be listed.
    """
    driven = [card for card in cards.cards(host) if card.driver == DRIVER]
    if not driven:
        return {}
    log = KernelLog(host)
    with asked(host, "facts", locked=locked) as driver:
        return {card.address: _Look(host, card, driver, log).facts() for card in driven}


@dataclass(frozen=True)
class Asked:
    """Who can be asked, the better one first; `why` nobody can."""

    sources: tuple[Source, ...] = ()
    why: str = ""

    def ask(self, question: Callable[[Source], T | Untold]) -> T | Untold:
        """The first answer, or why there is none."""
        reasons = [self.why] if self.why else []
        for source in self.sources:
            answer = question(source)
            if not isinstance(answer, Untold):
                return answer
            reasons.append(answer.reason)
        return Untold(" ".join(dict.fromkeys(reasons)))


@contextmanager
def asked(host: Host, question: str, *, locked: bool = False) -> Iterator[Asked]:
    """The driver, while nobody changes the modes of its cards; NVML is told beforehand what will be asked."""
    with ExitStack() as stack:
        busy = None if locked else _lock(host, stack)
        yield Asked(_sources(host, question)) if busy is None else Asked(why=busy)


def _lock(host: Host, stack: ExitStack) -> str | None:
    """Why the cards may not be looked at now; None: they may."""
    try:
        stack.enter_context(lock.looking(host))
    except VmctlError as error:
        return error.what
    return None


def _sources(host: Host, question: str) -> tuple[Source, ...]:
    smi = NvidiaSMI(host, Budget(TOTAL_SECONDS))
    try:
        return NVML(host.nvml(NVML_SECONDS, question)), smi
    except VmctlError:
        return (smi,)


class _Look:
    """One look at one card; what it could not tell is collected on the way."""

    def __init__(self, host: Host, card: Card, driver: Asked, log: KernelLog) -> None:
        self._host = host
        self._card = card
        self._driver = driver
        self._log = log
        self._gaps: list[Unknown] = []

    def facts(self) -> DriverFacts:
        found = self._named(DriverFacts())
        makes_vgpus = self._driver.ask(lambda source: source.vgpu_host(self._card.address))
        found = self._vgpus(found) if makes_vgpus is not False else replace(found, active=())
        if found.mig is not None and found.mig.current:
            found = self._instances(found)
        return replace(found, unknown=tuple(self._gaps))

    def _told(self, what: str, question: Callable[[Source], T | Untold], otherwise: T) -> T:
        answer = self._driver.ask(question)
        if not isinstance(answer, Untold):
            return answer
        self._gaps.append(Unknown(what, answer.reason))
        return otherwise

    def _named(self, found: DriverFacts) -> DriverFacts:
        address = self._card.address
        name = self._driver.ask(lambda source: source.name(address))
        uuid, model = (None, None) if isinstance(name, Untold) else name
        return replace(
            found,
            uuid=uuid,
            model=model,
            mig=self._told("mig", lambda source: source.mig(address), None),
            ecc=self._told("ecc", lambda source: source.ecc(address), None),
        )

    def _vgpus(self, found: DriverFacts) -> DriverFacts:
        address = self._card.address
        mixed = self._told("mixed", lambda source: source.mixed(address), None)
        placed = bool(mixed) and not (found.mig and found.mig.current)
        types: Mapping[str, TypeFacts] = {}
        if self._card.framework is not Framework.MDEV_PF:  # there the kernel tells all that types have
            types = self._told("types", lambda source: source.types(address, placed), types)
        return replace(
            found,
            mixed=mixed,
            scheduler=self._scheduler(),
            types=types,
            active=self._told("holders.licence", lambda source: source.active(address), None),
        )

    def _scheduler(self) -> Scheduler | None:
        answer = self._driver.ask(lambda source: source.scheduler(self._card.address))
        if not isinstance(answer, Untold):
            return answer
        # Drivers before 550 tell it nowhere but in the kernel's log, when they are loaded.
        logged = self._log.scheduler(self._card.address)
        if logged is None:
            self._gaps.append(Unknown("scheduler", answer.reason))
        return logged

    def _instances(self, found: DriverFacts) -> DriverFacts:
        address = self._card.address
        return replace(
            found,
            profiles=self._told("mig", lambda source: source.profiles(address), ()),
            instances=self._told("mig", lambda source: source.instances(address), None),
        )
