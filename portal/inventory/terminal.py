"""Questions to whoever sits at the terminal of a management command."""

import sys
from collections.abc import Callable
from typing import Protocol


class _Writer(Protocol):
    def write(self, text: str, /) -> object: ...


def question(out: _Writer) -> Callable[[str], bool] | None:
    """Asks and waits for "yes"; None where nobody sits there, so that nothing ever waits for an answer."""
    if not sys.stdin.isatty():
        return None

    def ask(text: str) -> bool:
        out.write(f"{text} Type yes, or anything else to stop: ")
        return sys.stdin.readline().strip() == "yes"

    return ask
