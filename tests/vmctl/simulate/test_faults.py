"""Faults that are planted, processes that die, and several at once."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.vmctl.simulate.conftest import Make
from tests.vmctl.simulate.doors import creatable, smi, vf_type, write
from vmctl.errors import VmctlError
from vmctl.host import TooSlow
from vmctl.simulate import SimulatedHost, faults, holders, prepare
from vmctl.simulate.drawing import Drawing
from vmctl.simulate.kernel import UNSETTLED
from vmctl.simulate.state import STATE_FILE

VF = "0000:26:00.4"


def test_a_write_fails_as_often_as_it_is_told_to(make: Make) -> None:
    host = make("l40s")
    faults.plant(host.root, [{"match": r"00\.4/nvidia/current_vgpu_type$", "error": "EIO", "times": 2}])
    for _ in range(2):
        with pytest.raises(OSError, match=r".") as refusal:
            write(host, vf_type(host, VF), "1155")
        assert refusal.value.errno == errno.EIO
    assert write(host, vf_type(host, VF), "1155") == "1155"


def test_a_write_says_yes_and_does_nothing_until_it_is_cleared(make: Make) -> None:
    host = make("l40s")
    faults.plant(host.root, [{"match": "current_vgpu_type", "effect": False}])
    assert write(host, vf_type(host, VF), "1155") == "0"
    assert write(host, vf_type(host, VF), "1155") == "0"
    faults.clear(host.root)
    assert write(host, vf_type(host, VF), "1155") == "1155"


def test_a_slow_write_is_done_and_one_that_is_too_slow_is_not(make: Make) -> None:
    host = make("l40s")
    faults.plant(host.root, [{"match": "current", "delay": 0.05, "times": 1}, {"match": "current", "delay": 5}])
    begun = time.monotonic()
    assert write(host, vf_type(host, VF), "1155") == "1155"
    assert time.monotonic() - begun >= 0.05
    with pytest.raises(VmctlError, match="does not come back") as sleeping:
        write(host, vf_type(host, VF), "0")
    assert sleeping.value.retry
    assert host.read(vf_type(host, VF)) == "1155"


def test_a_command_fails_is_silent_or_too_slow(make: Make) -> None:
    host = make("l40s")
    faults.plant(
        host.root,
        [
            {"match": "^sriov-manage -d", "effect": False, "times": 1},
            {"match": "sriov-manage -d", "output": "Cannot obtain unbindLock\n", "status": 1, "times": 1},
            {"match": "nvidia-smi .*-shm", "delay": 5},
        ],
    )
    numbers = host.pci("0000:26:00.0") / "sriov_numvfs"
    assert host.run(["sriov-manage", "-d", "ALL"]).status == 0
    assert host.read(numbers) == "16"
    assert host.run(["sriov-manage", "-d", "ALL"]).status == 1
    assert host.run(["sriov-manage", "-d", "ALL"]).status == 0
    assert host.read(numbers) == "0"
    with pytest.raises(TooSlow, match="nvidia-smi gave no answer"):
        host.run(["nvidia-smi", "vgpu", "-i", "0", "-shm", "1"], limit=0.05)
    assert "vGPU Heterogeneous Mode           : Disabled" in smi(host, "-q -i 0")


def test_a_misspelt_fault_is_refused(make: Make) -> None:
    with pytest.raises(TypeError):
        faults.plant(make("t4").root, [{"math": "x"}])


def test_a_tree_of_an_older_version_is_refused_in_words(make: Make) -> None:
    host = make("t4")
    (host.root / STATE_FILE).unlink()
    with pytest.raises(VmctlError, match="made by an older vmctl"):
        prepare(host.root, "t4")


def worker(root: Path, seed: int) -> int:
    """The pid of a process that changes this and that until it is killed."""
    child = os.fork()
    if child == 0:
        try:
            work(SimulatedHost("killed", root=root, state_dir=root.parent / "state"), random.Random(seed))
        finally:
            os._exit(1)
    return child


def work(host: SimulatedHost, chance: random.Random) -> None:
    functions = [f"0000:26:00.{number}" for number in (4, 5, 6, 7)]
    while True:
        try:
            what = chance.randrange(8)
            if what == 0:
                host.run(["sriov-manage", chance.choice(["-e", "-d"]), "0000:26:00.0"])
            elif what == 1:
                host.run(["nvidia-smi", "vgpu", "-i", "0", "-shm", chance.choice("01")])
            else:
                path = host.pci(chance.choice(functions)) / "nvidia/current_vgpu_type"
                host._store(path, chance.choice(["1155", "1152", "1150", "0", "0"]))
        except OSError:
            pass


def end(child: int) -> bool:
    """End it; tells whether it was at work until then."""
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def test_killed_anywhere_the_next_process_finds_a_whole_tree(make: Make) -> None:
    host = make("l40s")
    whole = shown(host)
    chance = random.Random(20261201)
    for seed in range(8):
        child = worker(host.root, seed)
        time.sleep(chance.uniform(0.02, 0.15))
        assert end(child)
        again = SimulatedHost("again", root=host.root, state_dir=host.state_dir)
        agrees(again)
        for function in again.names(again.path("/sys/bus/pci/devices")):
            if vf_type(again, function).exists():
                write(again, vf_type(again, function), "0")
        again.run(["sriov-manage", "-e", "ALL"])
        assert shown(again) == whole


class Died(Exception):
    """Stands for the end of a process."""


@pytest.mark.parametrize("marked", [True, False])
def test_a_state_that_was_kept_but_not_shown_is_shown_by_the_next_process(
    make: Make, monkeypatch: pytest.MonkeyPatch, marked: bool
) -> None:
    """The control: without the mark that a dying process leaves, the files would go on saying something else."""
    host = make("l40s")

    def die(_: Drawing) -> None:
        raise Died

    with monkeypatch.context() as dying:
        dying.setattr(Drawing, "draw", die)
        with pytest.raises(Died):
            write(host, vf_type(host, VF), "1155")
    if not marked:
        (host.root / UNSETTLED).unlink()
    again = SimulatedHost("again", root=host.root, state_dir=host.state_dir)
    assert again.read(vf_type(again, VF)) == ("1155" if marked else "0")


def agrees(host: SimulatedHost) -> None:
    """What the files show is what the driver remembers."""
    card = json.loads((host.root / STATE_FILE).read_text())["cards"]["0000:26:00.0"]
    assert not (host.root / UNSETTLED).exists()
    assert int(host.read(host.pci("0000:26:00.0") / "sriov_numvfs")) == card["vfs"]
    links = [name for name in host.names(host.pci("0000:26:00.0")) if name.startswith("virtfn")]
    assert len(links) == card["vfs"]
    for name in links:
        function = host.link(host.pci("0000:26:00.0") / name) or ""
        held = card["vgpus"].get(function)
        assert (host.read(vf_type(host, function)) == "0") == (held is None)
        assert held is None or creatable(host, function) == set()


def shown(host: SimulatedHost) -> dict[str, str]:
    """Every file and link of the tree with what it says, but the machine's own notes."""
    found = {}
    for path in sorted(host.root.rglob("*")):
        name = str(path.relative_to(host.root))
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_file() and not name.startswith((".", "proc/sys")):
            found[name] = path.read_text()
        elif not name.startswith("."):
            found[name] = "socket" if path.is_socket() else "folder"
    return found


def test_two_at_once_never_make_two_sizes(make: Make) -> None:
    host = make("l40s")
    children = [worker(host.root, seed) for seed in (100, 200)]
    begun = time.monotonic()
    try:
        while time.monotonic() < begun + 2:
            state = json.loads((host.root / STATE_FILE).read_text())["cards"]["0000:26:00.0"]
            kinds = {vgpu["kind"] for vgpu in state["vgpus"].values()}
            assert state["mixed"] or len(kinds) <= 1
    finally:
        at_work = [end(child) for child in children]
    assert at_work == [True, True]
    agrees(SimulatedHost("after", root=host.root, state_dir=host.state_dir))


OPENER = """
import sys
while True:
    open(sys.argv[1]).close()
"""


def test_looking_for_holders_survives_somebody_who_opens_the_node_meanwhile(make: Make) -> None:
    node = make("t4").root / "dev/nvidia0"
    child = subprocess.Popen([sys.executable, "-c", OPENER, str(node)])
    try:
        begun, seen = time.monotonic(), set[bool]()
        while time.monotonic() < begun + 1:
            seen.add(holders.in_use(node.parents[1], "dev/nvidia0"))
        assert child.poll() is None
        assert seen
    finally:
        child.kill()
        child.wait()
    assert not holders.in_use(node.parents[1], "dev/nvidia0")
