"""Hosts on a folder for the doctor to look at."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vmctl.checks import hosts
from vmctl.host import Host


@pytest.fixture
def bare(tmp_path: Path) -> Host:
    """A host whose file system is an empty folder and whose clock is right."""
    (tmp_path / "root").mkdir()
    return Host("bare", root=tmp_path / "root", state_dir=tmp_path / "state", clock_state=lambda: 0)


@pytest.fixture
def good() -> Iterator[Host]:
    """A host with a T4 that every check passes, in memory as the kernel's own files are."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        (Path(folder) / "root").mkdir()
        yield hosts.good(Path(folder) / "root")
