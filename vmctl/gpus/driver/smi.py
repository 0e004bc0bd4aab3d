"""Asks nvidia-smi about the cards of a host: each list once, each within a limit, decided by exit status and label.

Its words change from release to release, so no word decides anything (field log A24): an exit status says that it
refused, a label that is not there says that it did not answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TypeVar

from vmctl.card import Mode, Scheduler
from vmctl.errors import VmctlError
from vmctl.gpus.driver import smi_cards, smi_tables
from vmctl.gpus.driver.answers import Active, GPUFigures, Instance, Profile, TypeFacts, Untold, VGPUFigures
from vmctl.gpus.driver.smi_labels import Section, gpus, parse
from vmctl.host import Answer, Host, TooSlow

T = TypeVar("T")

CALL_SECONDS = 6.0
LEAST_SECONDS = 0.5
NOT_FOUND = 6  # of a list that has nothing to show

# What its exit status means: NVML's own numbers (nvidia-smi's manual page).
STATUS = {
    2: "it does not know the question: its release is older or newer",
    3: "the card or its driver has no such thing",
    4: "vmctl's user may not ask that",
    6: "it found nothing to ask about",
    8: "a card has no power cable",
    9: "the driver is not loaded",
    10: "the kernel has trouble with a card's interrupts",
    12: "the driver's library is not there",
    13: "the driver's library does not know the question",
    14: "a card's InfoROM is damaged",
    15: "a card has fallen off the bus",
}


class Budget:
    """Seconds that several questions share."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        return self._end - time.monotonic()


class NvidiaSMI:
    """The source that every host with the driver has."""

    def __init__(self, host: Host, budget: Budget) -> None:
        self._host = host
        self._budget = budget
        self._answers: dict[str, Answer | Untold] = {}
        self._sections: dict[str, dict[str, Section]] = {}
        self._late: str | None = None

    # -- asking

    def _ask(self, words: str) -> Answer | Untold:
        if words not in self._answers:
            self._answers[words] = self._run(words)
        return self._answers[words]

    def _run(self, words: str) -> Answer | Untold:
        limit = min(CALL_SECONDS, self._budget.left)
        if self._late is not None or limit < LEAST_SECONDS:
            return Untold(self._late or "There was no time left to ask nvidia-smi.")
        try:
            return self._host.driver_tool(["nvidia-smi", *words.split()], limit=limit, changes=False)
        except TooSlow as error:
            self._late = error.what  # what holds it holds the next call, too
            return Untold(error.what)
        except VmctlError as error:
            return Untold(error.what)

    def _section(self, words: str, address: str) -> Section | Untold:
        answer = self._ask(words)
        if isinstance(answer, Untold):
            return answer
        if words not in self._sections:
            self._sections[words] = gpus(answer.output)
        found = self._sections[words].get(address)
        return found if found is not None else Untold(refusal(words, answer, f"does not tell of {address}"))

    def _read(self, words: str, address: str, read: Callable[[Section], T | Untold]) -> T | Untold:
        section = self._section(words, address)
        return section if isinstance(section, Untold) else read(section)

    # -- of a card

    @cached_property
    def driver(self) -> str | None:
        """The driver's release."""
        answer = self._ask("-q")
        return None if isinstance(answer, Untold) else parse(answer.output).get("Driver Version")

    def vgpu_host(self, address: str) -> bool | Untold:
        return self._read("-q", address, smi_cards.vgpu_host)

    def name(self, address: str) -> tuple[str | None, str | None] | Untold:
        return self._read("-q", address, lambda card: (card.get("GPU UUID"), card.get("Product Name")))

    def mig(self, address: str) -> Mode | Untold | None:
        return self._read("-q", address, lambda card: smi_cards.mode(card, "MIG Mode"))

    def ecc(self, address: str) -> Mode | Untold | None:
        return self._read("-q", address, lambda card: smi_cards.mode(card, "ECC Mode"))

    def mixed(self, address: str) -> bool | Untold | None:
        return self._read("-q", address, lambda card: smi_cards.mixed(card, self.driver))

    def scheduler(self, address: str) -> Scheduler | Untold | None:
        return self._read("vgpu -ss", address, smi_cards.scheduler)

    def figures(self, address: str) -> GPUFigures | Untold:
        return self._read("-q", address, smi_cards.figures)

    # -- of its vGPUs

    def vgpus(self, address: str) -> tuple[VGPUFigures, ...] | Untold:
        return self._read("vgpu -q", address, smi_cards.vgpus)

    def active(self, address: str) -> tuple[Active, ...] | Untold:
        found = self.vgpus(address)
        return found if isinstance(found, Untold) else tuple(each.active for each in found)

    def types(self, address: str, creatable: bool) -> Mapping[str, TypeFacts] | Untold:
        supported = self._read("vgpu -s -v", address, smi_cards.types)
        if isinstance(supported, Untold) or not creatable:
            return supported
        now = self._read("vgpu -c -v", address, smi_cards.types)
        if isinstance(now, Untold):
            return now
        # A type that is not in the second list has no place now.
        return {
            name: replace(kind, creatable=now[name].creatable if name in now else ())
            for name, kind in supported.items()
        }

    # -- MIG: its lists number the GPUs, so the number is looked up by UUID

    def _numbered(self, words: str, address: str, read: Callable[[str], Mapping[int, T] | None]) -> T | Untold | None:
        answer, number = self._ask(words), self._number(address)
        if isinstance(answer, Untold):
            return answer
        if isinstance(number, Untold):
            return number
        found = read(answer.output) if answer.status in (0, NOT_FOUND) else None
        if found is None:
            return Untold(refusal(words, answer, "prints a list that vmctl cannot read"))
        return found.get(number)

    def _number(self, address: str) -> int | Untold:
        listed, name = self._ask("-L"), self.name(address)
        if isinstance(listed, Untold):
            return listed
        if isinstance(name, Untold):
            return name
        numbers = [number for number, uuid in smi_tables.listed(listed.output).items() if uuid == name[0]]
        return numbers[0] if len(numbers) == 1 else Untold(refusal("-L", listed, f"does not list {address}"))

    def profiles(self, address: str) -> tuple[Profile, ...] | Untold:
        rows = self._numbered("mig -lgip", address, smi_tables.profiles)
        if isinstance(rows, Untold):
            return rows
        places = self._numbered("mig -lgipp", address, smi_tables.places)
        if isinstance(places, Untold):
            return places
        if not rows or not places or not all(row.id in places for row in rows):
            return Untold("nvidia-smi mig lists GPU instance profiles without their places.")
        return tuple(
            Profile(row.id, row.name, places[row.id][1], places[row.id][0], row.free, row.total, "+me" in row.name)
            for row in rows
        )

    def instances(self, address: str) -> tuple[Instance, ...] | Untold:
        found = self._numbered("mig -lgi", address, smi_tables.instances)
        return found if isinstance(found, Untold) else tuple(found or ())


def refusal(words: str, answer: Answer, otherwise: str) -> str:
    """Why a question has no answer: by exit status, with the first line that it said."""
    why = STATUS.get(answer.status, f"exit status {answer.status}") if answer.status else otherwise
    said = next((line.strip() for line in (answer.errors + answer.output).splitlines() if line.strip()), "")
    return f"nvidia-smi {words}: {why}" + (f" ({said[:200].rstrip('.')})." if said and answer.status else ".")
