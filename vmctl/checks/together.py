"""Asks several at the same time, so that one that hangs costs its own answer and no other's."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from vmctl.errors import Code, VmctlError

T = TypeVar("T")


def together(questions: Mapping[str, Callable[[], T]], seconds: float) -> dict[str, T | VmctlError]:
    """Every question's answer, or why there is none; after `seconds` those that have not answered are left behind.

    They are left in daemon threads: a process that is done does not wait for them.
    """
    answers: queue.SimpleQueue[tuple[str, T | VmctlError | BaseException]] = queue.SimpleQueue()

    def work(name: str, question: Callable[[], T]) -> None:
        try:
            answers.put((name, question()))
        except VmctlError as error:
            answers.put((name, error))
        except BaseException as bug:
            answers.put((name, bug))
            raise

    for name, question in questions.items():
        threading.Thread(target=work, args=(name, question), daemon=True).start()
    return _collected(answers, questions, time.monotonic() + seconds, seconds)


def _collected(
    answers: queue.SimpleQueue[tuple[str, T | VmctlError | BaseException]],
    questions: Mapping[str, Callable[[], T]],
    deadline: float,
    seconds: float,
) -> dict[str, T | VmctlError]:
    found: dict[str, T | VmctlError] = {}
    while len(found) < len(questions):
        try:
            name, answer = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        if isinstance(answer, BaseException) and not isinstance(answer, VmctlError):
            raise answer
        found[name] = answer
    return {name: found.get(name, _late(name, seconds)) for name in questions}


def _late(name: str, seconds: float) -> VmctlError:
    return VmctlError(
        Code.TIMEOUT, f"No answer about {name} in {seconds:g} s.", "Look at what it waits for, then check again."
    )
