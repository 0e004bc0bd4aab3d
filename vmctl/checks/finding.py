"""What a check says: one fact, its verdict, where it was read, what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
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
class Finding:
    """One fact about the host. `remedy` is a sentence that says exactly what to do; empty where nothing is."""

    id: str
    verdict: Verdict
    evidence: tuple[Evidence, ...]
    remedy: str = ""

    def to_json(self) -> dict[str, object]:
        """As it stands in `vmctl check --json`."""
        return {
            "id": self.id,
            "verdict": self.verdict.value,
            "evidence": [{"source": each.source, "said": each.said} for each in self.evidence],
            "remedy": self.remedy,
        }
