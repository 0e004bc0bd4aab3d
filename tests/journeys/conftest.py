"""A running portal for each module; demo data, short ticks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journeys.portal import Portal, drop_database, prepared, wait_until


@pytest.fixture(scope="module")
def portal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    folder = Path(tmp_path_factory.mktemp("portal"))
    running = prepared(folder)
    for name in ("web", "worker", "beat"):
        running.start(name)
    try:
        wait_until(running.ready, 60, f"the portal is ready; logs in {folder}")
        yield running
    finally:
        running.end()
        drop_database(running.settings["DATABASE_URL"], os.environ["DATABASE_URL"])
