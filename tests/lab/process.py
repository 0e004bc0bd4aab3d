"""The QEMU process of a lab's folder: at most one, known by a lock that it holds as long as it lives."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.lab import monitor
from tests.lab.errors import LabError

LOCK, LOG = "lock", "qemu.log"
STARTS = 20.0  # seconds until its monitor answers


def start(folder: Path, command: list[str], *, inherits: Sequence[int], lasting: bool) -> None:
    """Run QEMU in this folder. `inherits`: open files that it keeps open. `lasting`: it outlives this process; else a
    test run that is killed takes it along.

    Raises LabError where one runs there already, or it ends at once.
    """
    with _held(folder) as lock, (folder / LOG).open("ab") as log:
        (folder / monitor.SOCKET).unlink(missing_ok=True)
        process = subprocess.Popen(
            command if lasting else ["setpriv", "--pdeathsig", "KILL", *command],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            pass_fds=[lock, *inherits], start_new_session=True,
        )  # fmt: skip
        (folder / "pid").write_text(f"{process.pid}\n")
    try:
        _until_it_answers(folder, process)
    except LabError as error:
        kill(folder)
        said = (folder / LOG).read_text(errors="replace").strip().splitlines()[-3:]
        raise LabError(f"QEMU did not start: {' '.join(said) or error}") from None


def _until_it_answers(folder: Path, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + STARTS
    while process.poll() is None:
        try:
            monitor.ask(folder, "query-status", seconds=2.0)
            return
        except LabError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
    raise LabError(f"it ended with {process.returncode}")


@contextmanager
def _held(folder: Path) -> Iterator[int]:
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield handle
    except BlockingIOError:
        what = f"A lab runs in {folder} already (process {running(folder)})."
        raise LabError(f"{what} Stop it, or use another folder.") from None
    finally:
        os.close(handle)


def running(folder: Path) -> int | None:
    """The process that runs the lab of a folder; None where none does, whatever an old file says."""
    try:
        handle = os.open(folder / LOCK, os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return int((folder / "pid").read_text())
    finally:
        os.close(handle)
    return None


def kill(folder: Path, *, seconds: float = 20) -> None:
    """End it at once: its disk is thrown away, so there is nothing that it need finish. Raises LabError."""
    process = running(folder)
    if process is not None:
        os.kill(process, signal.SIGKILL)
    await_end(folder, seconds)


def stop(folder: Path) -> None:
    """End it; its disk goes, its logs stay, and its port is kept in mind. Raises LabError."""
    kill(folder)
    for name in ("disk.qcow2", "pid", monitor.SOCKET):
        (folder / name).unlink(missing_ok=True)


def await_end(folder: Path, seconds: float) -> None:
    """Until it has ended. Raises LabError."""
    end = time.monotonic() + seconds
    while (process := running(folder)) is not None:
        if time.monotonic() > end:
            raise LabError(f"Process {process} in {folder} does not end within {seconds:g} s.")
        time.sleep(0.02)


def free_port() -> int:
    """A port of this machine that nobody listens on now."""
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])
