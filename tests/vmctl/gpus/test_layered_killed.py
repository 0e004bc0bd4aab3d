"""A run that is killed before or after any change to the host: the next one finds what is there, and ends it well."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.vmctl.gpus.test_layered_sequences import UUIDS, switch
from vmctl import gpus
from vmctl.card import Cell, Regime
from vmctl.errors import Code, VmctlError
from vmctl.gpus.layers import mixed, places
from vmctl.host import Answer
from vmctl.ledger import Ledger
from vmctl.model import WantedVGPU
from vmctl.simulate import SimulatedHost, prepare, reboot
from vmctl.simulate.state import State

OURS, OTHER = UUIDS[:2]


class Killed(BaseException):
    """Stands for SIGKILL: nothing catches it."""


@dataclass(frozen=True)
class Dying(SimulatedHost):
    """A host on which vmctl is killed at its n-th moment; each change has one before and one after it."""

    effects: list[int] = field(default_factory=lambda: [10**9])

    def _moment(self) -> None:
        self.effects[0] -= 1
        if self.effects[0] < 0:
            raise Killed

    def _store(self, path: Path, value: str) -> None:
        self._moment()
        super()._store(path, value)
        self._moment()

    def driver_tool(self, command: Sequence[str], *, changes: bool, **other: Any) -> Answer:
        if changes:
            self._moment()
        answer = super().driver_tool(command, changes=changes, **other)
        if changes:
            self._moment()
        return answer


@dataclass(frozen=True)
class Scene:
    """A card with one share on it, and another one wanted."""

    layout: str
    gpu: str
    mode: str
    regime: Regime
    there: tuple[str, Cell, tuple[int, int]]
    wanted: tuple[str, Cell, tuple[int, int]]

    def build(self, folder: Path) -> SimulatedHost:
        prepare(folder / "root", self.layout)
        host = SimulatedHost(self.layout, root=folder / "root", state_dir=folder / "state")
        if self.mode:
            switch(host, self.gpu, self.mode)
        gpus.provide(host, self.wish(OTHER, self.there, 0), "other")
        return host

    def wish(self, uuid: str, place: tuple[str, Cell, tuple[int, int]], handle: int) -> WantedVGPU:
        name, cell, slot = place
        return WantedVGPU(uuid, self.gpu, name, self.regime, cell, handle, slot)

    @property
    def order(self) -> WantedVGPU:
        return self.wish(OURS, self.wanted, 1)


BLACKWELL = "RTX Pro 6000 Blackwell DC"
ONE = (0, 1)
SCENES = {
    "a100": Scene(
        "a100-mig", "0000:41:00.0", "", Regime.MIG, ("A100D-3-40C", (0, 4), ONE), ("A100D-2-20C", (4, 6), ONE)
    ),
    "h100": Scene("h100", "0000:4e:00.0", "mig", Regime.MIG, ("H100-3-40C", (0, 4), ONE), ("H100-3-40C", (4, 8), ONE)),
    "one-instance": Scene(
        "rtx-pro-6000",
        "0001:c8:00.0",
        "mig",
        Regime.MIG,
        (f"{BLACKWELL}-1-12Q", (3, 6), ONE),
        (f"{BLACKWELL}-1-12C", (3, 6), (1, 2)),
    ),
    "beside-one-with-room": Scene(
        "rtx-pro-6000",
        "0001:c8:00.0",
        "mig",
        Regime.MIG,
        (f"{BLACKWELL}-1-12Q", (3, 6), ONE),
        (f"{BLACKWELL}-1-12Q", (9, 12), ONE),
    ),
    "a40": Scene("a40-mixed", "0000:41:00.0", "", Regime.MIXED, ("A40-8Q", (0, 8), ONE), ("A40-12Q", (24, 36), ONE)),
    "blackwell-mixed": Scene(
        "rtx-pro-6000",
        "0001:c8:00.0",
        "mixed",
        Regime.MIXED,
        (f"{BLACKWELL}-24Q", (0, 24), ONE),
        (f"{BLACKWELL}-48Q", (48, 96), ONE),
    ),
}


def cut_off(host: SimulatedHost, work: Callable[[SimulatedHost], object], undo: Callable[[], object]) -> Iterator[int]:
    """Kill `work` at each of its moments; the caller looks at what is left each time, then all is put back."""
    moment = 0
    while True:
        dying = Dying(host.name, root=host.root, state_dir=host.state_dir, effects=[moment])
        try:
            work(dying)
        except Killed:
            yield moment
            undo()
            moment += 1
        else:
            undo()
            return


def drop(host: SimulatedHost) -> None:
    """Release whatever is seen of a share, and what was set aside while it was made: all but the other one."""
    for share in gpus.provided(host):
        if share.uuid != OTHER:
            gpus.release(host, share)


def looks_whole(host: SimulatedHost, scene: Scene) -> None:
    """Nobody else's share suffered, and the card can be told."""
    card = next(each for each in gpus.inventory(host) if each.address == scene.gpu)
    assert all(share.uuid in Ledger(host.state_dir) for share in card.holders if share.uuid is not None)
    assert None not in [share.uuid for share in card.holders]  # none that nobody would take away
    assert [share.cell for share in card.holders if share.uuid == OTHER] == [scene.there[1]]
    assert not [gap for gap in card.unknown if gap.what == gpus.HOLDERS]


def only_the_other_is_left(host: SimulatedHost, scene: Scene) -> None:
    own = State.read(host.root).cards[scene.gpu]
    assert len(own.vgpus) == 1
    assert len(own.instances) == (1 if scene.regime is Regime.MIG else 0)
    assert len(own.params) == (1 if scene.regime is Regime.MIXED else 0)
    assert [share.uuid for share in gpus.provided(host)] == [OTHER]


@pytest.mark.parametrize("name", SCENES)
def test_a_provide_that_was_cut_off_is_ended_by_the_next_or_taken_back(memory: Path, name: str) -> None:
    scene = SCENES[name]
    host = scene.build(memory)
    seen = 0
    for mend in (True, False):
        for _ in cut_off(host, lambda dying: gpus.provide(dying, scene.order, "m"), lambda: drop(host)):
            seen += 1
            looks_whole(host, scene)
            if mend:
                for share in gpus.provided(host):
                    if share.uuid not in (OURS, OTHER):
                        gpus.release(host, share)  # as the next run does before it makes anything
                made = gpus.provide(host, scene.order, "m")
                assert (made.uuid, made.cell) == (OURS, scene.wanted[1])
                only_as_planned(host, scene)
            drop(host)
            only_the_other_is_left(host, scene)
    assert seen >= 4  # two moments at the least, each ended in both ways


def only_as_planned(host: SimulatedHost, scene: Scene) -> None:
    own = State.read(host.root).cards[scene.gpu]
    assert len(own.vgpus) == 2
    if scene.regime is Regime.MIG:
        assert len(own.instances) == len({scene.there[1], scene.wanted[1]})
        starts = {own.instances[str(vgpu.instance)].start for vgpu in own.vgpus.values()}
    else:
        starts = {vgpu.placement or 0 for vgpu in own.vgpus.values()}
    assert starts == {scene.there[1][0], scene.wanted[1][0]}


@pytest.mark.parametrize("name", SCENES)
def test_a_release_that_was_cut_off_is_ended_by_the_next(memory: Path, name: str) -> None:
    scene = SCENES[name]
    host = scene.build(memory)
    gpus.provide(host, scene.order, "m")
    for _ in cut_off(host, drop, lambda: gpus.provide(host, scene.order, "m")):
        looks_whole(host, scene)
        drop(host)
        only_the_other_is_left(host, scene)
    for share in gpus.provided(host):
        gpus.release(host, share)
    assert gpus.provided(host) == []
    assert list(Ledger(host.state_dir)) == []


@pytest.mark.field("A05")
@pytest.mark.field("A19")
def test_gpu_instances_that_a_reboot_took_are_made_again_where_they_were(memory: Path) -> None:
    """An Ampere card keeps its mode and nothing else: VFs, GPU instances and devices are gone."""
    scene = SCENES["a100"]
    host = scene.build(memory)
    gpus.provide(host, scene.order, "m")
    reboot(host.root)
    assert host.run(["/usr/lib/nvidia/sriov-manage", "-e", scene.gpu]).status == 0
    assert State.read(host.root).cards[scene.gpu].instances == {}
    assert gpus.provided(host) == []  # nothing left over either: no instance, no share
    for wish in (scene.order, scene.wish(OTHER, scene.there, 0)):
        assert gpus.provide(host, wish, "m").cell == wish.cell
    only_as_planned(host, scene)
    before = State.read(host.root)
    gpus.provide(host, scene.order, "m")
    assert State.read(host.root) == before  # a second run changes nothing


def test_without_a_look_for_left_overs_an_instance_stays_for_ever(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: it is the left-over, and nothing else, that lets a cut-off provide be taken back."""
    scene = SCENES["a100"]
    host = scene.build(memory)
    monkeypatch.setattr(places, "_left_over", lambda *_: [])
    left = 0
    for _ in cut_off(host, lambda dying: gpus.provide(dying, scene.order, "m"), lambda: drop(host)):
        drop(host)
        left = max(left, len(State.read(host.root).cards[scene.gpu].instances))
        gpus.release(host, gpus.provide(host, scene.order, "m"))
    assert left == 2


def test_without_a_look_at_the_places_a_taken_one_is_given_twice(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the driver takes any demand, and only the machine's start would show it."""
    scene = SCENES["a40"]
    host = scene.build(memory)
    taken = scene.wish(OURS, scene.there, 1)
    with pytest.raises(VmctlError) as refusal:
        gpus.provide(host, taken, "m")
    assert refusal.value.code == Code.NO_CAPACITY
    monkeypatch.setattr(mixed, "refuse_taken", lambda *_: None)
    gpus.provide(host, taken, "m")
    where = State.read(host.root).cards[scene.gpu].vgpus[OURS].placement
    assert where != scene.there[1][0]  # not where it was planned, and nothing says so before its machine runs
