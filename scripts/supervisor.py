"""Children of one process: started in order, started again when they die, ended in the opposite order."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from scripts.terminal import Refusal, say

PR_SET_PDEATHSIG = 1  # sys/prctl.h
BACK_OFF_SECONDS = (0.5, 1, 2, 5, 10, 30)
CALM_SECONDS = 60  # a child that lived so long begins again with the shortest wait
END_LIMIT_SECONDS = 15
libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Service:
    """A program to keep running, and how to see that it answers."""

    name: str
    command: list[str]
    ready: Callable[[], bool]
    user: str | None = None
    environ: dict[str, str] = field(default_factory=dict)
    folder: Path = Path("/")
    end_signal: signal.Signals = signal.SIGTERM
    ready_seconds: float = 60


class Child:
    """A service that was started: its process, and when it may be started again."""

    def __init__(self, service: Service, log: Path) -> None:
        self.service = service
        self.log = log
        self.deaths = 0
        self.again_at: float | None = None
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        """A session of its own: Ctrl-C in the terminal reaches us only, and we end children in order."""
        self.started = time.monotonic()
        with self.log.open("ab") as log:
            return subprocess.Popen(
                self.service.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.service.folder,
                env=dict(os.environ) | self.service.environ,
                user=self.service.user,
                group=self.service.user,
                extra_groups=[] if self.service.user else None,
                start_new_session=True,
                preexec_fn=die_with_parent(self.service.end_signal),
            )

    def tend(self) -> None:
        """Start it again if it died, after a wait that grows."""
        if self.again_at is not None:
            if time.monotonic() >= self.again_at:
                self.again_at = None
                self.process = self.start()
            return
        if self.process.poll() is None:
            return
        if time.monotonic() - self.started > CALM_SECONDS:
            self.deaths = 0
        wait = BACK_OFF_SECONDS[min(self.deaths, len(BACK_OFF_SECONDS) - 1)]
        self.deaths += 1
        self.again_at = time.monotonic() + wait
        say(f"{self.service.name} ended ({how(self.process.returncode)}); again in {wait:g} s. See {self.log}")

    def end(self) -> None:
        """Ask, wait, then kill the whole session."""
        if self.process.poll() is None:
            self.process.send_signal(self.service.end_signal)
            try:
                self.process.wait(END_LIMIT_SECONDS)
            except subprocess.TimeoutExpired:
                say(f"{self.service.name} does not end; killed.")
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


class Supervisor:
    """The children, in the order in which they were started."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.children: list[Child] = []
        self.asked_to_end = False

    def start(self, *services: Service) -> None:
        """Start them side by side and wait until all answer.  A child that dies before that is a refusal, with its
        last words."""
        self.logs.mkdir(mode=0o755, exist_ok=True)
        new = []
        for service in services:
            log = self.logs / f"{service.name}.log"
            if log.exists():
                log.replace(log.with_suffix(".log.1"))
            new.append(Child(service, log))
            self.children.append(new[-1])
        for child in new:
            self.await_answer(child)

    def await_answer(self, child: Child) -> None:
        service, where = child.service, f"More is in {child.log}."
        while not service.ready():
            if self.asked_to_end:
                raise KeyboardInterrupt
            if child.process.poll() is not None:
                end = how(child.process.returncode)
                raise Refusal(f"{service.name} did not start ({end}): {last_line(child.log)}", where)
            if time.monotonic() - child.started > service.ready_seconds:
                raise Refusal(f"{service.name} does not answer within {service.ready_seconds:g} s.", where)
            time.sleep(0.05)
        say(f"{service.name} answers")

    def tend(self) -> None:
        for child in self.children:
            child.tend()

    def end(self) -> None:
        """End all, the last started first."""
        while self.children:
            self.children[-1].end()
            self.children.pop()


def die_with_parent(with_signal: signal.Signals) -> Callable[[], None]:
    """For a child to call before it becomes its program: when we are killed, it gets its signal."""
    parent = os.getpid()

    def ask() -> None:
        libc.prctl(PR_SET_PDEATHSIG, int(with_signal), 0, 0, 0)
        if os.getppid() != parent:  # we died in between
            os._exit(1)

    return ask


def how(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"


def last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "nothing in its log"
