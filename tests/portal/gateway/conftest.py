"""What tests of the gateway over SSH share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from portal.gateway import GatewayError
from portal.gateway.ssh.lines import LINES
from tests.portal.gateway import sshd
from tests.portal.gateway.sshd import Server


@pytest.fixture
def ssh_dir(tmp_path: Path, settings: Settings) -> Iterator[Path]:
    """A folder for the portal's keys; connections of a test end with it."""
    settings.SSH_DIR = tmp_path / "ssh"
    LINES.close()
    yield settings.SSH_DIR
    LINES.close()


@pytest.fixture
def server(tmp_path: Path, ssh_dir: Path) -> Iterator[Server]:
    """A running sshd that knows the portal's keys."""
    with sshd.running(tmp_path / "far") as made:
        yield made


def error_of(call: Callable[[], object]) -> GatewayError:
    """The error that this call ends with."""
    with pytest.raises(GatewayError) as caught:
        call()
    return caught.value


def is_alive(pid: int) -> bool:
    """Neither gone nor a zombie; a moment is given to end."""
    for _ in range(40):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return False
        if state == "Z":
            return False
        time.sleep(0.05)
    return True


def pid_in(note: Path) -> int:
    """The number that a remote command has written."""
    for _ in range(200):
        if note.exists() and note.read_text():
            return int(note.read_text())
        time.sleep(0.05)
    pytest.fail("The remote command did not begin.")
