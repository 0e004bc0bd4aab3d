"""The journal on the host: every write into the kernel, every call of the driver's tools, and what was read back."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from vmctl.errors import Code, VmctlError

LARGEST = 8 * 2**20
"""Bytes after which the journal begins anew; one old file is kept."""

Entry = Mapping[str, object]


def note(state_dir: Path, now: datetime, entry: Entry) -> None:
    """Add a line to `journal.jsonl`. Raises VmctlError (retry) when it cannot be written."""
    line = json.dumps({"at": now.isoformat(), **entry}) + "\n"
    try:
        state_dir.mkdir(parents=True, exist_ok=True)
        _append(state_dir / "journal.jsonl", line.encode())
    except OSError as error:
        # As an error of its own: a full disk must not look like a GPU without room.
        raise VmctlError(
            Code.FAILED,
            f"The journal in {state_dir} cannot be written: {error.strerror}.",
            "Free disk space, or let vmctl's user write there.",
            retry=True,
        ) from error


def note_if_possible(state_dir: Path, now: datetime, entry: Entry) -> None:
    """The same for what changed nothing: an ordinary user may look at a host without writing to its journal."""
    try:
        note(state_dir, now, entry)
    except VmctlError:
        pass


def _append(path: Path, line: bytes) -> None:
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # two that begin it anew at once would lose the old one
        here = os.fstat(file.fileno())
        if here.st_size < LARGEST or not _is(path, here):
            file.write(line)
            return
        os.replace(path, path.with_name(f"{path.name}.1"))
        with path.open("ab") as fresh:
            fresh.write(line)


def _is(path: Path, here: os.stat_result) -> bool:
    """Whether the path still names this file: another may have moved it away while we waited."""
    try:
        return os.path.samestat(path.stat(), here)
    except FileNotFoundError:
        return False
