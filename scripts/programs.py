"""The portal's own long-running programs: web server, worker, beat."""

from __future__ import annotations

import http.client
import sys
from collections.abc import Callable
from pathlib import Path

from scripts.instance import CHECKOUT, Instance
from scripts.supervisor import Service

THREADS = 32  # a task only waits for a child process; a host that hangs holds one thread, and no other host waits


def web(instance: Instance, settings: dict[str, str], port: int) -> list[Service]:
    """What serves people (uvicorn), what does the work (worker) and what gives the beat."""
    schedule = instance.var / "celerybeat-schedule"
    return [
        of_python("uvicorn", uvicorn(port), settings, ready=lambda: serves(port)),
        of_python("worker", worker(instance.name), settings, ready=logged(instance, "worker", " ready.")),
        of_python("beat", beat(schedule), settings, ready=logged(instance, "beat", "beat: Starting")),
    ]


def uvicorn(port: int) -> list[str]:
    """The module and its words.  Measured: this protocol holds memory still when a browser stops reading; compression
    would undo that."""
    words = f"uvicorn portal.asgi:application --host 127.0.0.1 --port {port} --no-access-log"
    words += " --ws portal.consoles.protocol:Impatient --ws-per-message-deflate false --ws-max-size 1048576"
    words += " --ws-ping-interval 10 --ws-ping-timeout 10 --timeout-graceful-shutdown 5"
    return words.split()


def worker(name: str) -> list[str]:
    words = f"celery -A portal.celery worker --loglevel INFO --pool threads --concurrency {THREADS} -n {name}@%h"
    return words.split()


def beat(schedule: Path) -> list[str]:
    """`schedule` is where it remembers when it last did what."""
    words = "celery -A portal.celery beat --loglevel INFO --pidfile="
    return [*words.split(), "--schedule", str(schedule)]


def of_python(name: str, words: list[str], settings: dict[str, str], ready: Callable[[], bool]) -> Service:
    return Service(name=name, command=[sys.executable, "-m", *words], ready=ready, environ=settings, folder=CHECKOUT)


def serves(port: int) -> bool:
    """It answers, whatever it says about its health."""
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        line.request("GET", "/healthz")
        return line.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False
    finally:
        line.close()


def logged(instance: Instance, name: str, words: str) -> Callable[[], bool]:
    """Whether its log of this start has these words."""
    log = instance.logs / f"{name}.log"
    return lambda: words in log.read_text(errors="replace")
