"""vmctl killed while one of its tools is at work: the tool keeps the locks until it has ended, and the next run mends.

The kills between two effects are test_killed_steps'.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.vmctl import folder
from tests.vmctl.build import NOW, Json, document, machine, vgpu
from tests.vmctl.folder import simulated_site
from vmctl import apply as applying
from vmctl.commands import Answer, TooSlow, run_command
from vmctl.errors import VmctlError
from vmctl.host import LEAST_SECONDS, Host
from vmctl.model import DesiredState
from vmctl.plan import desired
from vmctl.simulate import SimulatedHost, reboot
from vmctl.site import Site
from vmctl.state import locked

L40S = "0000:26:00.0"
SLOW = 1.0  # seconds that a tool takes

# The tool of the driver as a process of its own, which notes when it began.
TOOL = f"""
import sys, time
from pathlib import Path
from vmctl.simulate import SimulatedHost
Path(sys.argv[2]).touch()
time.sleep({SLOW})
SimulatedHost("tool", root=Path(sys.argv[1])).run(sys.argv[3:], limit=60)
"""

HOLDER = """
import sys
from pathlib import Path
from vmctl.host import Host
from vmctl.state import locked
folder = Path(sys.argv[1])
host = Host("here", root=folder, state_dir=folder)
with locked(folder / "lock"), locked(host.gpus_lock):
    host.driver_tool(["sh", "-c", f"touch {folder}/begun; sleep 1; touch {folder}/ended"], limit=60, changes=CHANGES)
"""


def until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < end, "it did not happen in 30 s"
        time.sleep(0.02)


def is_free(lock: Path, seconds: float = 0.1) -> bool:
    try:
        with locked(lock, seconds):
            return True
    except VmctlError:
        return False


def killed_holder(tmp_path: Path, *, changes: bool) -> None:
    child = subprocess.Popen([sys.executable, "-c", HOLDER.replace("CHANGES", str(changes)), str(tmp_path)])
    until((tmp_path / "begun").exists)
    child.kill()
    child.wait()


def test_a_tool_that_changes_something_keeps_both_locks_until_it_has_ended(tmp_path: Path) -> None:
    killed_holder(tmp_path, changes=True)
    assert not is_free(tmp_path / "lock")
    assert not is_free(tmp_path / "gpus.lock")
    assert not (tmp_path / "ended").exists()
    assert is_free(tmp_path / "lock", 30)
    assert (tmp_path / "ended").exists()
    assert is_free(tmp_path / "gpus.lock")


def test_a_tool_that_changes_something_is_not_cut_off_by_the_deadline(tmp_path: Path) -> None:
    """Half-way it would leave a card without its driver; one that only looks has what is left, and a little."""
    late = Host("here", root=tmp_path, state_dir=tmp_path).by(time.monotonic())
    command = ["sh", "-c", f"sleep {LEAST_SECONDS + 1}; echo done"]
    assert late.driver_tool(command, limit=60, changes=True).output == "done\n"
    with pytest.raises(TooSlow):
        late.driver_tool(command, limit=60, changes=False)


def test_one_that_only_looks_keeps_nobody_out(tmp_path: Path) -> None:
    killed_holder(tmp_path, changes=False)
    assert is_free(tmp_path / "lock")
    assert not (tmp_path / "ended").exists()


def test_a_caller_that_goes_on_gives_its_lock_back_whatever_its_tool_left_behind(tmp_path: Path) -> None:
    """As a write that is asleep in the kernel, which not even SIGKILL ends: the host must not be busy for ever."""
    host = Host("here", root=tmp_path, state_dir=tmp_path)
    left_behind = "setsid sleep 2 >/dev/null 2>&1 </dev/null & sleep 0.2"
    with locked(tmp_path / "lock"):
        host.driver_tool(["sh", "-c", left_behind], limit=60, changes=True)
    assert is_free(tmp_path / "lock")


def test_a_write_that_sleeps_in_the_kernel_keeps_nobody_out(tmp_path: Path) -> None:
    """It may sleep until a machine has ended, and who is to end that machine needs the lock.

    A pipe that nobody reads holds its writer, as the kernel may.
    """
    os.mkfifo(tmp_path / "attribute")
    script = HOLDER.replace(HOLDER[HOLDER.index("    host.driver_tool") :], WRITE)
    child = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)])
    until((tmp_path / "begun").exists)
    time.sleep(0.5)  # until the writer is there
    assert not is_free(tmp_path / "lock")
    child.kill()
    child.wait()
    assert is_free(tmp_path / "lock")
    os.close(os.open(tmp_path / "attribute", os.O_RDONLY | os.O_NONBLOCK))  # the writer ends


WRITE = """
    (folder / "begun").touch()
    host.write(folder / "attribute", "1", reading=folder / "begun")
"""


# A whole apply --------------------------------------------------------------------------------------


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with folder.place(monkeypatch) as base:
        yield simulated_site(base, "l40s")


def wanted() -> DesiredState:
    text = document(machine("a", vgpus=[vgpu("a", gpu=L40S, type="L40S-12Q")]), stop_grace_seconds=0)
    return desired.parse(json.dumps(text))


def begin_with_a_slow_tool(site: Site, begun: Path) -> int:
    """The process of an apply whose tool for virtual functions takes its time."""
    child = os.fork()
    if child:
        return child
    usual = SimulatedHost.run

    def run(self: SimulatedHost, command: Sequence[str], **limits: Any) -> Answer:
        if not command[0].endswith("sriov-manage"):
            return usual(self, command, **limits)
        return run_command([sys.executable, "-c", TOOL, str(self.root), str(begun), *command], limit=60)

    try:
        SimulatedHost.run = run  # type: ignore[method-assign]
        applying.apply(site, wanted(), NOW)
    finally:
        os._exit(1)


@pytest.mark.field("A05")
def test_killed_while_a_tool_is_at_work_the_next_apply_waits_for_it_and_mends(site: Site, tmp_path: Path) -> None:
    applying.apply(site, wanted(), NOW)
    assert applying.apply(site, desired.parse(json.dumps(document(stop_grace_seconds=0))), NOW)["steps"] != []
    reboot(site.host.root)
    child = begin_with_a_slow_tool(site, tmp_path / "begun")
    until((tmp_path / "begun").exists)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert not is_free(site.lock), "the card is half rebound, and nobody may go on with it"
    report: Json = applying.apply(site, wanted(), NOW)
    assert [step["kind"] for step in report["steps"] if not step["done"]] == []
    assert applying.apply(site, wanted(), NOW)["steps"] == []
