"""Calls that may never come back, each with a limit.

A call that does not come back is left behind in a daemon thread; the short-lived process ends without it.
"""

import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar, cast

K = TypeVar("K")
T = TypeVar("T")

Errors = tuple[type[Exception], ...]


def within(seconds: float, call: Callable[[], T], errors: Errors) -> T:
    """The call's answer, or one of these errors of its own, or TimeoutError."""
    answers = _begin({None: call}, errors)
    try:
        _, answer, error = answers.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError from None
    if error is not None:
        raise error
    return cast(T, answer)


def side_by_side(seconds: float, calls: Mapping[K, Callable[[], T]], errors: Errors) -> dict[K, T]:
    """The answers that came from all calls at once in so many seconds; one that failed or is late has none."""
    answers, found = _begin(calls, errors), {}
    deadline = time.monotonic() + seconds
    for _ in calls:
        try:
            key, answer, error = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        if error is None:
            found[key] = cast(T, answer)
    return found


def _begin(
    calls: Mapping[K, Callable[[], T]], errors: Errors
) -> queue.SimpleQueue[tuple[K, T | None, Exception | None]]:
    answers: queue.SimpleQueue[tuple[K, T | None, Exception | None]] = queue.SimpleQueue()

    def work(key: K, call: Callable[[], T]) -> None:
        try:
            answers.put((key, call(), None))
        except errors as error:
            answers.put((key, None, error))

    for key, call in calls.items():
        threading.Thread(target=work, args=(key, call), daemon=True).start()
    return answers
