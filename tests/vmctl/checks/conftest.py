"""Hosts on a folder for the doctor to look at."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from vmctl.host import Answer, Host
from vmctl.kvm import WORKS
from vmctl.simulate import SimulatedHost, prepare
from vmctl.site import Site


@pytest.fixture
def bare(tmp_path: Path) -> Host:
    """A host whose file system is an empty folder and whose clock is right."""
    (tmp_path / "root").mkdir()
    return Host("bare", root=tmp_path / "root", state_dir=tmp_path / "state", clock_state=lambda: 0)


@pytest.fixture
def t4(tmp_path: Path) -> SimulatedHost:
    prepare(tmp_path / "t4", "t4")
    return SimulatedHost("t4", root=tmp_path / "t4", state_dir=tmp_path / "t4-state", clock_state=lambda: 0)


@pytest.fixture
def site(t4: SimulatedHost, tmp_path: Path) -> Site:
    """The T4 host, with libvirt's own in-process test driver behind it."""
    (tmp_path / "storage").mkdir()
    return Site(
        host=replace(
            t4, commands=lambda command, *, limit, given="": Answer(WORKS, "", "")
        ),  # a machine where KVM works
        libvirt_uri="test:///default",
        storage=tmp_path / "storage",
        images=tmp_path / "images",
        run_dir=tmp_path / "run",
        network="default",
    )
