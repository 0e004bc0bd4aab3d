"""Calls that may never come back, each with a limit.

A call that does not come back is left behind in a daemon thread; the short-lived process ends without it.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar, cast

K = TypeVar("K")
T = TypeVar("T")

Errors = tuple[type[BaseException], ...]


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
    return {key: cast(T, answer) for key, answer, error in arriving(seconds, calls, errors) if error is None}


def arriving(
    seconds: float, calls: Mapping[K, Callable[[], T]], errors: Errors
) -> Iterator[tuple[K, T | None, BaseException | None]]:
    """What comes of all calls at once in so many seconds, as it comes: an answer, or one of these errors."""
    answers = _begin(calls, errors)
    deadline = time.monotonic() + seconds
    for _ in calls:
        try:
            yield answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            return


def _begin(
    calls: Mapping[K, Callable[[], T]], errors: Errors
) -> queue.SimpleQueue[tuple[K, T | None, BaseException | None]]:
    answers: queue.SimpleQueue[tuple[K, T | None, BaseException | None]] = queue.SimpleQueue()

    def work(key: K, call: Callable[[], T]) -> None:
        try:
            answers.put((key, call(), None))
        except errors as error:
            answers.put((key, None, error))

    for key, call in calls.items():
        threading.Thread(target=work, args=(key, call), daemon=True).start()
    return answers
