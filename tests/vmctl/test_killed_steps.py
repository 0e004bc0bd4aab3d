"""`apply` killed after every single effect of every way of sharing a GPU: the next one mends, and nothing is left.

The kill is real (a forked child that ends without a word), the machine is simulated, the judge is the folder itself.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.vmctl import folder
from tests.vmctl.build import NOW, Json, document, machine, name_uuid, settings, vgpu
from tests.vmctl.folder import FolderHypervisor, simulated_site
from tests.vmctl.snapshot import differences, taken
from vmctl import apply as applying
from vmctl import ledger
from vmctl.host import Host
from vmctl.plan import desired
from vmctl.site import Site

# What comes with the first use and stays: a kernel module's folder, and one of the simulator's own.
LOADED_ONCE = re.compile(r"left: .*(/drivers/vfio-pci/(bind|unbind)|/root/\.types/own)")
KILLED, FINISHED = 9, 0
MOST = 200


@dataclass(frozen=True)
class Way:
    """A simulated host, what is wanted on it, and how its cards are set while nothing is."""

    layout: str
    machines: tuple[Json, ...]
    cards: tuple[Json, ...] = ()
    home: tuple[Json, ...] = ()


def one(gpu: str, kind: str, regime: str, *places: tuple[tuple[int, int], int]) -> tuple[Json, ...]:
    """A machine for each place (cell, handle), with a share of a GPU there."""
    return tuple(
        machine(str(handle), vgpus=[vgpu(str(handle), gpu=gpu, type=kind, regime=regime, cell=cell, handle=handle)])
        for cell, handle in places
    )


def whole(gpu: str, model: str) -> tuple[Json, ...]:
    return (machine("w", vgpus=[vgpu("w", gpu=gpu, type=model, regime="whole", cell=None, handle=None)]),)


A40, T4, L40S, A100, H100, FLEX = (
    "0000:41:00.0",
    "0000:3b:00.0",
    "0000:26:00.0",
    "0000:41:00.0",
    "0000:4e:00.0",
    "0000:6a:00.0",
)
FIXED = {"policy": "fixed_share", "time_slice_us": 2000}
USUAL = {"policy": "best_effort", "time_slice_us": None}

WAYS = {
    "mdev on the card": Way("t4", one(T4, "T4-4Q", "equal", ((0, 1), 0), ((1, 2), 1))),
    "mdev on virtual functions": Way(
        "a40-mixed",
        one(A40, "A40-12Q", "equal", ((0, 1), 0), ((1, 2), 7)),
        (settings(A40, regime="equal"),),
        (settings(A40, regime="equal"),),
    ),
    "mixed sizes": Way(
        "a40-mixed",
        one(A40, "A40-16Q", "mixed", ((0, 16), 5)) + one(A40, "A40-8Q", "mixed", ((16, 24), 3)),
        (settings(A40, regime="mixed"),),
        (settings(A40, regime="equal"),),
    ),
    "vendor's VFIO": Way(
        "l40s",
        one(L40S, "L40S-12Q", "equal", ((0, 1), 0), ((1, 2), 1)),
        (settings(L40S, scheduler=FIXED),),
        (settings(L40S, scheduler=USUAL),),
    ),
    "GPU instances": Way(
        "a100-mig", one(A100, "A100D-3-40C", "mig", ((4, 8), 0)) + one(A100, "A100D-1-10C", "mig", ((2, 3), 1))
    ),
    "MIG mode and GPU instances": Way(
        "h100",
        one(H100, "H100-3-40C", "mig", ((4, 8), 2)),
        (settings(H100, regime="mig"),),
        (settings(H100, regime="equal"),),
    ),
    "plain SR-IOV": Way(
        "flex",
        one(FLEX, "VF-1of4", "vf", ((1, 2), 1), ((3, 4), 3)),
        (settings(FLEX, regime="vf", vfs=4),),
        (settings(FLEX, regime="vf", vfs=0),),
    ),
    "a whole card": Way("l40s", whole(L40S, "NVIDIA L40S")),
    "a whole card without functions": Way("t4", whole(T4, "Tesla T4")),
}


@dataclass(frozen=True)
class Place:
    """A simulated host in a folder, with a libvirt of files."""

    base: Path
    way: Way

    @property
    def site(self) -> Site:
        return simulated_site(self.base, self.way.layout)

    def apply(self, *, wanted: bool) -> Json:
        """The machines on their cards, or nothing at all."""
        there = self.way.machines if wanted else ()
        gone = [] if wanted else [wish["machine"] for wish in self.way.machines]
        cards = list(self.way.cards if wanted else self.way.home)
        text = json.dumps(document(*there, cards=cards, purge=gone, stop_grace_seconds=0))
        return applying.apply(self.site, desired.parse(text), NOW, budget=600)

    def killed(self, after: int, *, wanted: bool) -> bool:
        """The same by a child that ends without a word after so many effects; False: it came to its end before."""
        child = os.fork()
        if child == 0:
            status = 1
            try:
                burn_down(after)
                self.apply(wanted=wanted)
                status = FINISHED
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in (KILLED, FINISHED), "the child ended in another way"
        return status == KILLED

    def taken(self) -> Mapping[str, str]:
        return taken(self.base)


def burn_down(after: int) -> None:
    """End this process after so many effects: writes, tools, notes, domains, and steps that are none of these."""
    left, seen = after, 0

    def burn() -> None:
        nonlocal left, seen
        left, seen = left - 1, seen + 1
        if left == 0:
            os._exit(KILLED)

    def after_each(owner: Any, name: str) -> None:
        call: Callable[..., Any] = getattr(owner, name)

        def burning(*words: Any, **named: Any) -> Any:
            before = seen
            try:
                return call(*words, **named)
            finally:
                if seen == before and named.get("changes", True):
                    burn()

        setattr(owner, name, burning)

    for owner, name in (
        (Host, "write"),
        (Host, "driver_tool"),
        (applying.Worker, "carry_out"),
        (FolderHypervisor, "start"),
        (FolderHypervisor, "force_stop"),
        (ledger, "write_atomically"),
    ):
        after_each(owner, name)


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with folder.place(monkeypatch) as path:
        yield path


def all_done(report: Json) -> bool:
    return all(step["done"] for step in report["steps"])


@pytest.mark.field("A05")
@pytest.mark.field("A13")
@pytest.mark.field("A17")
@pytest.mark.parametrize("name", WAYS)
def test_killed_after_any_effect_the_next_run_mends_and_nothing_is_left(base: Path, name: str) -> None:
    place = Place(base, WAYS[name])
    place.apply(wanted=False)
    untouched = taken(base / "root")
    assert all_done(place.apply(wanted=True))
    assert all_done(place.apply(wanted=False))
    once = [line for line in differences(untouched, taken(base / "root")) if not LOADED_ONCE.search(line)]
    assert once == []
    home = place.taken()
    place.apply(wanted=True)
    goal = place.taken()
    assert place.apply(wanted=True)["steps"] == []
    assert all_done(place.apply(wanted=False))
    assert differences(home, place.taken()) == []
    effects = 0
    for after in range(1, MOST):
        began = place.killed(after, wanted=True)
        place.apply(wanted=False)
        assert differences(home, place.taken()) == [], f"after effect {after}, then nothing was wanted any more"
        place.killed(after, wanted=True)
        place.apply(wanted=True)
        assert differences(goal, place.taken()) == [], f"after effect {after} on the way there"
        ended = place.killed(after, wanted=False)
        place.apply(wanted=False)
        assert differences(home, place.taken()) == [], f"after effect {after} on the way back"
        effects += began + ended
        if not began and not ended:
            break
    assert effects > 10, "so few effects were never killed at"


def test_a_planted_leftover_is_seen(base: Path) -> None:
    place = Place(base, WAYS["vendor's VFIO"])
    place.apply(wanted=False)
    home = place.taken()
    stray = next((base / "root/sys/devices").rglob("current_vgpu_type"))
    before = stray.read_text()
    stray.write_text("1150\n")
    (found,) = differences(home, place.taken())
    assert found.startswith(f"other: {stray}")
    stray.write_text(before)
    (base / "machines" / name_uuid("machine 0")).mkdir(parents=True)
    assert [line.partition(":")[0] for line in differences(home, place.taken())] != []
