"""The lock of a host's cards: shared by all who ask their driver, held by one alone who changes them.

Whoever looks holds the cards while the driver answers, and a mode changes, or a driver lets go, only of a card that
nobody holds (field log B10). So a change takes the lock first, looks then who else has the card, and writes last.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from vmctl import state
from vmctl.host import Host

LOOK_SECONDS = 2.0
CHANGE_SECONDS = 15.0
"""How long a change waits for those who only look; a look takes at most about 14 s."""


@contextmanager
def looking(host: Host, seconds: float | None = None) -> Iterator[None]:
    """While nobody changes the cards. Raises VmctlError (busy); an ordinary user looks without the lock."""
    with ExitStack() as stack:
        try:
            stack.enter_context(state.locked(host.gpus_lock, LOOK_SECONDS if seconds is None else seconds, shared=True))
        except OSError:
            pass  # the file is not this user's to open
        yield


@contextmanager
def alone(host: Host) -> Iterator[None]:
    """While nobody looks at the cards or changes them. Not to be taken twice. Raises VmctlError (busy)."""
    with state.locked(host.gpus_lock, host.left(CHANGE_SECONDS)):
        yield
