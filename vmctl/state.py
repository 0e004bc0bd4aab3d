"""What vmctl remembers about a host between its short lives: here the portal's last word, in ledger.py what it made.

Everything else is looked at afresh.  Files in the host's state folder, each replaced as a whole, so that a kill at any
moment leaves the old one or the new one.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from vmctl import commands
from vmctl.documents import parse_time
from vmctl.errors import Code, VmctlError
from vmctl.model import DesiredState

LOCK_SECONDS = 5.0
"""How long a second vmctl waits for the first before it says "busy"; an apply takes a few seconds."""


@dataclass(frozen=True)
class Memory:
    """The portal's last word: who it was, how new, when, and what holds while it is silent."""

    portal: str
    generation: int
    last_call: datetime
    stop_grace_seconds: int
    expire_allowance_seconds: int


def remember(state_dir: Path, memory: Memory) -> None:
    """Keep the portal's last word."""
    write_atomically(
        state_dir / "memory.json", json.dumps(asdict(memory) | {"last_call": memory.last_call.isoformat()})
    )


def recall(state_dir: Path) -> Memory | None:
    """The portal's last word; None when no portal ever called.  A damaged file is an error, not a None."""
    path = state_dir / "memory.json"
    try:
        fields = json.loads(path.read_text())
        called = parse_time(fields["last_call"])
        if called is None:
            raise ValueError("last_call is no time")
        return Memory(**(fields | {"last_call": called}))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, RecursionError, OSError) as error:
        raise damaged(path, error) from error


def check_call(memory: Memory | None, desired: DesiredState, host: str) -> None:
    """Refuse another host's document, another portal, and an order older than one already taken."""
    if desired.host != host:
        raise VmctlError(
            Code.BAD_INPUT,
            f"The desired state is for host {desired.host}; this is {host}.",
            "Send it to the right host.",
        )
    if memory is None:
        return
    if desired.portal != memory.portal:
        raise VmctlError(
            Code.WRONG_PORTAL,
            f"This host belongs to portal {memory.portal}; portal {desired.portal} may not change it.",
            "If the host was handed over, stop its machines and remove memory.json from vmctl's state folder.",
        )
    if desired.generation < memory.generation:
        raise VmctlError(
            Code.STALE_GENERATION,
            f"Generation {desired.generation} is older than {memory.generation}, which this host has already obeyed.",
            "Send the newest desired state; after a restored database raise the generation above that number.",
        )


def after_call(desired: DesiredState, now: datetime) -> Memory:
    """What to remember of a call."""
    return Memory(desired.portal, desired.generation, now, desired.stop_grace_seconds, desired.expire_allowance_seconds)


def damaged(path: Path, error: Exception) -> VmctlError:
    """The complaint about a file of ours that makes no sense, or that this user may not read."""
    if isinstance(error, PermissionError):
        what = f"vmctl's own file {path} may not be read by this user."
        return VmctlError(Code.COULD_NOT_TELL, what, "Run vmctl as root.")
    return VmctlError(
        Code.COULD_NOT_TELL,
        f"vmctl's own file {path} cannot be read: {error}.",
        "Restore it, or move it away once no machine of this host is running.",
    )


@contextmanager
def locked(path: Path, seconds: float = LOCK_SECONDS, shared: bool = False) -> Iterator[None]:
    """Be the only one, or (`shared`) one of several who all only look.

    The kernel gives the lock back when its holder ends, however it ends, and with it what it began to change
    (commands.changing). Raises VmctlError (`busy`) after `seconds`; OSError where this user may not open the file: to
    look it must only be readable.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    access, kind = (os.O_RDONLY, fcntl.LOCK_SH) if shared else (os.O_RDWR, fcntl.LOCK_EX)
    with open(os.open(path, access | os.O_CREAT | os.O_CLOEXEC, 0o644)) as file:
        deadline = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(file, kind | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise VmctlError(
                        Code.BUSY,
                        "Another vmctl, or a tool that it started, is at work on this host.",
                        "Try again in a few seconds.",
                        retry=True,
                    ) from error
                time.sleep(0.05)
        try:
            with nullcontext() if shared else commands.holding(file.fileno()):
                yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)  # also for a child that has it and does not come back


def write_atomically(path: Path, text: str, mode: int = 0o600) -> None:
    """Replace a file as a whole, on the disk before its name is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.new")
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except OSError as error:
        error.filename = str(path)  # a write to a full disk names none
        raise
