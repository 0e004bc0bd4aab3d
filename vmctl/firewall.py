"""The host's firewall is one for all libvirtd of a kernel, and they do not wait for each other.

Seen with ebtables 1.8.9 (nf_tables) and two libvirtd: when both write rules at once, one rule of one start fails, and
libvirt undoes that start. So all vmctl of a kernel wait for each other here, and whoever else writes is met by trying
again.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from vmctl.errors import VmctlError
from vmctl.state import locked

REFUSED = "Failed to apply firewall rules"
"""How libvirt begins when that happened."""
TRIES = 4
PAUSE_SECONDS = 0.3
LOCK = Path("/run/lock/tessera-firewall")
WAIT_SECONDS = 10.0


@contextmanager
def alone(seconds: float) -> Iterator[None]:
    """Hold the lock, if it can be had in so many seconds: it only spares failures, so nobody waits for it for ever."""
    with ExitStack() as stack:
        with suppress(VmctlError, OSError):
            stack.enter_context(locked(LOCK, seconds))
        yield
