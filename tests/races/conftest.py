"""What races need: rows that are really committed, and a real server with its own processes."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from django.conf import settings
from django.db import connection

from portal import clock
from tests import make

START_SECONDS = 60


@pytest.fixture
def here(transactional_db: None) -> make.World:
    """The world, committed; its GPUs seen just now."""
    return make.world(clock.now())


@pytest.fixture
def server(here: make.World) -> Iterator[str]:
    """uvicorn with two worker processes on the tests' database; yields its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
    changes = {"DATABASE_URL": url, "PORT": str(port), "LOG_LEVEL": "ERROR", "SECRET_KEY": settings.SECRET_KEY}
    command = [sys.executable, "-m", "uvicorn", "portal.asgi:application", "--port", str(port), "--workers", "2"]
    with subprocess.Popen([*command, "--log-level", "warning"], env=os.environ | changes) as process:
        try:
            _wait(process, f"http://127.0.0.1:{port}")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(timeout=30)


def _wait(process: subprocess.Popen[bytes], address: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, "uvicorn did not start"
        try:
            urlopen(f"{address}/healthz", timeout=5).close()
            return
        except (URLError, TimeoutError):
            time.sleep(0.2)
    pytest.fail(f"uvicorn does not answer after {START_SECONDS} s")
