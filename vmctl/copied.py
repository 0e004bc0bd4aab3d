"""A host that is a plain folder: a copy of the parts of its /sys, /proc and /etc that vmctl reads, and what its
commands said. This is how an administrator sends us a host; scripts/collect_host makes such a folder.

Commands lie in `commands/`, one file for what one printed: its name is the command line, its words joined by blanks, in
each word `%`, `/` and blanks written `%25`, `%2F` and `%20`. Beside it may lie NAME.errors (standard error) and
NAME.status (the exit status, 0 when there is no such file; 124 when it gave no answer, 127 when it was not there).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from vmctl.commands import Answer, Missing, TooSlow
from vmctl.errors import Code, VmctlError
from vmctl.host import Host
from vmctl.model import Attachment, MediatedDevice, PCIFunction

COMMANDS = "commands"
BUS = "/sys/bus/pci/devices"
LATE, MISSING = 124, 127


@dataclass(frozen=True)
class CopiedHost(Host):
    """A host that can only be read. What is asked of the running machine ends with `could_not_tell`."""

    def ensure_live(self) -> None:
        raise VmctlError(
            Code.COULD_NOT_TELL,
            f"{self.root} is a copy of a host's files, not the running host.",
            "Run vmctl on the host itself.",
        )

    def listed(self, folder: Path) -> list[str]:
        """A machine without any PCI device has no GPU; a copy without any lacks that part."""
        names = super().listed(folder)
        if not names and folder == self.path(BUS):
            what = f"{self.root} holds no copy of a host: there is no {BUS} in it."
            raise VmctlError(Code.COULD_NOT_TELL, what, "Give --root with the folder that was unpacked.")
        return names

    @property
    def gpus_lock(self) -> Path:
        """Nobody changes a copy, and nothing is written into it: a lock that is always free."""
        return Path(os.devnull)

    def write(self, path: Path, value: str, *, reading: Path) -> NoReturn:
        raise _read_only(self.root)

    def run(self, command: Sequence[str], *, limit: float = 10.0, given: str = "") -> Answer:
        """What the command said when the copy was made. Raises VmctlError where that is not in it."""
        return recorded(self.root / COMMANDS, command)

    def driver_tool(
        self, command: Sequence[str], *, limit: float, reading: Path | None = None, changes: bool
    ) -> Answer:
        if changes:
            raise _read_only(self.root)
        return self.run(command, limit=limit)

    def attachment(self, device: MediatedDevice | PCIFunction) -> Attachment:
        raise _read_only(self.root)


def copied(name: str, root: Path, state_dir: Path) -> CopiedHost:
    """The host in a folder. Its clock is not to be had, and what vmctl remembered of it lies in the folder, too."""
    inside = root / str(state_dir).lstrip("/")
    return CopiedHost(name=name, root=root, state_dir=inside, clock_state=lambda: None)


def file_name(command: Sequence[str]) -> str:
    """The name of a command's file."""
    escaped = (word.replace("%", "%25").replace("/", "%2F").replace(" ", "%20") for word in command)
    return " ".join(escaped)


def recorded(folder: Path, command: Sequence[str]) -> Answer:
    """A command's answer from its files."""
    file = folder / file_name(command)
    try:
        output = file.read_bytes().decode(errors="replace")
    except OSError as error:
        raise VmctlError(
            Code.COULD_NOT_TELL,
            f"What {' '.join(command)} says was not collected.",
            f"Collect the host anew, or put it into {COMMANDS}/{file.name}.",
        ) from error
    status = _status(file)
    if status == MISSING:
        raise Missing(Code.COULD_NOT_TELL, f"The command {command[0]} was not there.", f"Install {command[0]}.")
    if status == LATE:
        raise TooSlow(Code.FAILED, f"{command[0]} gave no answer when it was collected.", "Look at what holds it.")
    return Answer(status, output, _text(file, "errors"))


def _status(file: Path) -> int:
    text = _text(file, "status").strip()
    return int(text) if text.isdecimal() else 0


def _text(file: Path, kind: str) -> str:
    try:
        return file.with_name(f"{file.name}.{kind}").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def _read_only(root: Path) -> VmctlError:
    return VmctlError(
        Code.FAILED, f"{root} is a copy of a host's files: nothing is changed there.", "Run vmctl on the host itself."
    )
