"""Processes that hold a device node of a simulated machine: real ones, and ones that only its /proc shows."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
from pathlib import Path


def hold(root: Path, node: str, *, process: int = 4242, command: str = "qemu-system-x86") -> None:
    """Let the machine's /proc show a process that has a node ("/dev/vfio/41", "/dev/nvidia0") open."""
    folder = root / f"proc/{process}"
    (folder / "fd").mkdir(parents=True, exist_ok=True)
    (folder / "comm").write_text(f"{command}\n")
    handle = 3
    while os.path.lexists(folder / f"fd/{handle}"):
        handle += 1
    (folder / f"fd/{handle}").symlink_to(f"/{node.lstrip('/')}")


def let_go(root: Path, *, process: int = 4242) -> None:
    """End that process."""
    shutil.rmtree(root / f"proc/{process}", ignore_errors=True)


def in_use(root: Path, node: str) -> bool:
    """Whether somebody has a node (relative to the root) open."""
    return _open_for_real(root / node) or _shown(root, f"/{node}")


def _open_for_real(path: Path) -> bool:
    """Nobody can take a lease on a file that others have open: one question instead of a look at all processes."""
    try:
        handle = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        # Whoever opens it just now waits for the lease; the signal for that would end this process if it were SIGIO.
        fcntl.fcntl(handle, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    finally:
        os.close(handle)
    return False


def _shown(root: Path, node: str) -> bool:
    for folder in (root / "proc").glob("[0-9]*/fd"):
        if any(os.path.islink(handle) and os.readlink(handle) == node for handle in folder.iterdir()):
            return True
    return False
