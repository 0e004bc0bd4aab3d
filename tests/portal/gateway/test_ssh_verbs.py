"""Verbs over SSH against a real sshd: what goes over, what comes back, and the limits of every wait."""

import json
import shlex
import sys
from pathlib import Path

import pytest
from pytest_django import Settings

from portal import gateway
from portal.gateway import answers
from portal.host_address import HostAddress
from tests.portal.gateway.conftest import error_of
from tests.portal.gateway.sshd import Server


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
    place = ["--simulate", "t4", "--root", f"{state}/root", "--state-dir", str(state), "--host", "far"]
    words = shlex.join([sys.executable, "-m", "vmctl", *place, "serve", "apply"])
    checkout = shlex.quote(str(Path.cwd()))
    server.force("apply", f"cd {checkout} && PYTHONPATH={checkout} {words}")
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


@pytest.mark.parametrize("printed", ["", '{"schema": 1', '{"schema": 1}'])
def test_a_command_that_a_signal_ended_is_a_sentence(server: Server, printed: str) -> None:
    """Whatever it had said until then."""
    server.answer(f"print({printed!r}, end='', flush=True); os.kill(os.getpid(), 9)")
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


@pytest.mark.field("G09")
@pytest.mark.parametrize(
    "word", ["a; touch /tmp/x", "$(id)", "`id`", "a\nb", "a" * 256, "-oProxyCommand=x", "--", "", "Ä"]
)
def test_words_that_could_mean_more_never_leave(server: Server, word: str) -> None:
    far: HostAddress = server.address()
    for words in ((word,), ("console", "--machine", word)):
        error = error_of(lambda words=words: gateway.command(far, *words))  # type: ignore[misc]
        assert error.code == "not_allowed"
