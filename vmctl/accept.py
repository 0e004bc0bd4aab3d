"""Acceptance of an empty card: what vmctl says of it against what it does, round by round, and a guest that sees it.

Every round makes each type up to its limit and one more, which must be refused, and boots a small guest with one
share. Over all rounds each legal place is tried by itself. All of it bears notes and a mark: what a killed run leaves,
the next one (or the next apply) takes away.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from uuid import NAMESPACE_OID, uuid5

from vmctl import __version__, gpus, guest_trial, observe, state
from vmctl.answers.cards import gpu_json
from vmctl.card import GPU, Cell, ProvidedVGPU, Regime, Slot, Unknown, VGPUType
from vmctl.documents import SCHEMA, Json
from vmctl.errors import Code, VmctlError, bad_input
from vmctl.guest_trial import GuestTrial
from vmctl.hypervisor import Hypervisor, connect
from vmctl.ledger import Ledger
from vmctl.model import WantedVGPU
from vmctl.observation import Whose, acceptance_machine
from vmctl.plan.cards import users
from vmctl.redact import Redactor
from vmctl.site import Site

LOCK_SECONDS = 120.0
"""How long a round waits for an apply; an apply meets a round's lock at most as long as a round lasts."""
PAUSE_SECONDS = 0.2
"""Between two rounds, so that an apply which waits for the lock gets it: nobody stands in a queue for it."""


SERVICES = ("nvidia-persiste", "nvidia-vgpu-mgr", "nvidia-vgpud")
"""Of the driver itself, which may have a card open all the time; the kernel cuts names at 15 bytes."""


@dataclass(frozen=True)
class TypeTrial:
    """One type made up to its limit: what was said, what was made, and how the one more was refused."""

    type: str
    predicted: int | None
    created: int
    refusal: str | None  # of the first that was not made; None: even the one more was
    seconds: float
    trouble: str | None = None  # what is wrong whatever the numbers are
    cells: tuple[Cell, ...] = ()  # the places that were tried by themselves

    @property
    def problem(self) -> str | None:
        """What is wrong with it, in a sentence."""
        if self.trouble is not None:
            return f"{self.type} {self.trouble}"
        if self.predicted is None:
            return f"{self.type}: how many fit could not be told."
        if self.refusal is None:
            return f"{self.type}: {self.predicted} were predicted, and one more was made."
        if self.created != self.predicted:
            return f"{self.type}: {self.predicted} were predicted, {self.created} made: {self.refusal}"
        return None


@dataclass(frozen=True)
class Round:
    """One round over all types, and its guest."""

    number: int
    types: tuple[TypeTrial, ...]
    guest: GuestTrial

    @property
    def problems(self) -> Iterator[str]:
        """What is wrong, in sentences."""
        for problem in (*(trial.problem for trial in self.types), self.guest.problem):
            if problem is not None:
                yield f"Round {self.number}: {problem}"


def accept(site: Site, address: str, rounds: int, image: str, told: Callable[[str], None]) -> Json:
    """Try a card, and give the report without anything that tells of this place.

    Raises VmctlError: busy when somebody uses the card, and where it offers nothing. `told` hears of each round.
    """
    began = site.host.now()
    with connect(site.libvirt_uri) as hypervisor:
        bench = Bench(site, hypervisor, _normalised(address), image, rounds)
        with state.locked(site.lock, LOCK_SECONDS):
            bench.clear()
            before, whose = bench.empty_card()
            guest_trial.check_image(site, image, bench.machine)
        done = []
        for number in range(1, rounds + 1):
            with state.locked(site.lock, LOCK_SECONDS):
                done.append(bench.round(number))
            time.sleep(PAUSE_SECONDS)
            told(f"Round {number} of {rounds}: {' '.join(done[-1].problems) or 'as predicted.'}")
        after = bench.card()[0]
        version = hypervisor.version()
    times = (began.isoformat(), site.host.now().isoformat())
    return _report(site, version, times, gpu_json(before, whose), done, restored=after == before)


def _report(
    site: Site,
    libvirt: tuple[int, int, int],
    times: tuple[str, str],
    gpu: Json,
    rounds: Sequence[Round],
    *,
    restored: bool,
) -> Json:
    """The document, without what points to this place."""
    problems = [problem for each in rounds for problem in each.problems]
    if not restored:
        problems.append("The card is not as it was before: see vmctl gpus.")
    document: Json = {
        "schema": SCHEMA,
        "vmctl": __version__,
        "began_at": times[0],
        "ended_at": times[1],
        "simulated": site.host.simulated,
        "kernel": site.host.read_or_none(site.host.path("/proc/sys/kernel/osrelease")),
        "driver": site.host.read_or_none(site.host.path("/sys/module/nvidia/version")),
        "libvirt": ".".join(map(str, libvirt)),
        "gpu": gpu,
        "rounds": [_round_json(each) for each in rounds],
        "restored": restored,
        "problems": problems,
        "accepted": not problems,
    }
    return dict(Redactor().clean(document))


def _normalised(address: str) -> str:
    try:
        return gpus.normalise(address)
    except ValueError as error:
        raise bad_input(f"{error}.", "Give a GPU's address as vmctl gpus shows it.") from error


@dataclass
class Bench:
    """One card of a host, and the machine in whose name things are made on it."""

    site: Site
    hypervisor: Hypervisor
    address: str
    image: str
    rounds: int
    machine: str = field(init=False)

    def __post_init__(self) -> None:
        self.machine = acceptance_machine(self.site.host.name, self.address)

    def card(self) -> tuple[GPU, Whose]:
        """The card as it is now, and who has what on it. Raises VmctlError when it is not there."""
        cards, whose, unknown = observe.cards_and_claims(self.site)
        for gpu in cards:
            if gpu.address == self.address:
                return replace(gpu, unknown=(*gpu.unknown, *_blind(unknown))), whose
        raise bad_input(f"There is no GPU {self.address} on this host.", "Look at vmctl gpus.")

    def empty_card(self) -> tuple[GPU, Whose]:
        """The same where nobody uses it. Raises VmctlError that names who does."""
        gpu, whose = self.card()
        by = list(users(gpu, whose))
        by += [str(each) for each in gpus.having_open(self.site.host, gpu.address) if each.command not in SERVICES]
        if by:
            what = f"GPU {gpu.address} is in use: {'; '.join(by)}."
            raise VmctlError(Code.BUSY, what, "Accept a card while it is empty.", retry=True)
        if not any(kind.cells for kind in gpu.types):
            reasons = " ".join(gap.reason for gap in gpu.unknown if gap.what == "types") or gpu.reason
            raise VmctlError(
                Code.COULD_NOT_TELL, f"GPU {gpu.address} offers no vGPU types now. {reasons}", "Run vmctl check."
            )
        return gpu, whose

    def round(self, number: int) -> Round:
        """Every type up to its limit, then a guest with one share: of another type each round."""
        gpu, _ = self.empty_card()
        try:
            kinds = [kind for kind in gpu.types if kind.cells]
            tried = tuple(self._try(gpu, kind, number) for kind in kinds)
            kind = kinds[(number - 1) % len(kinds)]
            wanted = next(self._wanted(gpu, kind))
            guest = guest_trial.boot(self.site, self.hypervisor, wanted, self.machine, self.image)
        finally:
            self.clear()
        return Round(number, tried, guest)

    def _try(self, gpu: GPU, kind: VGPUType, number: int) -> TypeTrial:
        began, refusal = time.monotonic(), None
        made: list[ProvidedVGPU] = []
        wanted = self._wanted(gpu, kind)
        cells, troubles = self._try_cells(gpu, kind, number)
        predicted = kind.free
        while len(made) <= (kind.free or 0) and refusal is None:
            try:
                made.append(gpus.provide(self.site.host, next(wanted), self.machine))
            except VmctlError as error:
                refusal = error.what
                troubles += [] if error.code == Code.NO_CAPACITY else [f"failed, and was not refused: {error.what}"]
            if len(made) == 1 and refusal is None:
                predicted = self._more(kind.name)
        troubles += self._released(made)
        if predicted is not None and len(made) != predicted + 1 and len(made) == kind.free:
            troubles.append(f"had room for {predicted} more after the first, as vmctl said; {len(made) - 1} were made")
        seconds = round(time.monotonic() - began, 3)
        return TypeTrial(kind.name, kind.free, len(made), refusal, seconds, next(iter(troubles), None), cells)

    def _more(self, kind: str) -> int | None:
        """How many more of a type vmctl says the card takes now."""
        return next((each.free for each in self.card()[0].types if each.name == kind), 0)

    def _try_cells(self, gpu: GPU, kind: VGPUType, number: int) -> tuple[tuple[Cell, ...], list[str]]:
        """A round's part of the legal places, each by itself on the empty card, and where vmctl was wrong about it."""
        if kind.regime not in (Regime.MIXED, Regime.MIG):
            return (), []  # they have no place of their own
        cells, troubles = tuple(sorted(kind.cells)[number - 1 :: self.rounds]), []
        for cell in cells:
            uuid = str(uuid5(NAMESPACE_OID, f"{self.machine} {kind.name} at {cell}"))
            wanted = WantedVGPU(uuid, gpu.address, kind.name, kind.regime, cell, None, kind.slots[0])
            try:
                share = gpus.provide(self.site.host, wanted, self.machine)
            except VmctlError as error:
                if cell in kind.free_cells or error.code != Code.NO_CAPACITY:
                    troubles.append(f"at {list(cell)} was not made: {error.what}")
                continue
            troubles += self._released([share])
            if cell not in kind.free_cells:
                troubles.append(f"at {list(cell)} was made, though the place was not said to be free.")
        return cells, troubles

    def _released(self, made: Sequence[ProvidedVGPU]) -> list[str]:
        """Take shares away, the last one first; gives what went wrong."""
        troubles = []
        for share in reversed(made):
            try:
                gpus.release(self.site.host, share)
            except VmctlError as error:
                troubles.append(f"was not released: {error.what}")
        return troubles

    def _wanted(self, gpu: GPU, kind: VGPUType) -> Iterator[WantedVGPU]:
        """Shares of a type at one legal place after the other; then at places that are taken, or are none."""
        for number, (cell, slot) in enumerate(_places(kind)):
            uuid = str(uuid5(NAMESPACE_OID, f"{self.machine} {kind.name} {number}"))
            yield WantedVGPU(uuid, gpu.address, kind.name, kind.regime, cell, number, slot)

    def clear(self) -> None:
        """Take away whatever stands in this card's name. Raises VmctlError when something stays."""
        guest_trial.switch_off(self.hypervisor, self.machine)
        mine = {made.uuid for made in Ledger(self.site.host.state_dir) if made.machine == self.machine}
        for share in gpus.provided(self.site.host):
            if share.uuid in mine:
                gpus.release(self.site.host, share)
        ledger = Ledger(self.site.host.state_dir)
        for uuid in mine:
            ledger.cross_out(uuid)
        guest_trial.tidy(self.site, self.machine)


def _blind(unknown: Iterable[Unknown]) -> Iterator[Unknown]:
    """What could not be told of domains may hide one that claims the card."""
    return (Unknown(gpus.HOLDERS, gap.reason) for gap in unknown)


def _places(kind: VGPUType) -> Iterator[tuple[Cell, Slot]]:
    """Every place of a type that can be taken beside the ones before, then the first one again and again."""
    end = 0
    for cell in sorted(kind.cells):
        if cell[0] >= end:
            end = cell[1]
            yield from ((cell, slot) for slot in kind.slots)
    while True:
        yield kind.cells[0], kind.slots[0]


def _round_json(each: Round) -> Json:
    return {
        "number": each.number,
        "types": [
            {
                "type": trial.type,
                "predicted": trial.predicted,
                "created": trial.created,
                "refusal": trial.refusal,
                "cells": [list(cell) for cell in trial.cells],
                "seconds": trial.seconds,
                "problem": trial.problem,
            }
            for trial in each.types
        ],
        "guest": each.guest.to_json(),
    }
