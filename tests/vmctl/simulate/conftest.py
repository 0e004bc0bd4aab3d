"""Simulated machines in memory, one per layout that a test asks for."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vmctl.simulate import SimulatedHost, prepare

Make = Callable[[str], SimulatedHost]


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes a machine of a layout."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:

        def made(layout: str) -> SimulatedHost:
            root = Path(folder) / layout
            prepare(root, layout)
            return SimulatedHost(layout, root=root, state_dir=Path(folder) / f"{layout}-state", write_limit=0.2)

        yield made
