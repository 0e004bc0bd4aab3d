"""What the doctor finds in a lab, question by question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Findings:
    """The doctor's answers."""

    all: tuple[dict[str, Any], ...]

    def words(self, question: str, subject: str = "host") -> str:
        """The status of the one answer to a question about somebody, and all that is said in it."""
        (found,) = (each for each in self.all if (each["id"], each["subject"]) == (question, subject))
        evidence = (f"{each['source']}: {each['said']}" for each in found["evidence"])
        return "\n".join([found["status"], *evidence, found["remedy"]])

    def status(self, question: str, subject: str = "host") -> str:
        return self.words(question, subject).partition("\n")[0]
