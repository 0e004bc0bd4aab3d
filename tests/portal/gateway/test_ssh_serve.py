"""From a management command to a recorded pass: the portal, a real sshd, the real `vmctl serve`, a real libvirtd."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from portal import clock
from portal.enforcement import tasks
from portal.enforcement.models import HostState
from portal.host_address import fingerprint
from portal.inventory.models import Host
from tests.portal.gateway.sshd import Server
from vmctl import __version__


@pytest.fixture
def far(server: Server, transactional_db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    """Behind the sshd is a host with simulated GPUs that calls itself gpu1; nobody wakes a worker."""
    monkeypatch.setattr(tasks, "soon", lambda host_id, asked: None)
    place = {name: tmp_path / name for name in ("state", "machines", "images", "run")}
    words = [sys.executable, "-m", "vmctl", "--host", "gpu1", "--libvirt-uri", settings.LIBVIRT_URI]
    words += ["--state-dir", str(place["state"]), "--storage-dir", str(place["machines"])]
    words += ["--images-dir", str(place["images"]), "--run-dir", str(place["run"])]
    words += ["--network", settings.GUEST_NETWORK, "--simulate", "t4", "--root", str(tmp_path / "root")]
    server.force("apply", shlex.join([*words, "serve", "apply"]))
    server.force("console", shlex.join([*words, "serve", "console"]))
    return server


def print_of(server: Server) -> str:
    return fingerprint(server.host_key)


def add(server: Server, name: str = "gpu1") -> Host:
    where = str(server.address().ssh)
    call_command("add_host", name, "--ssh", where, "--fingerprint", print_of(server), "--simulated-gpus")
    return Host.objects.get(name=name)


def called(host: Host) -> HostState:
    """What a pass over the host left behind."""
    tasks.enforce(host.pk, clock.now().isoformat())
    return HostState.objects.get(host=host)


def test_a_host_is_added_and_obeys(far: Server) -> None:
    host = add(far)
    assert [gpu.model for gpu in host.gpus.all()] == ["Tesla T4", "Tesla T4"]
    assert host.simulated
    state = called(host)
    assert state.last_error is None
    assert state.report is not None
    assert (state.report["host"], state.report["generation"], state.report["vmctl"]) == ("gpu1", 1, __version__)


def test_a_host_that_calls_itself_otherwise_is_not_added(far: Server) -> None:
    with pytest.raises(CommandError, match="calls itself gpu1"):
        add(far, "gpu2")
    assert not Host.objects.exists()


@pytest.mark.field("C06")
def test_another_host_key_stops_all_until_an_operator_has_compared_it(far: Server) -> None:
    host = add(far)
    assert called(host).last_error is None
    old = print_of(far)
    far.stop()
    far.new_host_key()
    far.start()
    error = called(host).last_error
    assert error is not None
    assert (error["code"], error["retry"]) == ("host_key", False)
    assert old in error["what"] + error["remedy"]
    assert print_of(far) in error["what"] + error["remedy"]
    call_command("change_host", "gpu1", "--fingerprint", print_of(far))
    assert called(host).last_error is None
