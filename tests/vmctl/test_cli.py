"""The command line: every bad input is one sentence and exit code 2; a bug is one sentence and exit code 1."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.vmctl.build import NOW, Json, document, observed, running
from tests.vmctl.test_schemas import full_card
from vmctl import cli, gpus, refusals
from vmctl.answers import cards as cards_report
from vmctl.answers import report, tables
from vmctl.card import Unknown


def run(tmp_path: Path, *words: str, given: bytes = b"") -> tuple[int, Json, str]:
    """Run vmctl for a simulated host whose libvirt is not there."""
    place = ["--state-dir", tmp_path / "state", "--storage-dir", tmp_path / "machines", "--run-dir", "/tmp/x"]
    simulated = ["--host", "sim-t4", "--simulate", "t4", "--root", tmp_path / "root"]
    uri = ["--libvirt-uri", f"qemu+unix:///system?socket={tmp_path}/nowhere"]
    command = [sys.executable, "-m", "vmctl", *map(str, [*place, *simulated, *uri]), *words]
    done = subprocess.run(command, input=given, capture_output=True, timeout=60, check=False)
    said = done.stderr.decode()
    assert "Traceback" not in said
    return done.returncode, json.loads(done.stdout) if done.stdout.startswith(b"{") else {}, said


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (("apply", "--json"), b""),
        (("apply", "--json"), b"\xff\xfe"),
        (("apply", "--json"), b"[]"),
        (("apply", "--json"), json.dumps(document(host="sim-a40")).encode()),
        (("apply", "--json", "--file", "/nowhere"), b""),
        (("apply", "--json", "--surprise"), b""),
        (("console", "--machine", "x"), b""),
        (("accept", "--json"), b""),
        (("accept", "--json", "--gpu", "0000:3b:00.0", "--rounds", "0"), b""),
        (("dance",), b""),
        (("--simulate", "nothing", "observe", "--json"), b""),
        (("--host", "Ä", "observe", "--json"), b""),
        (("--root", "/", "observe", "--json"), b""),
        (("--state-dir", "", "check", "--json"), b""),
        (("--run-dir", "", "observe", "--json"), b""),
    ],
)
def test_bad_input_is_a_sentence(tmp_path: Path, words: tuple[str, ...], given: bytes) -> None:
    status, answer, said = run(tmp_path, *words, given=given)
    assert status == 2
    if "--json" in words:
        assert answer["error"]["code"] == "bad_input"
        assert answer["error"]["what"].endswith(".")
        assert answer["error"]["remedy"].endswith(".")
    else:
        assert said.startswith("vmctl: ")


def test_an_empty_path_in_a_variable_is_refused_or_means_nothing(tmp_path: Path) -> None:
    """It would mean the folder that the caller happens to be in."""
    done = subprocess.run(
        [sys.executable, "-m", "vmctl", "--host", "here", "types", "--json"],
        cwd=tmp_path,
        env=os.environ | {"VMCTL_STATE_DIR": "", "PYTHONPATH": str(Path(cli.__file__).parents[1])},
        capture_output=True,
        check=False,
    )
    assert json.loads(done.stdout)["schema"] == 1
    assert list(tmp_path.iterdir()) == []


def test_gpus_need_no_libvirt(tmp_path: Path) -> None:
    status, answer, _ = run(tmp_path, "gpus", "--json")
    assert (status, answer["host"], answer["simulated"]) == (0, "sim-t4", True)
    assert len(answer["gpus"]) == 2
    assert [gap["what"] for gap in answer["unknown"]] == ["claims"]


def test_people_get_tables(tmp_path: Path) -> None:
    status, answer, said = run(tmp_path, "gpus")
    assert (status, answer, said) == (0, {}, "")


def test_people_see_how_a_card_is_set_and_what_could_not_be_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    mine = running("a")
    gap = Unknown("claims", "It did not answer.")
    seen = observed(mine, gpus=(full_card(mine.machine, "x"),), unknown=(gap,))
    cards = cards_report.gpus_json("h", NOW, True, seen.gpus, seen.whose, [gap])
    tables.show_gpus(json.loads(json.dumps(cards)))
    tables.show_report(json.loads(json.dumps(report.report_json(seen, None))))
    printed = capsys.readouterr().out
    told = ["32 of 32, 30 free", "on, off after a reset or reboot", "fixed_share 3 ms", "[4,8)", "[0,4) [0,2)"]
    told += [mine.name, "only claimed", "nobody known", "types.A40-12Q.free of 0000:3b:00.0", "It did not answer."]
    assert [words for words in told if words not in printed] == []


def test_an_error_for_people_goes_to_standard_error(tmp_path: Path) -> None:
    status, _, said = run(tmp_path, "observe")
    assert status == 3
    assert said.startswith("vmctl: libvirt at ")


def test_a_bug_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("an accident")

    monkeypatch.setattr(gpus, "inventory", broken)
    words = ["vmctl", "--host", "here", "--root", str(tmp_path), "--simulate", "t4", "gpus", "--json"]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out)["error"]["code"] == "bug"
    assert "an accident" in printed.out
    assert printed.err == ""


# The rights go once the program is there, with all that it loads late: the checkout may lie in a folder that is closed.
AS_NOBODY = """
import contextlib, io, os
from vmctl import cli
with contextlib.redirect_stdout(io.StringIO()):
    cli.app(args=["gpus", "--help"], standalone_mode=False)
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
cli.main()
"""


def vmctl(
    tmp_path: Path, *words: str, program: tuple[str, ...] = ("-m", "vmctl"), **options: Any
) -> subprocess.CompletedProcess[str]:
    uri = f"qemu+unix:///system?socket={tmp_path}/nowhere"
    command = [sys.executable, *program, "--host", "here", "--libvirt-uri", uri, *words]
    place = Path(cli.__file__).parents[1]
    options.setdefault("stdout", subprocess.PIPE)
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=60, check=False, cwd=place, **options)


@pytest.mark.parametrize("words", [("gpus",), ("gpus", "--json"), ("--help",), ("observe", "--json")])
def test_an_output_without_room_is_one_sentence(tmp_path: Path, words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = vmctl(tmp_path, "--root", str(tmp_path / "r"), "--simulate", "t4", *words, stdout=full)
    assert done.returncode == 1
    assert re.fullmatch(r"vmctl: .*No space left on device.*\n", done.stderr)


def test_a_terminal_without_all_letters_gets_the_rest(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = vmctl(tmp_path, "--host", "\u00e4", "gpus", env=environment)
    assert (done.returncode, done.stderr[:16]) == (2, r"vmctl: '\xe4' is")
    place = ["--root", str(tmp_path / "r"), "--simulate", "t4", "--state-dir", str(tmp_path)]
    done = vmctl(tmp_path, *place, "usage", env=environment)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("folder", ["/dev/null", "/proc/1/nope", "/sys/x"])
def test_a_place_that_cannot_be_used_is_a_sentence_and_no_bug(tmp_path: Path, folder: str) -> None:
    done = vmctl(tmp_path, "--state-dir", folder, "expire", "--json")
    assert done.returncode == 1
    error = json.loads(done.stdout)["error"]
    assert (error["code"], error["what"][:17]) == ("failed", "The host refused:")
    assert folder in error["what"]
    assert vmctl(tmp_path, "--state-dir", folder, "gpus", "--json").returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_an_ordinary_user_may_look_and_is_told_what_he_missed(tmp_path: Path) -> None:
    nobody = ("-c", AS_NOBODY)
    with TemporaryDirectory() as place:  # pytest's own folders are closed to others
        Path(place).chmod(0o755)
        (Path(place) / "state").mkdir(mode=0o700)
        state = ("--state-dir", f"{place}/state")
        looked = vmctl(tmp_path, *state, "gpus", "--json", program=nobody)
        ended = vmctl(tmp_path, *state, "expire", "--json", program=nobody)
    assert looked.returncode == 0
    assert "ours" in [gap["what"] for gap in json.loads(looked.stdout)["unknown"]]
    assert (ended.returncode, json.loads(ended.stdout)["error"]["remedy"]) == (1, "Run vmctl as root.")


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"cards": []}', "[" * 100_000])
def test_a_damaged_simulated_machine_is_a_sentence(tmp_path: Path, text: str) -> None:
    place = ("--root", str(tmp_path / "r"), "--simulate", "t4", "--state-dir", str(tmp_path / "s"), "gpus", "--json")
    assert vmctl(tmp_path, *place).returncode == 0
    (tmp_path / "r/.machine.json").write_text(text)
    done = vmctl(tmp_path, *place)
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (2, "bad_input")


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("Failed to connect socket to '/var/run/libvirt/libvirt-sock': Permission denied", "join the group libvirt"),
        ("authentication unavailable: no polkit agent available", "join the group libvirt"),
        ("Failed to connect socket to '/var/run/libvirt/libvirt-sock': No such file or directory", "Start libvirtd"),
    ],
)
def test_what_to_do_about_a_closed_libvirt_is_told(said: str, advice: str) -> None:
    assert advice in refusals.way_to_libvirt(said)
