"""Simulated hosts for the tests of this folder, and plain hosts on a folder."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from vmctl.host import Host
from vmctl.simulate import SimulatedHost, prepare


@pytest.fixture
def bare(tmp_path: Path) -> Host:
    """A host whose file system is an empty folder."""
    (tmp_path / "root").mkdir()
    return Host("bare", root=tmp_path / "root", state_dir=tmp_path / "state")


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory, as the kernel's own is; a tree of thousands of files takes seconds on a busy disk."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        yield Path(folder)


@pytest.fixture
def t4(memory: Path) -> SimulatedHost:
    prepare(memory / "t4", "t4")
    return SimulatedHost("t4", root=memory / "t4", state_dir=memory / "t4-state")


@pytest.fixture
def a40(memory: Path) -> SimulatedHost:
    prepare(memory / "a40", "a40")
    return SimulatedHost("a40", root=memory / "a40", state_dir=memory / "a40-state")
