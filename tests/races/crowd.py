"""Many at once: threads that start together, and what became of each."""

import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any, TypeVar
from urllib.parse import urlsplit

from django.db import connection

T = TypeVar("T")


def together(deeds: Sequence[Callable[[], T]]) -> list[T]:
    """Run all deeds at the same moment, a thread and a database connection each; the answers in their order."""
    start = threading.Barrier(len(deeds))

    def run(deed: Callable[[], T]) -> T:
        start.wait(timeout=60)
        try:
            return deed()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(deeds)) as crowd:
        return list(crowd.map(run, deeds))


@dataclass(frozen=True)
class Answer:
    """What one request got, and how long it took in seconds."""

    status: int
    body: dict[str, Any]
    seconds: float


def post(server: str, path: str, token: str, body: dict[str, Any]) -> Answer:
    """One request on a connection of its own, opened before the clock starts."""
    address = urlsplit(server)
    line = HTTPConnection(address.hostname or "", address.port, timeout=60)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    began = time.monotonic()
    line.request("POST", path, json.dumps(body), headers)
    answer = line.getresponse()
    text = answer.read()
    line.close()
    return Answer(answer.status, json.loads(text) if answer.status < 500 else {}, time.monotonic() - began)
