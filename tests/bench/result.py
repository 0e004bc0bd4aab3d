"""What a benchmark says."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Result:
    """A value beside a reference measured in the same run.  `aim` is the ratio (value / reference) that is promised;
    `ok` whether it was kept: a ratio carries over to another machine, a figure does not."""

    bench: str
    value: float
    unit: str
    reference: float
    reference_name: str
    aim: str
    ok: bool

    @property
    def ratio(self) -> float:
        return self.value / self.reference

    def line(self) -> str:
        facts = asdict(self) | {"value": round(self.value, 3), "reference": round(self.reference, 3)}
        return json.dumps(facts | {"ratio": round(self.ratio, 3)})


def at_most(bench: str, value: float, unit: str, reference: float, reference_name: str, ratio: float) -> Result:
    """Less is better: a time."""
    return Result(bench, value, unit, reference, reference_name, f"<= {ratio:g}", value <= ratio * reference)


def at_least(bench: str, value: float, unit: str, reference: float, reference_name: str, ratio: float) -> Result:
    """More is better: a rate."""
    return Result(bench, value, unit, reference, reference_name, f">= {ratio:g}", value >= ratio * reference)


def milliseconds(deed: Callable[[], object], rounds: int = 20) -> float:
    """The median."""
    spans = []
    for _ in range(rounds):
        began = time.monotonic()
        deed()
        spans.append(time.monotonic() - began)
    return statistics.median(spans) * 1000
