"""The limits of every wait over SSH: commands that hang, hosts that freeze, connections that break, killed portals."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from pytest_django import Settings

from portal import gateway
from portal.gateway.ssh import line, talk
from tests.portal.gateway.conftest import error_of, is_alive, pid_in
from tests.portal.gateway.sshd import Server

# As on a host: vmctl's own guard of the limit, before a verb that never ends.
SERVE = """
    from vmctl import serve
    request = serve.parse(serve.Key.APPLY, os.environ["SSH_ORIGINAL_COMMAND"])
    def verb():
        open({note!r}, "w").write(str(os.getpid()))
        time.sleep(600)
        return 0
    from vmctl.errors import VmctlError
    try:
        sys.exit(serve.run(request, verb))
    except VmctlError as error:
        told = {{"code": error.code, "what": error.what, "remedy": error.remedy, "retry": error.retry}}
        print(json.dumps({{"schema": 1, "error": told}}))
        sys.exit(1)
"""


@pytest.mark.field("C07")
def test_past_its_limit_a_command_is_ended_on_the_host_and_says_so(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "LOOK_SECONDS", 2)
    server.answer(SERVE.format(note=str(tmp_path / "pid")))
    began = time.monotonic()
    error = error_of(lambda: gateway.observe(server.address()))
    assert time.monotonic() - began < 2 + talk.TELL_SECONDS
    assert (error.code, error.what) == ("timeout", "observe took longer than 2 s and was ended.")
    assert not is_alive(pid_in(tmp_path / "pid"))


@pytest.mark.field("C07")
def test_a_host_that_does_not_keep_the_limit_is_left(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its vmctl hangs in the kernel, or it has no guard: the caller is free in time all the same."""
    monkeypatch.setattr(gateway, "LOOK_SECONDS", 1)
    monkeypatch.setattr(talk, "TELL_SECONDS", 0.5)
    server.answer("time.sleep(600)")
    began = time.monotonic()
    error = error_of(lambda: gateway.observe(server.address()))
    assert time.monotonic() - began < 5
    assert (error.code, error.retry) == ("timeout", True)
    assert not any(is_alive(pid) for pid in server.sessions)


@pytest.mark.field("C07")
def test_a_host_that_takes_no_input_any_more_does_not_hold_its_caller(
    server: Server, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    """More is to be sent than all the buffers between us hold."""
    settings.APPLY_TIMEOUT_SECONDS = 1
    monkeypatch.setattr(talk, "TELL_SECONDS", 0.5)
    server.answer("time.sleep(600)")
    began = time.monotonic()
    assert error_of(lambda: gateway.apply(server.address(), {"long": "x" * 20_000_000})).code == "timeout"
    assert time.monotonic() - began < 6


@pytest.mark.field("C07")
@pytest.mark.parametrize("size", [0, 20_000_000])
def test_a_host_that_freezes_during_a_command_is_noticed_long_before_the_limit(
    server: Server, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Even while more is being sent to it than it can take."""
    monkeypatch.setattr(talk, "SILENCE_SECONDS", 1.0)
    monkeypatch.setattr(line, "PULSE_SECONDS", 0.2)
    server.answer(f'open({str(server.folder / "began")!r}, "w").write("1"); time.sleep(600)')
    address = server.address()
    freezing = threading.Thread(target=_freeze_once_begun, args=(server,))
    freezing.start()
    began = time.monotonic()
    try:
        error = error_of(lambda: gateway.apply(address, {"long": "x" * size}))
        assert time.monotonic() - began < 10
    finally:
        freezing.join()
        for pid in server.sessions:
            os.kill(pid, signal.SIGKILL)
    assert (error.code, error.retry) == ("silent", True)


def _freeze_once_begun(server: Server) -> None:
    pid_in(server.folder / "began")
    for pid in server.sessions:
        os.kill(pid, signal.SIGSTOP)


def test_a_long_command_with_nothing_to_say_is_waited_for(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: signs of life come although the command prints nothing."""
    monkeypatch.setattr(talk, "SILENCE_SECONDS", 1.0)
    monkeypatch.setattr(line, "PULSE_SECONDS", 0.2)
    server.answer('time.sleep(3); print(json.dumps({"schema": 1}))')
    assert gateway.observe(server.address()) == {"schema": 1}


def test_a_connection_that_breaks_during_a_command_is_told_at_once(server: Server) -> None:
    server.answer(f'open({str(server.folder / "began")!r}, "w").write("1"); time.sleep(600)')
    breaking = threading.Thread(target=_stop_once_begun, args=(server,))
    breaking.start()
    began = time.monotonic()
    error = error_of(lambda: gateway.observe(server.address()))
    breaking.join()
    assert time.monotonic() - began < 10
    assert (error.code, error.retry) == ("lost", True)


def _stop_once_begun(server: Server) -> None:
    pid_in(server.folder / "began")
    server.stop()


def test_a_child_that_lives_on_with_the_streams_open_is_not_waited_for(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(talk, "LEFTOVER_SECONDS", 0.3)
    server.answer(
        """
        import subprocess
        subprocess.Popen(["sleep", "20"])
        print(json.dumps({"schema": 1}), flush=True)
        """
    )
    began = time.monotonic()
    assert gateway.observe(server.address()) == {"schema": 1}
    assert time.monotonic() - began < 10


PORTAL = """
import django, os
os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings"
django.setup()
from portal import gateway
from portal.host_address import HostAddress, SSHAddress
gateway.LOOK_SECONDS = 3
gateway.observe(HostAddress("far", "ssh", ssh=SSHAddress({user!r}, "127.0.0.1", {port}, {key!r})))
"""


def test_a_command_of_the_portal_ends_quietly_with_a_connection_still_open(server: Server, tmp_path: Path) -> None:
    ssh = server.address().ssh
    assert ssh
    source = PORTAL.format(user=ssh.user, port=ssh.port, key=ssh.host_key)
    environ = os.environ | {"DEBUG": "1", "SSH_DIR": str(tmp_path / "ssh")}
    done = subprocess.run([sys.executable, "-c", source], env=environ, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.field("C07")
def test_a_worker_that_is_killed_leaves_nothing_on_the_host_past_the_limit(server: Server, tmp_path: Path) -> None:
    server.answer(SERVE.format(note=str(tmp_path / "pid")))
    ssh = server.address().ssh
    assert ssh
    source = PORTAL.format(user=ssh.user, port=ssh.port, key=ssh.host_key)
    environ = os.environ | {"DEBUG": "1", "SSH_DIR": str(tmp_path / "ssh")}
    worker = subprocess.Popen([sys.executable, "-c", source], env=environ)
    remote = pid_in(tmp_path / "pid")
    worker.kill()
    worker.wait()
    began = time.monotonic()
    while is_alive(remote) and time.monotonic() - began < 10:
        time.sleep(0.2)
    assert not is_alive(remote)
    assert time.monotonic() - began < 8
