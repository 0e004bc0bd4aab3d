"""Simulated hosts for the tests of this folder, and plain hosts on a folder."""

from __future__ import annotations

import os
import shutil
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
def t4(tmp_path: Path) -> SimulatedHost:
    prepare(tmp_path / "t4", "t4")
    return SimulatedHost("t4", root=tmp_path / "t4", state_dir=tmp_path / "t4-state")


@pytest.fixture(scope="session")
def a40_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = tmp_path_factory.mktemp("a40") / "root"
    prepare(tree, "a40")
    return tree


@pytest.fixture
def a40(a40_tree: Path, tmp_path: Path) -> SimulatedHost:
    """Copied by hard links: the simulated kernel replaces files, it never writes into one."""
    shutil.copytree(a40_tree, tmp_path / "a40", symlinks=True, copy_function=os.link)
    return SimulatedHost("a40", root=tmp_path / "a40", state_dir=tmp_path / "a40-state")
