"""The door to vmctl: whatever the child does, the caller gets a document or one sentence, in time."""

import asyncio
import json
import os
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from pytest_django import Settings

from portal import gateway
from portal.gateway import GatewayError, HostAddress, answers, child
from tests.portal.gateway.conftest import error_of

ADDRESS = HostAddress("sim-t4", "simulated", "t4")
Program = Callable[[str], None]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """`program(source)` puts a Python script in vmctl's place."""

    def put(source: str) -> None:
        script = tmp_path / "vmctl.py"
        script.write_text("import json, os, sys, time\n" + textwrap.dedent(source))
        monkeypatch.setattr(child, "PROGRAM", (sys.executable, str(script)))

    return put


def test_the_desired_state_goes_in_and_the_report_comes_out(program: Program) -> None:
    program('print(json.dumps({"schema": 1, "got": json.load(sys.stdin)}))')
    assert gateway.apply(ADDRESS, {"generation": 7})["got"] == {"generation": 7}


def test_a_child_gets_words_not_a_shell_and_none_of_the_secrets(
    program: Program, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    monkeypatch.setenv("SECRET_KEY", "not for hosts")
    monkeypatch.setenv("DATABASE_URL", "not for hosts")
    program('print(json.dumps({"schema": 1, "words": sys.argv[1:], "env": sorted(os.environ)}))')
    answer = gateway.observe(HostAddress("a;touch x", "local"))
    assert f"{settings.VAR_DIR}/hosts/a;touch x" in answer["words"]
    assert answer["words"][-2:] == ["observe", "--json"]
    assert "--simulate" not in answer["words"]
    assert not {"SECRET_KEY", "DATABASE_URL"} & set(answer["env"])


def test_a_simulated_host_lives_below_its_own_root(settings: Settings) -> None:
    words = gateway.command(ADDRESS, "gpus")
    assert words[words.index("--simulate") + 1] == "t4"
    assert words[words.index("--root") + 1] == f"{settings.VAR_DIR}/hosts/sim-t4/root"


def test_a_host_is_told_where_the_licence_token_lies(settings: Settings) -> None:
    settings.LICENCE_TOKEN = Path("/srv/token.tok")
    words = gateway.command(ADDRESS, "apply")
    assert words[words.index("--licence-token") + 1] == "/srv/token.tok"


def test_what_vmctl_says_about_an_error_arrives_as_it_is(program: Program) -> None:
    program(
        """
        error = {"code": "stale_generation", "what": "Old.", "remedy": "Look.", "retry": False}
        print(json.dumps({"schema": 1, "error": error})); sys.exit(1)
        """
    )
    error = error_of(lambda: gateway.apply(ADDRESS, {}))
    assert error.as_dict() == {"code": "stale_generation", "what": "Old.", "remedy": "Look.", "retry": False}


def test_a_report_of_failed_steps_is_still_a_report(program: Program) -> None:
    program('print(json.dumps({"schema": 1, "steps": []})); sys.exit(1)')
    assert gateway.apply(ADDRESS, {})["steps"] == []


@pytest.mark.parametrize("code", [1, 2, 3])
def test_an_exit_without_a_document_is_a_sentence_with_the_last_word(program: Program, code: int) -> None:
    program(f'print("first\\nthe last word", file=sys.stderr); sys.exit({code})')
    error = error_of(lambda: gateway.observe(ADDRESS))
    assert error.code == "failed"
    assert error.what.endswith("the last word")
    assert error.remedy


@pytest.mark.parametrize("printed", ["", "Segmentation fault", "[]", '{"schema": 2}', '{"schema": 1'])
def test_garbage_is_refused(program: Program, printed: str) -> None:
    program(f"print({printed!r})")
    error = error_of(lambda: gateway.observe(ADDRESS))
    assert error.code == "garbage"
    assert "observe on sim-t4" in error.what


def test_a_child_that_dies_is_a_sentence(program: Program) -> None:
    program("os.kill(os.getpid(), 9)")
    assert "signal 9" in error_of(lambda: gateway.observe(ADDRESS)).what


def test_a_missing_program_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "PROGRAM", ("/nowhere/python",))
    assert error_of(lambda: gateway.observe(ADDRESS)).code == "no_program"


@pytest.mark.field("C04")
@pytest.mark.field("C07")
def test_past_its_limit_the_child_goes_with_all_it_started(
    program: Program, settings: Settings, tmp_path: Path
) -> None:
    settings.APPLY_TIMEOUT_SECONDS = 1
    note = tmp_path / "pid"
    program(
        f"""
        import subprocess
        child = subprocess.Popen(["sleep", "600"])
        open({str(note)!r}, "w").write(str(child.pid))
        time.sleep(600)
        """
    )
    began = time.monotonic()
    assert error_of(lambda: gateway.apply(ADDRESS, {})).code == "timeout"
    assert time.monotonic() - began < 3
    assert not is_alive(int(note.read_text()))


def is_alive(pid: int) -> bool:
    """Neither gone nor a zombie that waits for its parent."""
    for _ in range(20):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return False
        if state == "Z":
            return False
        time.sleep(0.05)
    return True


@pytest.mark.field("C07")
def test_much_output_on_both_streams_arrives_whole(program: Program) -> None:
    program(
        """
        sys.stderr.write("x" * 10_000_000)
        print(json.dumps({"schema": 1, "long": "y" * 10_000_000}))
        """
    )
    assert len(gateway.observe(ADDRESS)["long"]) == 10_000_000


def test_too_much_is_garbage(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "LARGEST_ANSWER", 1000)
    program('print(json.dumps({"schema": 1, "long": "y" * 5000}))')
    assert "more than 1000 bytes" in error_of(lambda: gateway.observe(ADDRESS)).what


ECHO = """
    sys.stdout.buffer.write(b"RFB 003.008\\n"); sys.stdout.buffer.flush()
    while data := os.read(0, 65536):
        os.write(1, data)
"""


async def test_a_console_carries_bytes_both_ways(program: Program) -> None:
    program(ECHO)
    stream = await gateway.open_console(ADDRESS, uuid4())
    assert await stream.read() == b"RFB 003.008\n"
    await stream.write(b"\x00\xff keys")
    assert await stream.read() == b"\x00\xff keys"
    await stream.close()
    await stream.close()


async def test_a_console_that_cannot_open_says_why(program: Program) -> None:
    error = {"code": "not_running", "what": "The machine is off.", "remedy": "Start it.", "retry": True}
    program(f"print({json.dumps({'schema': 1, 'error': error})!r}, file=sys.stderr); sys.exit(1)")
    with pytest.raises(GatewayError) as caught:
        await gateway.open_console(ADDRESS, uuid4())
    assert caught.value.as_dict() == error


async def test_a_silent_screen_is_given_up(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "CONSOLE_OPEN_SECONDS", 0.5)
    program("time.sleep(600)")
    with pytest.raises(GatewayError) as caught:
        await gateway.open_console(ADDRESS, uuid4())
    assert caught.value.code == "no_screen"


@pytest.mark.field("F06")
async def test_two_hundred_consoles_leave_no_descriptor_and_no_child(program: Program) -> None:
    program(ECHO)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        streams = await asyncio.gather(*(gateway.open_console(ADDRESS, uuid4()) for _ in range(10)))
        await asyncio.gather(*(stream.close() for stream in streams))
    await asyncio.sleep(0.2)
    assert len(os.listdir("/proc/self/fd")) <= before + 2
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


async def test_a_screen_that_nobody_reads_stops_instead_of_filling_memory(program: Program, tmp_path: Path) -> None:
    note = tmp_path / "sent"
    program(
        f"""
        sent = 0
        while sent < 50_000_000:
            sent += os.write(1, b"x" * 65536)
            open({str(note)!r}, "w").write(str(sent))
        """
    )
    stream = await gateway.open_console(ADDRESS, uuid4())
    await asyncio.sleep(1)
    assert int(note.read_text()) < 1_000_000
    await stream.close()
