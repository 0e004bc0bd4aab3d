"""What is kept of a lab: layers are whole or not there, old ones go, and one that is used stays."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.lab import cache, monitor, process
from tests.lab.errors import LabError


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache.home().mkdir(parents=True)
    return cache.home()


def make(name: str, age: int = 0) -> Path:
    """A layer that is so many seconds old."""
    with cache.layer(name, 1) as folder:
        (folder / "content").write_text(name)
    made = cache.home() / name
    os.utime(made, (1_700_000_000 - age,) * 2)
    return made


def test_a_layer_that_fails_is_not_there(home: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "content").write_text("half")
        raise LabError("no more")

    with pytest.raises(LabError, match="no more"), cache.layer("ready-1", 1) as folder:
        fail(folder)
    assert list(home.iterdir()) == []


def test_what_a_killed_build_left_is_cleared(home: Path) -> None:
    (home / "ready-1.part" / "kit").mkdir(parents=True)
    with cache.building():
        assert not (home / "ready-1.part").exists()


def test_the_two_newest_stay(home: Path) -> None:
    for age, name in ((30, "ready-1"), (20, "ready-2"), (10, "ready-3"), (40, "image-1")):
        make(name, age)
    make("ready-4")
    assert {folder.name for folder in home.iterdir()} == {"ready-3", "ready-4", "image-1"}


def test_one_that_is_used_stays(home: Path) -> None:
    handles = cache.hold(make("ready-1", 30))
    for number in (2, 3, 4):
        make(f"ready-{number}", 10 - number)
    assert (home / "ready-1").is_dir()
    for handle in handles:
        os.close(handle)
    make("ready-5")
    assert not (home / "ready-1").is_dir()


def test_a_full_disk_is_told_before_anything_begins(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(home)._replace(free=500 * 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    why = r"Only 500 MiB are free in .*; this takes 2000\. Make room, or set XDG_CACHE_HOME"
    with pytest.raises(LabError, match=why), cache.layer("ready-1", 2000):
        pytest.fail("it began")


def test_a_lab_that_was_never_made_says_how(home: Path) -> None:
    with pytest.raises(LabError, match=r"tests\.lab build"):
        cache.ready()


def test_an_old_note_of_a_process_is_no_process(tmp_path: Path) -> None:
    (tmp_path / process.LOCK).touch()
    (tmp_path / "pid").write_text("1\n")
    assert process.running(tmp_path) is None
    process.kill(tmp_path)  # so that nobody else's is ended


def test_a_start_in_a_folder_that_is_taken_says_whose_it_is(tmp_path: Path) -> None:
    process.start(tmp_path, qemu(), inherits=[], lasting=False)
    try:
        with pytest.raises(LabError, match=f"already .process {process.running(tmp_path)}"):
            process.start(tmp_path, qemu(), inherits=[], lasting=False)
    finally:
        process.kill(tmp_path)
    assert process.running(tmp_path) is None


def test_qemu_s_own_words_are_told_when_it_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"QEMU did not start: .*nosuch"):
        process.start(tmp_path, [*qemu(), "-device", "nosuch"], inherits=[], lasting=False)
    assert process.running(tmp_path) is None


def qemu() -> list[str]:
    """An empty machine that stands still."""
    return [
        "qemu-system-x86_64",
        "-S",
        "-nodefaults",
        "-display",
        "none",
        "-qmp",
        f"unix:{monitor.SOCKET},server=on,wait=off",
    ]


def test_a_program_that_is_missing_is_named() -> None:
    with pytest.raises(LabError, match="no-such-tool is not installed: run scripts/setup lab"):
        cache.call(["no-such-tool"])


def test_a_command_has_a_limit() -> None:
    with pytest.raises(LabError, match=r"was not done in 0\.2 s"):
        cache.call(["sleep", "60"], seconds=0.2)


def test_the_end_of_a_failed_command_is_told() -> None:
    with pytest.raises(LabError, match=r"(?s)failed:.*why"):
        cache.call(["sh", "-c", "echo why >&2; exit 3"])
