"""What is due while the portal is silent: pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from tests.vmctl.build import NOW, PORTAL, running
from vmctl.expire import due, silent
from vmctl.state import Memory

MEMORY = Memory(PORTAL, 1, NOW, stop_grace_seconds=60, expire_allowance_seconds=900)


def kinds(now: datetime, promised: float | None = None) -> list[str]:
    found = running("a", minutes=0)
    if promised is not None:
        found = replace(found, mark=replace(found.mark, promised=NOW + timedelta(seconds=promised)))
    return [step.kind for step in due(found, MEMORY, now)]


@pytest.mark.parametrize(("seconds", "expected"), [(899, False), (900, False), (901, True)])
def test_silence_is_longer_than_the_allowance(seconds: float, expected: bool) -> None:
    assert silent(MEMORY, NOW + timedelta(seconds=seconds)) is expected


@pytest.mark.parametrize(
    ("seconds", "promised", "expected"),
    [
        (-1, None, []),
        (0, None, ["ask_stop"]),
        (59, None, ["ask_stop"]),
        (60, None, ["force_stop"]),
        (60, 600, ["ask_stop"]),
        (600, 600, ["force_stop"]),
        (30, 0, ["ask_stop"]),
        (60, 0, ["force_stop"]),
    ],
)
def test_asked_at_the_end_and_forced_when_patience_and_promise_are_over(
    seconds: float, promised: float | None, expected: list[str]
) -> None:
    assert kinds(NOW + timedelta(seconds=seconds), promised) == expected
