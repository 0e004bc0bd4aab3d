"""The machine as an argument: its files, its commands, its clock.

Everything below ``vmctl`` that touches a machine goes through one `Host`. Its root may be a folder, so a
captured or a simulated machine is handed in like any other; nothing asks which it has.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from vmctl import journal
from vmctl.commands import WRITER, Answer, Commands, TooSlow, changing, run_command
from vmctl.errors import Code, VmctlError
from vmctl.model import Attachment, MediatedDevice, NumaNode, PCIFunction

__all__ = ["TIME_ERROR", "Answer", "Commands", "Host", "NumaNode", "TooSlow", "kernel_clock", "run_command", "utc_now"]

NVML = Path(__file__).parent / "gpus" / "driver" / "nvml_child.py"
"""The script that asks NVML, in a process of its own: the library may hang, or end its process."""

STATE_DIR = Path("/var/lib/tessera/state")
"""Where vmctl keeps what it must remember, unless it is told another place."""

LEAST_SECONDS = 1.0
"""What a command may take even when the deadline is over."""

SAID = 400
"""So many characters of what a tool of the driver said go into the journal."""


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
    journal of kernel writes among it). `write_limit` is the longest a kernel write may take, in seconds; `deadline`
    when all commands and writes should be over, by the monotonic clock.
    """

    name: str
    root: Path = Path("/")
    state_dir: Path = STATE_DIR
    commands: Commands = run_command
    clock: Callable[[], datetime] = utc_now
    clock_state: Callable[[], int | None] = kernel_clock
    write_limit: float = 10.0
    deadline: float | None = None

    @property
    def simulated(self) -> bool:
        """Only for the report, so that nobody takes a simulated share for a real one."""
        return False

    def now(self) -> datetime:
        return self.clock()

    def by(self, deadline: float) -> Self:
        """The same host for work that should be over at a time of the monotonic clock."""
        return replace(self, deadline=deadline)

    def left(self, seconds: float) -> float:
        """So many seconds, or those until the deadline; a little is always left, to undo what was begun."""
        return seconds if self.deadline is None else min(seconds, max(LEAST_SECONDS, self.deadline - time.monotonic()))

    def ensure_live(self) -> None:
        """Raises VmctlError where only a copy of the machine's files is at hand.

        To be called before anything is asked that this process would otherwise ask of its own machine.
        """

    # -- files

    def path(self, name: str) -> Path:
        """Where an absolute path of this machine lies."""
        return self.root / name.lstrip("/")

    def pci(self, address: str) -> Path:
        return self.path(f"/sys/bus/pci/devices/{address}")

    def read(self, path: Path | str) -> str:
        """The text of a file without its last line break. Raises OSError; undecodable bytes are replaced."""
        # Without a buffer: one look at a host reads more than a thousand small files.
        with open(path, "rb", buffering=0) as file:
            return file.readall().decode(errors="replace").rstrip("\n")

    def read_or_none(self, path: Path | str) -> str | None:
        """The same, None when it is absent or cannot be read."""
        try:
            return self.read(path)
        except OSError:
            return None

    def start_of(self, path: Path, count: int) -> bytes:
        """The first bytes of a file that is no text; none when it is absent or cannot be read."""
        try:
            with open(path, "rb", buffering=0) as file:
                return file.read(count) or b""
        except OSError:
            return b""

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
            status = self.commands(command, limit=self.left(self.write_limit)).status
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

    def _journal(self, entry: journal.Entry) -> None:
        journal.note(self.state_dir, self.now(), entry)

    # -- commands

    def run(self, command: Sequence[str], *, limit: float = 10.0, given: str = "") -> Answer:
        """Run a command here for at most `limit` seconds. Raises VmctlError when it is missing or too slow."""
        return self.commands(command, limit=self.left(limit), given=given)

    def driver_tool(
        self, command: Sequence[str], *, limit: float, reading: Path | None = None, changes: bool
    ) -> Answer:
        """Run a tool of the GPU driver and journal it with what it said and what `reading` shows afterwards.

        Of one that only answered well no more than the length is kept: it is asked every few seconds. One that
        `changes` something is noted before, too, and not run when the journal cannot be written; it has its whole
        limit, whatever the deadline: cut off half-way it would leave a card without its driver. Raises VmctlError then,
        and when it is missing or too slow.
        """
        words = list(command)
        if changes:
            self._journal({"run": words})
        told: dict[str, object] = {"ran": words}
        try:
            with changing() if changes else nullcontext():
                answer = (replace(self, deadline=None) if changes else self).run(words, limit=limit)
            told["outcome"] = answer.status
            if changes or answer.status:
                told |= {"said": answer.output[:SAID], "errors": answer.errors[:SAID]}
            else:
                told["length"] = len(answer.output)
        except VmctlError as error:
            told["outcome"] = error.what
            raise
        finally:
            if reading is not None:
                told |= {"read": self._inside(reading), "found": self.peek(reading)}
            note = journal.note if changes else journal.note_if_possible
            note(self.state_dir, self.now(), told)
        return answer

    def nvml(self, limit: float, question: str = "facts") -> dict[str, object]:
        """What NVML tells of this machine's GPUs: their "facts" or their "usage".

        Raises VmctlError (could not tell) where it cannot be asked.
        """
        if self.root != Path("/") or not NVML.exists():
            raise _no_nvml("It is another machine's")
        answer = self.run([sys.executable, "-I", str(NVML), question], limit=limit)
        if answer.status:
            raise _no_nvml(answer.errors.strip().rpartition("\n")[2] or f"Its script ended with {answer.status}")
        try:
            told = json.loads(answer.output)
        except ValueError as error:
            raise _no_nvml(f"Its script printed no JSON ({error})") from error
        return dict(told)

    # -- parts

    def numa(self, node: int) -> NumaNode | None:
        """A NUMA node of this machine; None when it has no such node, or does not tell."""
        folder = self.path(f"/sys/devices/system/node/node{node}")
        cpus = (self.read_or_none(folder / "cpulist") or "").strip()
        found = re.search(r"MemTotal:\s*(\d+) kB", self.read_or_none(folder / "meminfo") or "")
        return NumaNode(node, cpus, int(found[1]) // 1024) if cpus and found else None

    def numa_nodes(self) -> tuple[NumaNode, ...]:
        """Every NUMA node that has processors."""
        names = self.names(self.path("/sys/devices/system/node"))
        numbers = sorted(int(name[4:]) for name in names if re.fullmatch(r"node\d+", name))
        return tuple(node for node in map(self.numa, numbers) if node is not None)

    @property
    def gpus_lock(self) -> Path:
        """Held shared by whoever asks the driver about its cards, alone by whoever changes their modes.

        NVML holds a card while it is open, and a mode changes only on a card that nothing holds.
        """
        return self.state_dir / "gpus.lock"

    # -- devices

    def attachment(self, device: MediatedDevice | PCIFunction) -> Attachment:
        """What a machine gets for a share: here the device itself."""
        return device


def _no_nvml(why: str) -> VmctlError:
    return VmctlError(Code.COULD_NOT_TELL, f"NVML does not answer: {why.rstrip('.')}.", "Install nvidia-ml-py.")
