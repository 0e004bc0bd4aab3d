"""What is said on the terminal: progress, and refusals with what to do about them."""

from __future__ import annotations

import sys
import time

BEGAN = time.monotonic()
silent = False


class Refusal(Exception):
    """It cannot go on; says what is wrong and what to do, in a sentence each."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}  {remedy}")


def say(line: str) -> None:
    """One line of progress, with the seconds since the start; standard output belongs to the command."""
    if not silent:
        print(f"[{time.monotonic() - BEGAN:5.1f} s] {line}", file=sys.stderr, flush=True)


def hush() -> None:
    """No more progress: the last line should be what the command said last."""
    global silent
    silent = True
