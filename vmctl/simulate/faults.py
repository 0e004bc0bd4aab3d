"""Faults of a simulated machine: writes and commands that are slow, fail, or say yes and do nothing.

They lie in a file below the root, so that they hold for every process that uses the machine.
"""

from __future__ import annotations

import fcntl
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FAULTS_FILE = ".faults.json"


@dataclass(frozen=True)
class Fault:
    """What goes wrong.

    `match`: a regular expression on the path of a write, as the machine sees it, or on a command line.
    `error`: the name of an errno, for a write. `delay`: seconds. `times`: how often; None: always. `effect`: whether
    the thing itself is done. `output` and `status`: what a command says instead of doing anything.
    """

    match: str
    error: str | None = None
    delay: float = 0.0
    times: int | None = None
    effect: bool = True
    output: str | None = None
    status: int = 0


def plant(root: Path, faults: Sequence[Mapping[str, Any]]) -> None:
    """Let these go wrong, instead of those that were planted before. Raises TypeError for an unknown key."""
    entries = [Fault(**fault) for fault in faults]
    _write(root, [entry.__dict__ for entry in entries])


def lose(root: Path, address: str) -> None:
    """Let a card fall off the bus: what is read from the card itself is ones, and its driver makes nothing on it.

    Its files stay, and so does what was made. Takes the place of what was planted before.
    """
    (root / "sys/bus/pci/devices" / address / "config").write_bytes(b"\xff" * 256)
    said = f"Unable to determine the device handle for GPU0: 0000{address.upper()}: GPU is lost."
    remedy = "  Reboot the system to recover this GPU\n"
    bus = re.escape(address.rpartition(":")[0])  # its functions are there, too
    plant(
        root,
        [
            {"match": rf"/{bus}:[^/]*/.*(create|current_vgpu_type)$", "error": "EIO"},
            {"match": r"\bnvidia-smi\b", "output": said + remedy, "status": 15},
        ],
    )


def clear(root: Path) -> None:
    """Let nothing go wrong any more."""
    (root / FAULTS_FILE).unlink(missing_ok=True)


def take(root: Path, subject: str) -> Fault | None:
    """The first fault that is meant for a path or a command line; one of its times is used up."""
    if not (root / FAULTS_FILE).exists():
        return None
    with (root / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        entries = _read(root)
        for entry in entries:
            fault = Fault(**entry)
            if fault.times != 0 and re.search(fault.match, subject):
                if fault.times is not None:
                    entry["times"] = fault.times - 1
                    _write(root, entries)
                return fault
    return None


def _read(root: Path) -> list[dict[str, Any]]:
    try:
        return list(json.loads((root / FAULTS_FILE).read_text()))
    except FileNotFoundError:
        return []


def _write(root: Path, entries: Sequence[Mapping[str, Any]]) -> None:
    draft = root / f"{FAULTS_FILE}.draft"
    draft.write_text(json.dumps([dict(entry) for entry in entries]))
    draft.replace(root / FAULTS_FILE)
