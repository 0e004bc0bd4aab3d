"""Verbs over SSH against a real sshd: what goes over, what comes back, and the limits of every wait."""

import json
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
from portal.gateway import answers
from portal.gateway.ssh import line, talk
from portal.host_address import HostAddress
from tests.portal.gateway.conftest import error_of
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


def test_the_desired_state_goes_over_and_the_report_comes_back(server: Server, settings: Settings) -> None:
    settings.APPLY_TIMEOUT_SECONDS = 90
    server.answer(
        'print(json.dumps({"schema": 1, "asked": os.environ["SSH_ORIGINAL_COMMAND"], "got": json.load(sys.stdin)}))'
    )
    wish = {"generation": 7, "long": "x" * 5_000_000}
    assert gateway.apply(server.address(), wish) == {"schema": 1, "asked": "apply --limit 90", "got": wish}


def test_a_look_sends_nothing_and_names_its_limit(server: Server) -> None:
    server.answer(
        'print(json.dumps({"schema": 1, "asked": os.environ["SSH_ORIGINAL_COMMAND"], "in": sys.stdin.read()}))'
    )
    assert gateway.observe(server.address()) == {"schema": 1, "asked": "observe --limit 30", "in": ""}
    assert gateway.gpus(server.address())["asked"] == "gpus --limit 30"


def test_the_real_vmctl_answers_behind_its_guard(server: Server, tmp_path: Path) -> None:
    state = tmp_path / "state"
    words = f"{sys.executable} -m vmctl --simulate t4 --root {state}/root --state-dir {state} --host far serve apply"
    server.force("apply", f"cd {Path.cwd()} && PYTHONPATH={Path.cwd()} {words}")
    found = gateway.gpus(server.address())
    assert found["schema"] == 1
    assert found["gpus"]


def test_what_vmctl_says_about_an_error_arrives_as_it_is(server: Server) -> None:
    """Although it did not even read what it was sent."""
    error = {"code": "stale_generation", "what": "Old.", "remedy": "Look.", "retry": False}
    server.answer(f"print({json.dumps({'schema': 1, 'error': error})!r}); sys.exit(1)")
    for wish in ({}, {"long": "x" * 8_000_000}):
        assert error_of(lambda wish=wish: gateway.apply(server.address(), wish)).as_dict() == error  # type: ignore[misc]


def test_a_report_of_failed_steps_is_still_a_report(server: Server) -> None:
    server.answer('print(json.dumps({"schema": 1, "steps": []})); sys.exit(3)')
    assert gateway.apply(server.address(), {})["steps"] == []
    assert error_of(lambda: gateway.observe(server.address())).code == "failed"


def test_an_exit_without_a_document_is_a_sentence_with_the_last_word(server: Server) -> None:
    server.answer('print("first\\nthe last word", file=sys.stderr); sys.exit(2)')
    error = error_of(lambda: gateway.observe(server.address()))
    assert (error.code, error.what) == ("failed", "vmctl observe on far: it was given bad input. the last word")


def test_a_command_that_a_signal_ended_is_a_sentence(server: Server) -> None:
    server.answer("os.kill(os.getpid(), 9)")
    error = error_of(lambda: gateway.observe(server.address()))
    assert (error.code, error.retry) == ("failed", True)
    assert "ended by a signal" in error.what


@pytest.mark.parametrize("printed", ["", "Segmentation fault", "[]", '{"schema": 2}', '{"schema": 1'])
def test_garbage_is_refused(server: Server, printed: str) -> None:
    server.answer(f"print({printed!r})")
    error = error_of(lambda: gateway.observe(server.address()))
    assert error.code == "garbage"
    assert "observe on far" in error.what


def test_a_greeting_before_the_document_is_named(server: Server) -> None:
    server.answer('print("Welcome to Debian!\\n\\n" + json.dumps({"schema": 1}))')
    error = error_of(lambda: gateway.observe(server.address()))
    assert error.code == "garbage"
    assert "Welcome to Debian!" in error.what
    assert "forced command" in error.remedy


def test_an_answer_of_another_release_names_both(server: Server, settings: Settings) -> None:
    server.answer('print(json.dumps({"schema": 2, "vmctl": "9.9.9"}))')
    assert f"Portal {settings.VERSION}, vmctl 9.9.9" in error_of(lambda: gateway.observe(server.address())).remedy


@pytest.mark.field("C07")
def test_much_output_on_both_streams_arrives_whole(server: Server) -> None:
    server.answer(
        """
        part = "e" * 100_000
        for _ in range(100):
            sys.stderr.write(part)
            sys.stderr.flush()
        print(json.dumps({"schema": 1, "long": "y" * 10_485_760}))
        sys.stderr.write(part * 100)
        """
    )
    assert len(gateway.observe(server.address())["long"]) == 10_485_760


def test_too_much_is_garbage(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "LARGEST_ANSWER", 1_000_000)
    server.answer('print("y" * 50_000_000)')
    assert "more than 1000000 bytes" in error_of(lambda: gateway.observe(server.address())).what


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


@pytest.mark.field("G09")
@pytest.mark.parametrize(
    "word", ["a; touch /tmp/x", "$(id)", "`id`", "a\nb", "a" * 256, "-oProxyCommand=x", "--", "", "Ä"]
)
def test_words_that_could_mean_more_never_leave(server: Server, word: str) -> None:
    far: HostAddress = server.address()
    for words in ((word,), ("console", "--machine", word)):
        error = error_of(lambda words=words: gateway.command(far, *words))  # type: ignore[misc]
        assert error.code == "not_allowed"
