"""GPU instances and mixed sizes, whatever is asked for in whatever order: what was promised is had, nothing overlaps.

The simulated driver knows nothing of vmctl's rulers: where it puts each vGPU is read from its own state.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from vmctl import gpus
from vmctl.card import GPU, Cell, ProvidedVGPU, Regime, VGPUType
from vmctl.errors import Code, VmctlError
from vmctl.model import WantedVGPU
from vmctl.simulate import SimulatedHost, prepare
from vmctl.simulate.kernel import Kernel
from vmctl.simulate.state import State

FEW = 5  # more would take longer than they tell
UUIDS = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(60)]


def switch(host: SimulatedHost, gpu: str, mode: str) -> None:
    """Bring a card into MIG mode or mixed size in the order that works (dossier 1.5)."""
    functions = "/usr/lib/nvidia/sriov-manage"
    if mode == "mig":
        orders = [[functions, "-d", gpu], ["nvidia-smi", "-i", gpu, "-mig", "1"], [functions, "-e", gpu]]
    else:
        orders = [["nvidia-smi", "vgpu", "-i", gpu, "-shm", "1"]]
    for order in orders:
        answer = host.run(order)
        assert answer.status == 0, (order, answer)


class Layered(RuleBasedStateMachine):
    """Provide and release on one card, at any legal place, fitting or not."""

    layout, gpu, mode, regime = "a100-mig", "0000:41:00.0", "", Regime.MIG

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
        prepare(self.folder / "root", self.layout)
        self.host = SimulatedHost(self.layout, root=self.folder / "root", state_dir=self.folder / "state")
        if self.mode:
            switch(self.host, self.gpu, self.mode)
        self.model: dict[str, ProvidedVGPU] = {}

    def teardown(self) -> None:
        for share in self.model.values():
            gpus.release(self.host, share)
        own = State.read(self.host.root).cards[self.gpu]
        assert (own.vgpus, own.instances, own.params) == ({}, {}, {})
        assert gpus.provided(self.host) == []
        shutil.rmtree(self.folder)

    def look(self) -> GPU:
        return next(card for card in gpus.inventory(self.host) if card.address == self.gpu)

    def kind(self, name: str) -> VGPUType:
        return next(kind for kind in self.look().types if kind.name == name)

    def wish(self, kind: VGPUType, cell: Cell) -> WantedVGPU:
        """An order for the next slot of a cell, on whatever function."""
        used = [share.slot for share in self.model.values() if share.cell == cell]
        slot = next((each for each in kind.slots if each not in used), kind.slots[0])
        name = next(uuid for uuid in UUIDS if uuid not in self.model)
        return WantedVGPU(name, self.gpu, kind.name, self.regime, cell, len(self.model) % 5, slot)

    def provide(self, wish: WantedVGPU) -> None:
        made = gpus.provide(self.host, wish, "machine")
        assert (made.uuid, made.type, made.cell, made.slot) == (wish.uuid, wish.type, wish.cell, wish.slot)
        self.model[wish.uuid] = made
        assert gpus.provide(self.host, wish, "machine") == made

    @rule(kind=st.integers(0, 60), place=st.integers(0, 60))
    def ask(self, kind: int, place: int) -> None:
        """What is said to be free is had, and nothing else is."""
        kinds = self.look().types
        chosen = kinds[kind % len(kinds)]
        cell = chosen.cells[place % len(chosen.cells)]
        wish = self.wish(chosen, cell)
        if cell in chosen.free_cells and chosen.free:
            self.provide(wish)
            return
        with pytest.raises(VmctlError) as refusal:
            gpus.provide(self.host, wish, "machine")
        assert refusal.value.code == Code.NO_CAPACITY

    @rule(kind=st.integers(0, 60))
    def fill(self, kind: int) -> None:
        """As many more as were promised are had, and then none."""
        kinds = self.look().types
        chosen = kinds[kind % len(kinds)]
        assert chosen.free is not None
        if chosen.free > FEW:
            return
        before = set(self.model)
        for _ in range(chosen.free):
            now = self.kind(chosen.name)
            self.provide(self.wish(now, now.free_cells[0]))
        assert self.kind(chosen.name).free == 0
        for uuid in set(self.model) - before:
            gpus.release(self.host, self.model.pop(uuid))
        assert self.kind(chosen.name) == chosen

    @rule(which=st.integers(0, 60))
    def release(self, which: int) -> None:
        if self.model:
            share = self.model.pop(sorted(self.model)[which % len(self.model)])
            gpus.release(self.host, share)
            gpus.release(self.host, share)

    @invariant()
    def what_exists_is_what_was_made(self) -> None:
        assert {share.uuid: share for share in gpus.provided(self.host)} == self.model

    @invariant()
    def the_driver_has_each_where_it_was_planned(self) -> None:
        own = State.read(self.host.root).cards[self.gpu]
        board = next(card.board for card in Kernel(self.host.root).cards if card.address == self.gpu)
        cells: list[Cell] = []
        for share in self.model.values():
            vgpu = own.vgpus.get(share.uuid or "") or own.vgpus[share.parent]
            if self.regime is Regime.MIG:
                instance = own.instances[str(vgpu.instance)]
                cell = (instance.start, instance.start + board.profile(instance.profile).size)
            else:
                start = vgpu.placement or 0
                cell = (start, start + board.places(board.by_id[vgpu.kind])[0])
            assert cell == share.cell
            cells.append(cell)
        assert len(own.vgpus) == len(self.model)
        if self.regime is Regime.MIG:
            assert len(own.instances) == len(set(cells))  # no more instances than there are needed
        else:
            assert not [pair for pair in combinations(cells, 2) if pair[0][0] < pair[1][1] and pair[1][0] < pair[0][1]]


class OnH100(Layered):
    layout, gpu, mode = "h100", "0000:4e:00.0", "mig"


class OnSharedInstances(Layered):
    layout, gpu, mode = "rtx-pro-6000", "0001:c8:00.0", "mig"


class OnMixedSizes(Layered):
    layout, regime = "a40-mixed", Regime.MIXED


class OnMixedSizesOfTheNewest(Layered):
    layout, gpu, mode, regime = "rtx-pro-6000", "0001:c8:00.0", "mixed", Regime.MIXED


STEPS = settings(
    max_examples=4,
    stateful_step_count=8,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # to make an example smaller would take minutes
)
TestA100 = Layered.TestCase
TestA100.settings = STEPS
TestH100 = OnH100.TestCase
TestH100.settings = STEPS
TestSharedInstances = OnSharedInstances.TestCase
TestSharedInstances.settings = STEPS
TestMixedSizes = OnMixedSizes.TestCase
TestMixedSizes.settings = STEPS
TestMixedSizesOfTheNewest = OnMixedSizesOfTheNewest.TestCase
TestMixedSizesOfTheNewest.settings = STEPS
