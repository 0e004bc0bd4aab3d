"""The whole portal as its users meet it: web server, worker and beat on the services that the environment names."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from scripts import programs

CHECKOUT = Path(__file__).resolve().parents[2]
T = TypeVar("T")


@dataclass
class Portal:
    """Its own database and its own processes; libvirt, Redis and folders are those of the environment."""

    settings: dict[str, str]
    logs: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def port(self) -> int:
        return int(self.settings["PORT"])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environ(self) -> dict[str, str]:
        return dict(os.environ) | self.settings

    def manage(self, *words: str) -> str:
        """What a command of manage.py prints."""
        done = subprocess.run(
            [sys.executable, "manage.py", *words],
            check=True,
            cwd=CHECKOUT,
            env=self.environ,
            stdout=subprocess.PIPE,
            text=True,
            timeout=120,
        )
        return done.stdout

    def start(self, name: str) -> None:
        """Start `web`, `worker` or `beat`."""
        with (self.logs / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", *command(self, name)],
                cwd=CHECKOUT,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def end(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(5)

    def call(self, method: str, path: str, token: str, body: object = None) -> tuple[int, Any]:
        """One request to the API (or to a whole path): status and the document that came back."""
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=15)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        try:
            line.request(
                method,
                path if path.startswith("/") else f"/api/v1/{path}",
                None if body is None else json.dumps(body),
                headers,
            )
            answer = line.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            line.close()

    def ready(self) -> bool:
        """Database, Redis and a finished tick, as the portal itself sees them."""
        try:
            return self.call("GET", "/readyz", "none")[0] == 200
        except OSError:
            return False

    def token(self, user: str) -> str:
        return self.manage("api_token", user).strip().splitlines()[-1]

    def reservation(self, token: str, identity: str) -> dict[str, Any]:
        status, document = self.call("GET", f"reservations/{identity}", token)
        assert status == 200, document
        return dict(document)

    def wait_for_status(self, token: str, identity: str, wanted: str, seconds: float) -> dict[str, Any]:
        """The reservation once it has this status; fails at once when it can no longer get there."""

        def look() -> dict[str, Any] | None:
            found = self.reservation(token, identity)
            assert found["status"] not in {"failed", "missed"} - {wanted}, found
            return found if found["status"] == wanted else None

        return wait_until(look, seconds, f"reservation {identity} is {wanted}; log in {self.logs}")

    def machine_folder(self, machine: str) -> Path | None:
        """Where the machine's files lie, on whichever host."""
        return next(iter(Path(self.settings["STORAGE_DIR"]).glob(f"*/{machine}")), None)

    def serial(self, machine: str) -> str:
        folder = self.machine_folder(machine)
        log = folder / "serial.log" if folder else None
        return log.read_text(errors="replace") if log and log.exists() else ""

    def wait_for_serial(self, machine: str, words: str, seconds: float, *, last_line: bool = False) -> str:
        """The machine's serial log once it has these words (in its last line); a failure shows how far it came."""

        def look() -> str | None:
            log = self.serial(machine)
            place = log[log.rfind("\n") + 1 :] if last_line else log
            return log if words in place else None

        try:
            return wait_until(look, seconds, words)
        except AssertionError as late:
            raise AssertionError(f"{late}; the serial log ends in {self.serial(machine)[-600:]!r}") from None


def command(portal: Portal, name: str) -> list[str]:
    """The module and its words, as `make run` starts it."""
    if name == "web":
        return programs.uvicorn(portal.port)
    return programs.worker(uuid.uuid4().hex[:8]) if name == "worker" else programs.beat(portal.logs / "beat-schedule")


def wait_until(look: Callable[[], T | None], seconds: float, what: str) -> T:
    """The first answer that is not None (or False); a sentence when there is none in time."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        found = look()
        if found is not None and found is not False:
            return found
        time.sleep(0.2)
    raise AssertionError(f"not within {seconds:g} s: {what}")


def free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


def new_database(url: str) -> str:
    """Make an empty database beside the one that the URL names; its URL."""
    name = f"journey_{uuid.uuid4().hex[:8]}"
    subprocess.run(["psql", "-Xqc", f"create database {name}", url], check=True, timeout=30)
    address, mark, options = url.partition("?")
    return f"{address.rpartition('/')[0]}/{name}{mark}{options}"


def drop_database(url: str, beside: str) -> None:
    name = urlsplit(url).path.lstrip("/")
    subprocess.run(["psql", "-Xqc", f"drop database {name} with (force)", beside], check=True, timeout=30)


def settings_of(folder: Path, **more: str) -> dict[str, str]:
    """Of a portal with an empty database.  Ticks and slots are short, so that a test need not wait."""
    port = free_port()
    return {
        "PORT": str(port),
        "DEBUG": "0",
        "SECRET_KEY": uuid.uuid4().hex * 2,
        "DATABASE_URL": new_database(os.environ["DATABASE_URL"]),
        "PUBLIC_ORIGINS": f"http://127.0.0.1:{port}",
        "VAR_DIR": str(folder),
        "STORAGE_DIR": os.environ["STORAGE_DIR"],
        "SLOT_MINUTES": "1",
        "TICK_SECONDS": "2",
        "STOP_GRACE_SECONDS": "20",
    } | more


def prepared(folder: Path, **settings: str) -> Portal:
    """Migrated, with demo data; nothing runs yet."""
    portal = Portal(settings_of(folder, **settings), folder)
    portal.manage("migrate", "--no-input", "-v0")
    portal.manage("demo_data")
    return portal
