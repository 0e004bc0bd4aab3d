"""nvidia-smi's boxes: MIG listings, and its list of cards. Pure.

Nothing is read from the boxes without a verb (`nvidia-smi`, `nvidia-smi vgpu`): they are for people, and cut names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from vmctl.gpus.driver.answers import Instance
from vmctl.gpus.driver.smi_labels import whole_lines

T = TypeVar("T")

LISTED = re.compile(r"GPU (\d+): .+ \(UUID: (GPU-[0-9a-f-]+)\)")
PROFILE = re.compile(r"\|\s*(\d+)\s+MIG (\S+)\s+(\d+)\s+(\d+)/(\d+)\s+\d+\.\d+\s.*\|")
PROFILE_MORE = re.compile(r"\|(\s+\d+)+\s*\|")
INSTANCE = re.compile(r"\|\s*(\d+)\s+MIG (\S+)\s+(\d+)\s+(\d+)\s+(\d+):(\d+)\s*\|")
PLACES = re.compile(r"GPU\s+(\d+)\s+Profile ID\s+(\d+)\s+Placements?\s*:\s*\{([\d,]+)\}:(\d+)")
NONE_THERE = "No GPU instances found"


@dataclass(frozen=True)
class ProfileRow:
    """A line of the list of MIG profiles."""

    id: int
    name: str
    free: int
    total: int


def listed(text: str) -> dict[int, str]:
    """`nvidia-smi -L`: the UUID of each GPU by number; MIG devices below a GPU are not listed here."""
    found = (LISTED.fullmatch(line) for line in whole_lines(text))
    return {int(each[1]): each[2] for each in found if each is not None}


# MIG, by the number of the GPU; None: the text is not such a list, or damaged ---------------------


def profiles(text: str) -> dict[int, list[ProfileRow]] | None:
    """`nvidia-smi mig -lgip`."""
    rows = _rows(text, PROFILE, PROFILE_MORE)
    return None if rows is None else _grouped((int(g), ProfileRow(int(i), n, int(f), int(t))) for g, n, i, f, t in rows)


def instances(text: str) -> dict[int, list[Instance]] | None:
    """`nvidia-smi mig -lgi`."""
    rows = _rows(text, INSTANCE)
    if rows is None:
        return {} if NONE_THERE in text else None
    return _grouped(
        (int(g), Instance(int(own), n, int(p), int(start), int(size))) for g, n, p, own, start, size in rows
    )


def places(text: str) -> dict[int, dict[int, tuple[tuple[int, ...], int]]]:
    """`nvidia-smi mig -lgipp`: the legal starts and the size of each profile id."""
    found: dict[int, dict[int, tuple[tuple[int, ...], int]]] = {}
    for line in whole_lines(text):
        match = PLACES.fullmatch(line.strip())
        if match is not None:
            starts = tuple(int(start) for start in match[3].split(",") if start)
            found.setdefault(int(match[1]), {})[int(match[2])] = (starts, int(match[4]))
    return found


def _rows(text: str, row: re.Pattern[str], more: re.Pattern[str] | None = None) -> list[tuple[str, ...]] | None:
    """The rows of a box below its head. Between any two there is a rule; else a line is missing, and so is the list."""
    lines = [line.strip() for line in whole_lines(text)]
    head = next((number for number, line in enumerate(lines) if re.fullmatch(r"\|=+\|", line)), None)
    if head is None:
        return None
    body = [line for line in lines[head + 1 :] if line]
    rows = []
    while body:
        found = row.fullmatch(body.pop(0))
        if found is None or (more is not None and not (body and more.fullmatch(body.pop(0)))):
            return None
        if not body or not re.fullmatch(r"\+-+\+", body.pop(0)):
            return None
        rows.append(found.groups())
    return rows


def _grouped(pairs: Iterable[tuple[int, T]]) -> dict[int, list[T]]:
    found: dict[int, list[T]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found
