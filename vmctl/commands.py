"""Commands of a machine: each has a limit, none holds its caller."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from signal import SIGKILL
from typing import IO, Protocol

from vmctl.errors import Code, VmctlError

# Opens, writes once and tells the kernel's own error number as its exit status. It is a process of its own because a
# write into sysfs may never come back (a removal of a device in use sleeps in the kernel until its machine has gone),
# and then only the child is lost, not the caller.
WRITER = """
import os, sys
try:
    handle = os.open(sys.argv[1], os.O_WRONLY)
    os.write(handle, sys.argv[2].encode())
except OSError as error:
    sys.exit(error.errno)
"""


@dataclass(frozen=True)
class Answer:
    """What a command answered: exit status, standard output, standard error."""

    status: int
    output: str
    errors: str


class TooSlow(VmctlError):
    """A command gave no answer within its limit."""


class Missing(VmctlError):
    """A command is not there, at least not in this user's path."""


class Commands(Protocol):
    """The door for commands; tests hand in recorded answers."""

    def __call__(self, command: Sequence[str], *, limit: float, given: str = "") -> Answer: ...


_held: list[int] = []
_kept: ContextVar[tuple[int, ...]] = ContextVar("kept", default=())


@contextmanager
def holding(lock: int) -> Iterator[None]:
    """While this process holds a lock alone: its file descriptor is handed to whatever changes the machine."""
    _held.append(lock)
    try:
        yield
    finally:
        _held.remove(lock)


@contextmanager
def changing() -> Iterator[None]:
    """Commands in here change the machine, and keep the locks held now until they have ended.

    They live on when their caller is killed; who comes next would find the machine half changed. A caller that goes on
    gives its locks back by itself. A single write into the kernel is none of them: it may sleep until a machine has
    ended, and whoever is to end that machine needs the lock.
    """
    before = _kept.set(tuple(_held))
    try:
        yield
    finally:
        _kept.reset(before)


def run_command(command: Sequence[str], *, limit: float, given: str = "") -> Answer:
    """Run a command for at most `limit` seconds, in the C locale, in a session of its own.

    Output goes through files, not pipes: a grandchild that keeps a pipe open, or a child that not even SIGKILL ends
    (asleep in a driver), would hold the reader for ever. Raises Missing, TooSlow, or VmctlError.
    """
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        source.write(given.encode())
        source.seek(0)
        try:
            child = subprocess.Popen(
                command,
                stdin=source,
                stdout=out,
                stderr=err,
                start_new_session=True,
                env=_environment(),
                pass_fds=_kept.get(),
            )
        except FileNotFoundError as error:
            raise Missing(
                Code.COULD_NOT_TELL,
                f"The command {command[0]} is not there.",
                f"Install what provides {command[0]}.",
            ) from error
        except PermissionError as error:
            raise VmctlError(
                Code.COULD_NOT_TELL,
                f"The command {command[0]} may not be run.",
                f"Look at the rights of {command[0]}.",
            ) from error
        status = _wait(child, command, limit)
        return Answer(status, _content(out), _content(err))


def _environment() -> dict[str, str]:
    """Tools speak English, and those of administrators are found by anybody: they may lie outside a user's path."""
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    return os.environ | {"LC_ALL": "C", "LANGUAGE": "", "PATH": path}


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _wait(child: subprocess.Popen[bytes], command: Sequence[str], limit: float) -> int:
    try:
        return child.wait(limit)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, SIGKILL)
    except BaseException:
        # A signal to us is none to the child: whoever cleans up now would look before a change that still comes.
        with suppress(subprocess.TimeoutExpired):
            child.wait(limit)
        raise
    try:
        child.wait(1)
    except subprocess.TimeoutExpired:
        pass  # asleep in the kernel: it ends when the kernel lets it, nobody waits for it here
    raise TooSlow(
        Code.FAILED,
        f"{command[0]} gave no answer in {limit:g} s.",
        "Look at what holds it, then try again.",
        retry=True,
    )
