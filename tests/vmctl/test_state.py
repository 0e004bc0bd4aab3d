"""What vmctl remembers: the portal's last word, its own vGPUs, and that it is alone."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest

from tests.vmctl.build import HOST, NOW, OTHER_PORTAL, document, state
from vmctl.errors import Code, VmctlError
from vmctl.ledger import Ledger, Made
from vmctl.state import after_call, check_call, damaged, locked, recall, remember

MADE = Made("uuid", "machine", "0000:3b:00.0", "T4-4Q")


def refused(wanted: dict[str, object], tmp_path: Path) -> str:
    with pytest.raises(VmctlError) as caught:
        check_call(recall(tmp_path), state(**wanted), HOST)
    return caught.value.code


def test_a_portal_is_remembered_and_only_newer_or_equal_words_count(tmp_path: Path) -> None:
    assert recall(tmp_path) is None
    remember(tmp_path, after_call(state(generation=7), NOW))
    check_call(recall(tmp_path), state(generation=7), HOST)
    check_call(recall(tmp_path), state(generation=8), HOST)
    assert refused({"generation": 6}, tmp_path) == Code.STALE_GENERATION
    assert refused({"generation": 9, "portal": OTHER_PORTAL}, tmp_path) == Code.WRONG_PORTAL
    assert refused({"generation": 9, "host": "sim-a40"}, tmp_path) == Code.BAD_INPUT


def test_what_the_portal_allowed_is_remembered(tmp_path: Path) -> None:
    remember(tmp_path, after_call(state(stop_grace_seconds=5, expire_allowance_seconds=6), NOW))
    memory = recall(tmp_path)
    assert memory is not None
    assert (memory.last_call, memory.stop_grace_seconds, memory.expire_allowance_seconds) == (NOW, 5, 6)


@pytest.mark.parametrize("text", ["", "{}", '{"portal": 1}', "null", "[" * 100_000])
def test_a_damaged_memory_is_not_taken_for_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "memory.json").write_text(text)
    with pytest.raises(VmctlError) as caught:
        recall(tmp_path)
    assert caught.value.exit_code == 3


def test_a_file_that_this_user_may_not_read_is_not_called_damaged() -> None:
    error = damaged(Path("/x/memory.json"), PermissionError(13, "Permission denied"))
    assert (error.what, error.remedy) == (
        "vmctl's own file /x/memory.json may not be read by this user.",
        "Run vmctl as root.",
    )


@pytest.mark.field("A13")
def test_the_ledger_survives_the_process(tmp_path: Path) -> None:
    Ledger(tmp_path).note(MADE)
    assert list(Ledger(tmp_path)) == [MADE]
    Ledger(tmp_path).cross_out("uuid")
    assert list(Ledger(tmp_path)) == []


@pytest.mark.parametrize("text", ["", "[{}]", "{}", "[1]", '["x"]', "null", "[" * 100_000, '[{"cell": 1}]'])
def test_a_damaged_ledger_is_not_taken_for_empty(tmp_path: Path, text: str) -> None:
    (tmp_path / "vgpus.json").write_text(text)
    with pytest.raises(VmctlError, match="own file"):
        Ledger(tmp_path)


def test_the_second_is_told_that_the_host_is_busy_and_a_dead_holder_holds_nothing(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "lock")], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    began = time.monotonic()
    with pytest.raises(VmctlError) as caught, locked(tmp_path / "lock", 0.2):
        pass
    assert (caught.value.code, caught.value.retry) == (Code.BUSY, True)
    assert time.monotonic() - began < 2
    holder.kill()
    holder.wait()
    with locked(tmp_path / "lock", 0.2):
        pass


HOLD = """
import sys, time
from pathlib import Path
from vmctl.state import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_last_call_is_a_moment(tmp_path: Path) -> None:
    later = NOW + timedelta(minutes=1)
    remember(tmp_path, after_call(state(), later))
    memory = recall(tmp_path)
    assert memory is not None
    assert memory.last_call == later
    assert document()["generation"] == memory.generation


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_file_that_finds_no_room_is_named(tmp_path: Path) -> None:
    (tmp_path / "memory.json.new").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as caught:
        remember(tmp_path, after_call(state(), NOW))
    assert caught.value.filename == str(tmp_path / "memory.json")
    assert recall(tmp_path) is None
