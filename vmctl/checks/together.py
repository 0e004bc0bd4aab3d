"""Asks several at the same time, so that one that hangs costs its own answer and no other's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar, cast

from vmctl import limits
from vmctl.errors import Code, VmctlError

T = TypeVar("T")


def together(questions: Mapping[str, Callable[[], T]], seconds: float) -> dict[str, T | VmctlError]:
    """Every question's answer, or why there is none; after `seconds` those that have not answered are left behind.

    Raises what is no VmctlError, as soon as it comes: that is a bug.
    """
    found: dict[str, T | VmctlError] = {}
    for name, answer, error in limits.arriving(seconds, questions, (BaseException,)):
        if error is not None and not isinstance(error, VmctlError):
            raise error
        found[name] = cast(T, answer) if error is None else error
    return {name: found.get(name, _late(name, seconds)) for name in questions}


def _late(name: str, seconds: float) -> VmctlError:
    return VmctlError(
        Code.TIMEOUT, f"No answer about {name} in {seconds:g} s.", "Look at what it waits for, then check again."
    )
