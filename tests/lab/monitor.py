"""QEMU's monitor: one question a connection, each with a limit."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

from tests.lab.errors import LabError

SECONDS = 10.0
SOCKET = "qmp.sock"


def ask(folder: Path, command: str, *, seconds: float = SECONDS, **arguments: object) -> Any:
    """What the QEMU of this folder returns for a command of its machine protocol; `_` in a name stands for `-`.

    Raises LabError where it refuses, does not run, or does not answer in so many seconds.
    """
    try:
        with _connected(folder, seconds) as line:
            lines = line.makefile("rw")
            json.loads(lines.readline())  # its greeting
            _call(lines, "qmp_capabilities", {})
            return _call(lines, command, {name.replace("_", "-"): value for name, value in arguments.items()})
    except (OSError, ValueError) as error:
        raise LabError(f"QEMU's monitor in {folder} does not answer {command}: {error}") from None


def human(folder: Path, words: str, *, seconds: float = SECONDS) -> str:
    """What it prints for a command of the monitor for people; for device_add: nothing, or LabError."""
    said = str(ask(folder, "human-monitor-command", seconds=seconds, command_line=words)).strip()
    if said.startswith("Error") or "rror:" in said:
        raise LabError(f"QEMU refuses {words.split(',')[0]!r}: {said}")
    return said


def _connected(folder: Path, seconds: float) -> socket.socket:
    """A socket's path may have 107 bytes; by an open folder every path is short."""
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    line = socket.socket(socket.AF_UNIX)
    line.settimeout(seconds)
    try:
        line.connect(f"/proc/self/fd/{handle}/{SOCKET}")
    except OSError:
        line.close()
        raise
    finally:
        os.close(handle)
    return line


def _call(lines: Any, command: str, arguments: dict[str, object]) -> Any:
    lines.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
    lines.flush()
    while True:
        said = lines.readline()
        if not said:
            raise LabError(f"QEMU closed its monitor during {command}.")
        answer = json.loads(said)
        if "return" in answer:
            return answer["return"]
        if "error" in answer:
            raise LabError(f"QEMU refuses {command}: {answer['error']['desc']}")
