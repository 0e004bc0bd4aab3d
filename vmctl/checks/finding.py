"""What a check says: one question, its answer, where it was read, what to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

HOST = "host"
"""The subject of a finding about the host as a whole; else it is a GPU's PCI address."""


class Status(StrEnum):
    """`unknown` is an honest answer (no right to read, no answer in time); it is never a pass."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True)
class Evidence:
    """A file or a command, and what it said."""

    source: str
    said: str


@dataclass(frozen=True)
class Verdict:
    """What a check makes of a question. `remedy` is a sentence that says exactly what to do; empty where nothing is."""

    status: Status
    evidence: tuple[Evidence, ...]
    remedy: str = ""


@dataclass(frozen=True)
class Finding:
    """An answer with its question (an id of table.py) and whom it is about."""

    id: str
    subject: str
    status: Status
    evidence: tuple[Evidence, ...]
    remedy: str = ""

    def to_json(self) -> dict[str, object]:
        """As it stands in `vmctl check --json`."""
        return {
            "id": self.id,
            "subject": self.subject,
            "status": self.status.value,
            "evidence": [{"source": each.source, "said": each.said} for each in self.evidence],
            "remedy": self.remedy,
        }


Said = tuple[str, str] | Evidence
"""A source and what it said, as checks write it."""


def passed(*evidence: Said) -> Verdict:
    return Verdict(Status.PASS, tuple(_all(evidence)))


def warned(remedy: str, *evidence: Said) -> Verdict:
    return Verdict(Status.WARN, tuple(_all(evidence)), remedy)


def failed(remedy: str, *evidence: Said) -> Verdict:
    return Verdict(Status.FAIL, tuple(_all(evidence)), remedy)


def unknown(remedy: str, *evidence: Said) -> Verdict:
    return Verdict(Status.UNKNOWN, tuple(_all(evidence)), remedy)


def not_applicable(*evidence: Said) -> Verdict:
    return Verdict(Status.NOT_APPLICABLE, tuple(_all(evidence)))


def _all(evidence: Iterable[Said]) -> Iterable[Evidence]:
    for each in evidence:
        yield each if isinstance(each, Evidence) else Evidence(*each)
