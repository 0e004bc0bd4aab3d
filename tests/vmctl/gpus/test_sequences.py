"""Whatever is asked for in whatever order, and wherever it is cut off: one size per GPU, and nothing lost or left."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import signal
import tempfile
import time
import uuid
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from vmctl import gpus
from vmctl.card import ProvidedVGPU, Regime
from vmctl.errors import Code, VmctlError
from vmctl.model import WantedVGPU
from vmctl.simulate import SimulatedHost, prepare
from vmctl.simulate.boards import A40, L40S, T4
from vmctl.simulate.kinds import Board
from vmctl.simulate.layouts import LAYOUTS

UUIDS = [str(uuid.UUID(int=number + (4 << 76) + (8 << 60))) for number in range(12)]


class Sequence(RuleBasedStateMachine):
    """Provide and release against a model that knows only the equal-size rule."""

    layout = "t4"
    board: Board = T4
    handles = 1

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
        prepare(self.folder / "root", self.layout)
        self.host = SimulatedHost(self.layout, root=self.folder / "root", state_dir=self.folder / "state")
        self.cards = [card.address for card in LAYOUTS[self.layout]]
        self.sizes = {kind.name.split(" ")[1]: kind.size for kind in self.board.types()}
        self.model: dict[str, ProvidedVGPU] = {}

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def on(self, gpu: str) -> list[ProvidedVGPU]:
        return [share for share in self.model.values() if share.gpu == gpu]

    def fits(self, wish: WantedVGPU) -> bool:
        """The rule, said anew: one size, no more than fit, one share per virtual function, whichever."""
        held = [share for share in self.on(wish.gpu) if share.uuid != wish.uuid]
        size = self.sizes[wish.type]
        return all(self.sizes[share.type] == size for share in held) and len(held) < self.most(size)

    def most(self, size: int) -> int:
        assert self.board.most is not None
        return min(self.board.most[size], self.board.vfs or self.board.most[size])

    @rule(share=st.sampled_from(UUIDS), card=st.integers(0, 1), kind=st.integers(0, 40), handle=st.integers(0, 5))
    def provide(self, share: str, card: int, kind: int, handle: int) -> None:
        name = sorted(self.sizes)[kind % len(self.sizes)]
        wish = WantedVGPU(share, self.cards[card], name, Regime.EQUAL, (handle, handle + 1), handle)
        before = self.model.get(share)
        if self.fits(wish):
            made = gpus.provide(self.host, wish)
            assert (made.uuid, made.gpu, made.type) == (share, wish.gpu, name)
            self.model[share] = made
            return
        with pytest.raises(VmctlError) as refusal:
            gpus.provide(self.host, wish)
        assert refusal.value.code is Code.NO_CAPACITY
        if before is not None:  # a left-over of another kind had to go before the driver could be asked
            self.model.pop(share)

    @rule(share=st.sampled_from(UUIDS))
    def release(self, share: str) -> None:
        made = self.model.pop(share, None)
        if made is not None:
            gpus.release(self.host, made)

    @initialize()
    def starts_empty(self) -> None:
        assert gpus.provided(self.host) == []

    @invariant()
    def what_exists_is_what_was_made(self) -> None:
        assert {share.uuid: share for share in gpus.provided(self.host)} == self.model

    @invariant()
    def every_gpu_has_one_size_and_says_what_is_left(self) -> None:
        for gpu in gpus.inventory(self.host):
            held = self.on(gpu.address)
            assert len({share.size_group for share in held}) <= 1
            for kind in gpu.types:
                same = not held or held[0].size_group == kind.size_group
                assert kind.max is not None
                left = min(kind.max, self.board.vfs or kind.max) - len(held)
                assert len(kind.free_cells) == (left if same else 0)


class SequenceOnFunctions(Sequence):
    layout = "a40"
    board = A40


class SequenceByNumbers(Sequence):
    layout = "l40s"
    board = L40S


TestOnTheCard = Sequence.TestCase
TestOnTheCard.settings = settings(
    max_examples=10, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
TestByNumbers = SequenceByNumbers.TestCase
TestByNumbers.settings = settings(
    max_examples=8, stateful_step_count=16, deadline=None, suppress_health_check=list(HealthCheck)
)
TestOnFunctions = SequenceOnFunctions.TestCase
TestOnFunctions.settings = settings(
    max_examples=5, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
)


def start_worker(folder: Path, state: str, gpu: str, name: str, uuids: list[str]) -> int:
    """The pid of a process that provides and releases these shares until it is killed."""
    child = os.fork()
    if child == 0:
        try:
            work(SimulatedHost("killed", root=folder / "root", state_dir=folder / state), gpu, name, uuids)
        finally:
            os._exit(1)
    return child


def work(host: SimulatedHost, gpu: str, name: str, uuids: list[str]) -> None:
    while True:
        for number, share in enumerate(uuids):
            try:
                gpus.provide(host, WantedVGPU(share, gpu, name, Regime.EQUAL, (number, number + 1), number))
            except VmctlError:
                pass  # another worker has the GPU
        for made in gpus.provided(host):
            if made.uuid in uuids:
                gpus.release(host, made)


def kill(child: int) -> bool:
    """End it; tells whether it was at work until then."""
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("layout", "gpu", "name", "rounds"),
    [
        ("t4", "0000:3b:00.0", "T4-4Q", 12),
        ("a40", "0000:41:00.0", "A40-12Q", 5),
        ("l40s", "0000:26:00.0", "L40S-12Q", 8),
    ],
)
def test_killed_anywhere_the_next_call_finds_a_whole_tree(
    memory: Path, layout: str, gpu: str, name: str, rounds: int
) -> None:
    prepare(memory / "root", layout)
    chance = random.Random(20261130)
    uuids = UUIDS[:3]
    for _ in range(rounds):
        child = start_worker(memory, "state", gpu, name, uuids)
        time.sleep(chance.uniform(0, 0.15))
        assert kill(child)
        mend_and_look(memory, gpu, name, uuids)


def mend_and_look(folder: Path, gpu: str, name: str, uuids: list[str]) -> None:
    """After a kill: what exists agrees with every counter; repeating the orders ends where it should."""
    host = SimulatedHost("killed", root=folder / "root", state_dir=folder / "state")
    looks_whole(host)
    made = [
        gpus.provide(host, WantedVGPU(each, gpu, name, Regime.EQUAL, (n, n + 1), n)) for n, each in enumerate(uuids)
    ]
    looks_whole(host)
    for share in made:
        gpus.release(host, share)
    assert gpus.provided(host) == []
    looks_whole(host)
    left = [path for path in host.root.rglob("*") if path.name in uuids]
    assert left == []


def looks_whole(host: SimulatedHost) -> None:
    for card in gpus.inventory(host):
        held = len(card.holders)
        for kind in card.types:
            same = not held or card.holders[0].size_group == kind.size_group
            assert len(kind.free_cells) == (min(kind.max or 0, card.handles or 0) - held if same else 0)
    known = {share.uuid for share in gpus.provided(host)}
    assert set(host.names(host.path("/sys/bus/mdev/devices"))) <= known


def test_two_at_once_never_make_two_sizes(memory: Path) -> None:
    """Even without vmctl's own lock, and with notes apart: the kernel answers one write at a time."""
    prepare(memory / "root", "t4")
    children = [start_worker(memory, name, "0000:3b:00.0", name, [str(uuid.uuid4())]) for name in ("T4-4Q", "T4-8Q")]
    host = SimulatedHost("both", root=memory / "root", state_dir=memory / "state")
    seen: set[str] = set()
    begun = time.monotonic()
    try:
        while time.monotonic() < begun + 2 or (seen != {"4G", "8G"} and time.monotonic() < begun + 60):
            groups = {share.size_group for share in seen_at_once(host)}
            assert len(groups) <= 1
            seen |= groups
    finally:
        at_work = [kill(child) for child in children]
    assert at_work == [True, True]
    assert seen == {"4G", "8G"}


def seen_at_once(host: SimulatedHost) -> list[ProvidedVGPU]:
    """What exists at one moment: reading takes a while, so the simulated kernel is held still meanwhile."""
    with host.path("/.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return gpus.provided(host)
