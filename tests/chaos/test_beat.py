"""The beat itself: ticks come soon after every start, whatever zone and season the machine thinks it is in."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from portal.celery import app
from tests.chaos.portal import until

SUMMER_IN_NOVEMBER_AND_JULY = ("Pacific/Auckland", "Europe/Berlin")


@pytest.fixture
def beat(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    """`beat(zone)` starts one; all share a schedule file, as restarts do."""
    started: list[subprocess.Popen[bytes]] = []

    def start(zone: str) -> subprocess.Popen[bytes]:
        words = ["beat", "--pidfile=", "--schedule", str(tmp_path / "schedule")]
        environment = os.environ | {"TZ": zone, "TIME_ZONE": zone, "TICK_SECONDS": "2"}
        started.append(
            subprocess.Popen([sys.executable, "-m", "celery", "-A", "portal.celery", *words], env=environment)
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def waiting() -> int:
    """Messages that no worker has taken yet."""
    with app.connection_for_read() as connection:
        channel: Any = connection.default_channel
        return int(channel.client.llen("celery"))


@pytest.mark.field("E03")
@pytest.mark.parametrize("zone", SUMMER_IN_NOVEMBER_AND_JULY)
def test_after_a_restart_the_first_tick_comes_at_once(
    beat: Callable[[str], subprocess.Popen[bytes]], zone: str
) -> None:
    for _ in range(2):
        app.control.purge()
        process = beat(zone)
        until(lambda: waiting() >= 2, "ticks come", 30)
        process.terminate()
        process.wait(20)
    app.control.purge()


def test_what_beat_sends_is_worthless_after_one_tick() -> None:
    from django.conf import settings

    entry = app.conf.beat_schedule["tick"]
    assert entry["options"]["expires"] == entry["schedule"] == settings.TICK_SECONDS
