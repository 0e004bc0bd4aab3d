"""Runs vmctl as a child without Python's start each time: a process that has it loaded forks for every call.

A call can be told to kill itself, as `kill -9` would, at its n-th effect. Effects are changes of files, children
started, and calls that change libvirt; the last count twice, before and after.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from vmctl import cli
from vmctl.hypervisor import Hypervisor

EVENTS = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "subprocess.Popen"}
CALLS = ("start", "ask_stop", "force_stop", "set_mark", "define_filter")
ROOT = Path(__file__).parents[3]


def call(words: list[str], given: str, limit: float, kill_at: int | None = None) -> tuple[int, str, str]:
    """Exit status (negative: the signal that ended it), standard output and standard error. Raises TimeoutError."""
    with tempfile.TemporaryDirectory() as name, socket.socket(socket.AF_UNIX) as link:
        folder = Path(name)
        (folder / "given").write_text(given)
        order = {"words": words, "folder": name, "kill_at": kill_at, "environment": dict(os.environ)}
        link.settimeout(limit)
        link.connect(_server())
        link.sendall(json.dumps(order).encode() + b"\n")
        status = int(link.makefile().readline())
        return status, (folder / "printed").read_text(), (folder / "errors").read_text()


@cache
def _server() -> str:
    """Where the process that forks listens; it ends with this one."""
    path = str(Path(tempfile.mkdtemp(prefix="vmctl-forks-"), "socket"))
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.vmctl.real.forked", path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    )
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    atexit.register(server.kill)
    return path


class Fuse:
    """Burns down with every effect."""

    def __init__(self, left: int) -> None:
        self.left = left

    def burn(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def hear(self, event: str, _: object) -> None:
        if event in EVENTS:
            self.burn()

    def around(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def burning(*words: Any) -> Any:
            self.burn()
            answer = work(*words)
            self.burn()
            return answer

        return burning


def serve(path: str) -> dict[str, Any]:
    """Fork for every call; comes back only in the processes that carry one out, with what to do."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        print("ready", flush=True)
        while True:
            link, _ = listener.accept()
            if os.fork() == 0:
                break
            link.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with link:
        order: dict[str, Any] = json.loads(link.makefile().readline())
        child = os.fork()
        if child == 0:
            return order
        link.sendall(b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    os._exit(0)


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait for a call
    order = serve(sys.argv[1])
    folder = Path(order["folder"])
    for number, file in enumerate((folder / "given", folder / "printed", folder / "errors")):
        os.dup2(os.open(file, os.O_RDWR | os.O_CREAT, 0o600), number)
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.argv = ["vmctl", *order["words"]]
    if order["kill_at"] is not None:
        fuse = Fuse(order["kill_at"])
        for name in CALLS:
            setattr(Hypervisor, name, fuse.around(getattr(Hypervisor, name)))
        sys.addaudithook(fuse.hear)
    cli.main()


if __name__ == "__main__":
    main()
