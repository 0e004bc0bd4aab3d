"""What a portal's key may ask for over SSH, and what becomes of a verb that hangs or whose caller has gone."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from vmctl import serve
from vmctl.errors import VmctlError
from vmctl.serve import Key

ROOT = Path(serve.__file__).parents[1]
SCHEMA = json.loads((ROOT / "docs/schemas/error.schema.json").read_text())
VERBS = {"observe", "gpus", "types", "check", "plan", "apply", "usage"}
MACHINE = "d8f0880c-d11b-5ff5-8e4c-495f3d8e065d"
SCREEN = f"console --machine {MACHINE}"
GOOD = {Key.APPLY: [*sorted(VERBS), "apply --limit 600", "gpus --limit 1"], Key.CONSOLE: [SCREEN]}
NASTY = [
    "a; touch {file}",
    "gpus; touch {file}",
    "gpus $(touch {file})",
    "gpus `touch {file}`",
    "gpus\ntouch {file}",
    "gpus\n",
    "gpus | tee {file}",
    "gpus && touch {file}",
    "--root {file} --simulate t4 gpus",
    "gpus --state-dir {file}",
    "apply --file {file}",
    "accept --gpu 0000:01:00.0",
    "expire",
    "serve apply",
    "GPUS",
    " gpus",
    "gpus ",
    "gpus  --limit 5",
    "gpus --limit 0",
    "gpus --limit 601",
    "gpus --limit 5.0",
    "gpus --limit -5",
    "gpus --limit \u0665",
    "gpus --machine " + MACHINE,
    "console --machine " + MACHINE,
    "gpus" * 20_000,
]


@pytest.mark.parametrize("key", list(Key))
def test_each_key_has_its_own_verbs(key: Key) -> None:
    for asked in GOOD[key]:
        assert serve.parse(key, asked).verb == asked.split()[0]
    for other in Key:
        for asked in GOOD[other] if other is not key else ["", "sh", f"{SCREEN} --limit 9"]:
            with pytest.raises(VmctlError) as refusal:
                serve.parse(key, asked)
            assert (refusal.value.code, refusal.value.exit_code) == ("not_allowed", 2)


def test_a_limit_is_the_callers_and_a_screen_has_none() -> None:
    assert serve.parse(Key.APPLY, "apply").seconds == 120
    assert serve.parse(Key.APPLY, "apply --limit 35").seconds == 35
    assert serve.parse(Key.CONSOLE, SCREEN).seconds is None


words = st.sampled_from(
    [*VERBS, "console", "--limit", "--machine", "--json", "--file", MACHINE, "1", "600", "601", "-1"]
)
signs = st.sampled_from(list(" \t\n\r\0;|&$`'\"\\<>(){}*?~#!%-\u00a0\u2028\u0661")) | st.characters()
pieces = st.lists(words | signs | st.just(" "), max_size=12).map("".join)


@pytest.mark.field("G09")
@settings(max_examples=1000, deadline=None)
@given(key=st.sampled_from(list(Key)), asked=pieces | st.text(max_size=300))
@example(key=Key.APPLY, asked="gpus\n")
@example(key=Key.APPLY, asked="gpus\0")
@example(key=Key.APPLY, asked="gpus --limit \u0661")
def test_nothing_beyond_the_list_is_ever_started(key: Key, asked: str) -> None:
    """What is let through is, letter for letter, what stands here; all else starts nothing, as parsing comes first."""
    request = may(key, asked)
    if request is None:
        return
    if key is Key.CONSOLE:
        assert (request.verb, asked) == ("console", f"console --machine {request.words[-1]}")
        return
    assert request.verb in VERBS
    assert request.words == ("--json",)
    assert request.seconds is not None
    assert 1 <= request.seconds <= 600
    assert asked in (request.verb, f"{request.verb} --limit {request.seconds:g}")


def may(key: Key, asked: str) -> serve.Request | None:
    try:
        return serve.parse(key, asked)
    except VmctlError:
        return None


def place(tmp_path: Path) -> list[str]:
    uri = f"qemu+unix:///system?socket={tmp_path}/nowhere"
    simulated = ["--host", "sim-t4", "--simulate", "t4", "--root", tmp_path / "root", "--state-dir", tmp_path / "state"]
    return [sys.executable, "-m", "vmctl", "--libvirt-uri", uri, *map(str, simulated), "serve"]


def ask(tmp_path: Path, key: str, asked: str | None, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    environment = {name: value for name, value in os.environ.items() if name != serve.ASKED}
    if asked is not None:
        environment[serve.ASKED] = asked
    return subprocess.run(
        [*place(tmp_path), key], env=environment, input=given, capture_output=True, cwd=ROOT, timeout=60, check=False
    )


def test_a_verb_is_carried_out_and_its_status_handed_on(tmp_path: Path) -> None:
    done = ask(tmp_path, "apply", "gpus --limit 30")
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["host"] == "sim-t4"
    unreachable = ask(tmp_path, "apply", "observe")
    assert (unreachable.returncode, json.loads(unreachable.stdout)["error"]["code"]) == (3, "unreachable")
    damaged = ask(tmp_path, "apply", "apply", b"{")
    assert (damaged.returncode, json.loads(damaged.stdout)["error"]["code"]) == (2, "bad_input")


@pytest.mark.field("G09")
@pytest.mark.parametrize("asked", NASTY)
def test_a_string_beyond_the_list_is_refused_with_a_document(tmp_path: Path, asked: str) -> None:
    file = tmp_path / "made"
    done = ask(tmp_path, "apply", asked.format(file=file))
    assert done.returncode == 2
    Draft202012Validator(SCHEMA).validate(answer := json.loads(done.stdout))
    assert answer["error"]["code"] == "not_allowed"
    assert answer["error"]["remedy"].startswith("With this key ask for observe, gpus, ")
    assert done.stderr.startswith(b"vmctl: The portal's apply key asked for ")
    assert len(done.stdout) < 500
    assert not file.exists()


def test_without_a_question_it_says_what_may_be_asked(tmp_path: Path) -> None:
    told = json.loads(ask(tmp_path, "apply", None).stdout)["error"]
    assert told["what"] == "The portal's apply key asked for nothing, which it may not."


@pytest.mark.parametrize("asked", ["gpus", SCREEN])
def test_a_screens_bytes_are_never_mixed_with_errors(tmp_path: Path, asked: str) -> None:
    done = ask(tmp_path, "console", asked)
    assert (done.returncode, done.stdout) == ((2, b"") if asked == "gpus" else (3, b""))
    assert json.loads(done.stderr)["error"]["what"]


# A verb that starts a child in its own group, says which, and hangs; it ends only when its whole group is killed.
HANGING = """
import signal, subprocess, sys, time
from vmctl import serve
from vmctl.errors import VmctlError

def verb():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    print(child.pid, file=sys.stderr, flush=True)
    {what}

try:
    sys.exit(serve.run(serve.Request({name!r}, (), {seconds}), verb))
except VmctlError as error:
    print(error.code, error)
    sys.exit(error.exit_code)
"""
SLEEP = "time.sleep(600)"


def start(what: str, *, name: str = "apply", seconds: float | None, connection: int) -> subprocess.Popen[bytes]:
    script = HANGING.format(what=what, name=name, seconds=seconds)
    command = [sys.executable, "-c", script]
    return subprocess.Popen(command, cwd=ROOT, stdin=connection, stdout=connection, stderr=subprocess.PIPE)


def number(child: subprocess.Popen[bytes]) -> int:
    """The process id that the verb told."""
    assert child.stderr is not None
    return int(child.stderr.readline())


def comes(true: Callable[[], bool], seconds: float = 10) -> bool:
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def ended(process: int) -> bool:
    """Gone, or waiting for a parent that reaps late."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_past_its_limit_the_whole_group_is_killed() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        child = start("print('half', flush=True); " + SLEEP, seconds=1, connection=theirs.fileno())
        grandchild = number(child)
        assert child.wait(20) == 1
        told = ours.recv(4096).decode()
        assert told.startswith("timeout apply took longer than 1 s and was ended.")
        assert comes(lambda: ended(grandchild))


def test_a_verb_that_a_signal_ended_is_a_sentence() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        child = start("import os; os.kill(os.getpid(), signal.SIGKILL)", seconds=60, connection=theirs.fileno())
        number(child)
        assert child.wait(20) == 1
        assert ours.recv(4096).startswith(b"failed apply was ended by signal 9.")


def test_a_screen_ends_with_its_connection() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        child = start(SLEEP, name="console", seconds=None, connection=theirs.fileno())
    grandchild = number(child)
    assert child.poll() is None
    ours.close()
    assert child.wait(20) == 1
    assert comes(lambda: ended(grandchild))


def test_a_screen_that_nobody_leaves_has_no_limit_and_ends_by_itself() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        child = start("time.sleep(1); return 0", name="console", seconds=None, connection=theirs.fileno())
        number(child)
        assert child.wait(20) == 0


def test_an_apply_goes_on_when_its_connection_is_lost(tmp_path: Path) -> None:
    """It brings the host to a state: right whoever listens."""
    ours, theirs = socket.socketpair()
    what = f"time.sleep(1); print('an answer'); open({str(tmp_path / 'done')!r}, 'w').close(); return 0"
    with theirs:
        child = start(what, seconds=60, connection=theirs.fileno())
    number(child)
    ours.close()
    assert comes((tmp_path / "done").exists)
    child.wait(20)
