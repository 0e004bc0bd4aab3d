"""The journal of a host, and the doors that write into it."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from vmctl import journal
from vmctl.commands import Answer, TooSlow
from vmctl.errors import Code, VmctlError
from vmctl.host import Host
from vmctl.state import locked


@dataclass
class Tool:
    """A tool of the driver that remembers what it was asked and answers always the same."""

    late: bool = False
    asked: list[list[str]] = field(default_factory=list)

    def __call__(self, command: Sequence[str], *, limit: float, given: str = "") -> Answer:
        self.asked.append(list(command))
        if self.late:
            raise TooSlow(Code.FAILED, f"{command[0]} gave no answer in {limit:g} s.", "Wait.", retry=True)
        return Answer(0, "Enabled MIG Mode for GPU 00000000:3B:00.0\n", "")


def lines(state_dir: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (state_dir / "journal.jsonl").read_text().splitlines()]


def host(tmp_path: Path, tool: Tool) -> Host:
    (tmp_path / "root/sys").mkdir(parents=True)
    (tmp_path / "root/sys/mode").write_text("1\n")
    return Host("here", root=tmp_path / "root", state_dir=tmp_path / "state", commands=tool)


def test_a_changing_call_is_noted_before_and_after_with_what_was_read_back(tmp_path: Path) -> None:
    here = host(tmp_path, Tool())
    here.driver_tool(["nvidia-smi", "-mig", "1"], limit=1, reading=here.path("/sys/mode"), changes=True)
    before, after = lines(here.state_dir)
    assert before["run"] == ["nvidia-smi", "-mig", "1"]
    assert (after["outcome"], after["read"], after["found"]) == (0, "/sys/mode", "1")
    assert "Enabled MIG Mode" in str(after["said"])


def test_of_a_call_that_only_tells_no_more_than_its_length_is_kept(tmp_path: Path) -> None:
    here = host(tmp_path, Tool())
    here.driver_tool(["nvidia-smi", "-q"], limit=1, changes=False)
    (line,) = lines(here.state_dir)
    assert (line["ran"], line["outcome"], line["length"]) == (["nvidia-smi", "-q"], 0, 42)
    assert "said" not in line


def test_a_call_that_gives_no_answer_is_noted_too(tmp_path: Path) -> None:
    here = host(tmp_path, Tool(late=True))
    with pytest.raises(TooSlow):
        here.driver_tool(["sriov-manage", "-e", "0000:3b:00.0"], limit=1, changes=True)
    assert "no answer" in str(lines(here.state_dir)[1]["outcome"])


def test_what_cannot_be_noted_is_not_done_but_may_be_looked_at(tmp_path: Path) -> None:
    tool = Tool()
    here = host(tmp_path, tool)
    (here.state_dir / "journal.jsonl").mkdir(parents=True)
    assert here.driver_tool(["nvidia-smi", "-q"], limit=1, changes=False).status == 0
    with pytest.raises(VmctlError, match="journal"):
        here.driver_tool(["nvidia-smi", "-mig", "1"], limit=1, changes=True)
    assert tool.asked == [["nvidia-smi", "-q"]]


def test_a_journal_that_has_grown_begins_anew_and_one_old_one_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "LARGEST", 1000)
    now = Host("here").now()

    def write() -> None:
        for _ in range(20):
            journal.note(tmp_path, now, {"write": "x" * 60})

    writers = [threading.Thread(target=write) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["journal.jsonl", "journal.jsonl.1"]
    old = (tmp_path / "journal.jsonl.1").read_text().splitlines()
    assert [json.loads(line)["write"] for line in old] == ["x" * 60] * len(old)
    assert all((tmp_path / name).stat().st_size < 1500 for name in ("journal.jsonl", "journal.jsonl.1"))


def test_nvml_of_another_machine_is_not_asked(tmp_path: Path) -> None:
    tool = Tool()
    with pytest.raises(VmctlError) as caught:
        host(tmp_path, tool).nvml(1)
    assert caught.value.code == Code.COULD_NOT_TELL
    assert tool.asked == []


def test_a_numa_node_is_read_from_the_kernel(tmp_path: Path) -> None:
    here = host(tmp_path, Tool())
    node = here.path("/sys/devices/system/node/node1")
    node.mkdir(parents=True)
    (node / "cpulist").write_text("0-7,16\n")
    (node / "meminfo").write_text("Node 1 MemTotal:       65806120 kB\nNode 1 MemFree: 1 kB\n")
    found = here.numa(1)
    assert found is not None
    assert (found.cpus, found.vcpus, found.memory_mib) == ("0-7,16", 9, 64263)
    assert here.numa(0) is None
    assert here.numa_nodes() == (found,)


def test_several_look_at_once_and_one_changes_alone(tmp_path: Path) -> None:
    lock = tmp_path / "gpus.lock"
    with locked(lock, 0.1, shared=True), locked(lock, 0.1, shared=True):
        with pytest.raises(VmctlError) as caught, locked(lock, 0.1):
            pass
        assert caught.value.code == Code.BUSY
    with locked(lock, 0.1), pytest.raises(VmctlError), locked(lock, 0.1, shared=True):
        pass
    lock.chmod(0o444)
    with locked(lock, 0.1, shared=True):
        pass
