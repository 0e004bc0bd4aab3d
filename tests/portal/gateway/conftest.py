"""What tests of the gateway over SSH share."""

from __future__ import annotations

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
