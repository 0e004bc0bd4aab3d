"""nvidia-smi's indented lists (`Label : value`), read by label. Pure.

Where the values begin differs by driver, so do labels' capitals (`Gpu`, `GPU`) and how numbers are written (dossier
5.1). A label that is there twice with two values says nothing: somewhere a line is missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from vmctl.gpus.address import normalise

COLON = re.compile(r"\s+:(?:\s+|$)")
TITLE = re.compile(r"GPU (?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])")
ABSENT = frozenset({"n/a", "not supported", "none"})
"""How the driver says that a card has no such thing; any other odd text is no answer."""


@dataclass
class Section:
    """A line with the lines that belong to it."""

    label: str = ""
    value: str | None = None
    depth: int = -2
    lines: list[Section] = field(default_factory=list)

    @cached_property
    def _named(self) -> dict[str, list[Section]]:
        found: dict[str, list[Section]] = {}
        for line in self.lines:
            found.setdefault(line.label.casefold(), []).append(line)
        return found

    def all(self, label: str) -> list[Section]:
        """The lines with this label, whatever their capitals."""
        return self._named.get(label.casefold(), [])

    def get(self, *labels: str) -> str | None:
        """The value under a path of labels; None when it is not there, or there are several that differ."""
        found: list[Section] = [self]
        for label in labels:
            found = [line for section in found for line in section.all(label)]
        values = {line.value for line in found}
        return values.pop() if len(values) == 1 else None

    def walk(self) -> Iterator[Section]:
        """Every line below, in order."""
        for line in self.lines:
            yield line
            yield from line.walk()


@lru_cache(maxsize=8)
def parse(text: str) -> Section:
    """The whole text as a tree by indentation; a GPU's title begins anew, even where the indentation was lost.

    To be read only: who asks again about a text that was just parsed gets the same tree.
    """
    root = Section()
    open_sections = [root]
    for line in whole_lines(text):
        line = line.expandtabs().rstrip()
        words = line.lstrip(" ")
        if not words or words[0].isspace():
            continue
        label, *value = COLON.split(words, maxsplit=1)
        depth = -1 if TITLE.fullmatch(label) else len(line) - len(words)
        while open_sections[-1].depth >= depth:
            open_sections.pop()
        section = Section(" ".join(label.split()), "".join(value).strip() or None, depth)
        open_sections[-1].lines.append(section)
        open_sections.append(section)
    return root


def whole_lines(text: str) -> list[str]:
    """The lines of a text; a last one without its end was cut, and its number may be only half."""
    lines = text.split("\n")
    return [line.rstrip("\r") for line in lines[:-1]]


def gpus(text: str) -> dict[str, Section]:
    """The section of each GPU by address; one that is there twice, or says another address inside, is left out."""
    found: dict[str, Section] = {}
    doubtful = set()
    for section in parse(text).lines:
        title = TITLE.fullmatch(section.label)
        if title is None:
            continue
        address = normalise(title["address"])
        inside = {line.value for part in section.all("PCI") for line in part.all("Bus Id")}
        if address in found or inside - {title["address"], None}:
            doubtful.add(address)
        found[address] = section
    return {address: section for address, section in found.items() if address not in doubtful}


def bare(value: str | None) -> str | None:
    """A value without the brackets that some lists put around odd ones."""
    return None if value is None else value.strip().strip("[]").strip()


def absent(value: str | None) -> bool:
    """Whether the driver says that there is no such thing."""
    return (bare(value) or "").casefold() in ABSENT


def number(value: str | None, unit: str = "") -> int | None:
    """A whole number, decimal or with 0x hexadecimal, with exactly this unit behind it."""
    found = re.fullmatch(rf"(0[xX][0-9a-fA-F]+|\d+){re.escape(f' {unit}' if unit else '')}", value or "")
    return int(found[1], 16 if found[1][:2].lower() == "0x" else 10) if found else None


def amount(value: str | None, unit: str) -> float | None:
    """A number with a fraction and exactly this unit behind it."""
    found = re.fullmatch(rf"(\d+(?:\.\d+)?) {re.escape(unit)}", value or "")
    return float(found[1]) if found else None


def numbers(value: str | None) -> tuple[int, ...] | None:
    """A list of whole numbers between blanks; None where there is none, or one of them is none."""
    words = (value or "").split()
    return tuple(int(word) for word in words) if words and all(word.isdecimal() for word in words) else None
