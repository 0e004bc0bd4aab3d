"""The machine as an argument: its files, its commands, its clock.

Everything below ``vmctl`` that touches a machine goes through one `Host`. Its root may be a folder, so a
captured or a simulated machine is handed in like any other; nothing asks which it has.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from signal import SIGKILL
from typing import IO, Protocol

from vmctl.errors import Code, VmctlError
from vmctl.model import Attachment, MediatedDevice, PCIFunction

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


class Commands(Protocol):
    """The door for commands; tests hand in recorded answers."""

    def __call__(self, command: Sequence[str], *, limit: float, given: str = "") -> Answer: ...


def run_command(command: Sequence[str], *, limit: float, given: str = "") -> Answer:
    """Run a command for at most `limit` seconds, in the C locale, in a session of its own.

    Output goes through files, not pipes: a grandchild that keeps a pipe open, or a child that not even SIGKILL ends
    (asleep in a driver), would hold the reader for ever. Raises VmctlError when it is missing, TooSlow when it is late.
    """
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        source.write(given.encode())
        source.seek(0)
        try:
            child = subprocess.Popen(
                command, stdin=source, stdout=out, stderr=err, start_new_session=True, env=_environment()
            )
        except FileNotFoundError as error:
            raise VmctlError(
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
    return os.environ | {"LC_ALL": "C", "LANGUAGE": ""}


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _wait(child: subprocess.Popen[bytes], command: Sequence[str], limit: float) -> int:
    try:
        return child.wait(limit)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, SIGKILL)
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


def utc_now() -> datetime:
    return datetime.now(UTC)


TIME_ERROR = 5  # adjtimex: nobody has set the clock for long


def kernel_clock() -> int | None:
    """The kernel's clock state by adjtimex(2), asked without changing anything; None when it does not answer."""
    timex = ctypes.create_string_buffer(512)  # modes, the first field, 0: only read
    state = ctypes.CDLL(None, use_errno=True).adjtimex(timex)
    return int(state) if state >= 0 else None


@dataclass(frozen=True)
class Host:
    """One hypervisor through its doors.

    `root` is where its file system begins; `state_dir` is where vmctl keeps what it must remember about it (the
    journal of kernel writes among it). `write_limit` is the longest a kernel write may take, in seconds.
    """

    name: str
    root: Path = Path("/")
    state_dir: Path = Path("/var/lib/tessera")
    commands: Commands = run_command
    clock: Callable[[], datetime] = utc_now
    clock_state: Callable[[], int | None] = kernel_clock
    write_limit: float = 10.0

    @property
    def simulated(self) -> bool:
        """Only for the report, so that nobody takes a simulated share for a real one."""
        return False

    def now(self) -> datetime:
        return self.clock()

    # -- files

    def path(self, name: str) -> Path:
        """Where an absolute path of this machine lies."""
        return self.root / name.lstrip("/")

    def pci(self, address: str) -> Path:
        return self.path(f"/sys/bus/pci/devices/{address}")

    def read(self, path: Path) -> str:
        """The text of a file without its last line break. Raises OSError; undecodable bytes are replaced."""
        return path.read_bytes().decode(errors="replace").rstrip("\n")

    def read_or_none(self, path: Path) -> str | None:
        """The same, None when it is absent or cannot be read."""
        try:
            return self.read(path)
        except OSError:
            return None

    def names(self, folder: Path) -> list[str]:
        """The entries of a folder, sorted; none when it is absent or cannot be read."""
        try:
            return sorted(os.listdir(folder))
        except OSError:
            return []

    def listed(self, folder: Path) -> list[str]:
        """The same where absence must be certain. Raises VmctlError when the folder is there and cannot be read."""
        try:
            return sorted(os.listdir(folder))
        except FileNotFoundError:
            return []
        except OSError as error:
            what = f"{self._inside(folder)} cannot be listed: {error.strerror}."
            raise VmctlError(Code.COULD_NOT_TELL, what, "Let vmctl's user read it.", retry=True) from error

    def link(self, path: Path) -> str | None:
        """The last part of where a symbolic link points to; None when it is no link."""
        try:
            return os.path.basename(os.readlink(path))
        except OSError:
            return None

    def peek(self, path: Path) -> str | None:
        """What is at a path now, for reading back: a link's target, a file's text, "directory", or None."""
        if path.is_symlink():
            return self.link(path)
        return "directory" if path.is_dir() else self.read_or_none(path)

    def write(self, path: Path, value: str, *, reading: Path) -> str | None:
        """Write a value to a kernel attribute, look at `reading`, journal both; returns what was read.

        Raises OSError with the kernel's own number, or VmctlError (retry) when the write does not come back.
        """
        self._journal({"write": self._inside(path), "value": value})
        outcome = "ok"
        try:
            self._store(path, value)
        except OSError as error:
            outcome = errno.errorcode.get(error.errno or 0, str(error))
            raise
        except VmctlError as error:
            outcome = error.what
            raise
        finally:
            found = self.peek(reading)
            self._journal(
                {
                    "wrote": self._inside(path),
                    "outcome": outcome,
                    "read": self._inside(reading),
                    "found": found,
                }
            )
        return found

    def _store(self, path: Path, value: str) -> None:
        command = [sys.executable, "-I", "-S", "-c", WRITER, str(path), value]
        try:
            status = self.commands(command, limit=self.write_limit).status
        except TooSlow as error:
            raise VmctlError(
                Code.BUSY,
                f"The kernel does not come back from a write to {self._inside(path)}.",
                "Find out what holds the device (fuser -v /dev/nvidia* /dev/vfio/*) and end that.",
                retry=True,
            ) from error
        if status:
            raise OSError(status, os.strerror(status), str(path))

    def _inside(self, path: Path) -> str:
        return f"/{path.relative_to(self.root)}"

    def _journal(self, entry: dict[str, str | None]) -> None:
        stamp: dict[str, str | None] = {"at": self.now().isoformat()}
        line = json.dumps(stamp | entry) + "\n"
        try:
            self.state_dir.mkdir(parents=True, exist_ok=True)
            with (self.state_dir / "journal.jsonl").open("a") as journal:
                journal.write(line)
        except OSError as error:
            # As an error of its own: a full disk must not look like a GPU without room.
            raise VmctlError(
                Code.FAILED,
                f"The journal in {self.state_dir} cannot be written: {error.strerror}.",
                "Free disk space, or let vmctl's user write there.",
                retry=True,
            ) from error

    # -- commands

    def run(self, command: Sequence[str], *, limit: float = 10.0, given: str = "") -> Answer:
        """Run a command here for at most `limit` seconds. Raises VmctlError when it is missing or too slow."""
        return self.commands(command, limit=limit, given=given)

    # -- devices

    def attachment(self, device: MediatedDevice | PCIFunction) -> Attachment:
        """What a machine gets for a share: here the device itself."""
        return device
