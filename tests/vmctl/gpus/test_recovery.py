"""After a reboot or a new start of the driver: functions, modes, GPU instances, types, in this order (dossier 1.5).

What dies and what stays is the hardware's matter; that the same wish leads to the same share again is vmctl's.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.vmctl.gpus.hosts import FLEX, H100, L40S, RTX_4000, card, snapshot, want
from tests.vmctl.gpus.test_rounds import ready
from vmctl import gpus
from vmctl.card import CardChange, Knob, Regime
from vmctl.simulate import SimulatedHost, reboot, reload_driver

A40 = "0000:41:00.0"
VFS, OFF, MIXED, MIG = (Knob.VFS, None), (Knob.VFS, 0), (Knob.MIXED, True), (Knob.MIG, True)
ROWS = [
    ("t4", "0000:3b:00.0", "T4-8Q", Regime.EQUAL, ()),
    ("gvtg", "0000:00:02.0", "i915-GVTg_V5_4", Regime.EQUAL, ()),
    ("a40", A40, "A40-8Q", Regime.EQUAL, (VFS,)),
    ("a40-mixed", A40, "A40-8Q", Regime.MIXED, (VFS, MIXED)),
    ("l40s", L40S, "L40S-8Q", Regime.EQUAL, (VFS,)),
    ("l40s", L40S, "L40S-8Q", Regime.MIXED, (VFS, MIXED)),
    ("a100-mig", A40, "A100D-3-40C", Regime.MIG, (VFS,)),
    ("h100", H100, "H100-3-40C", Regime.MIG, (OFF, MIG, VFS)),
    ("flex", FLEX, "VF-1of4", Regime.VF, ((Knob.VFS, 4),)),
    ("h100", H100, "NVIDIA H100 PCIe", Regime.WHOLE, ()),
    ("a40-mixed", RTX_4000, "Quadro RTX 4000", Regime.WHOLE, ()),
]


def set_up(host: SimulatedHost, gpu: str, changes: tuple[tuple[Knob, int | bool | None], ...]) -> None:
    for knob, value in changes:
        gpus.change(host, CardChange(gpu, knob, value))


@pytest.mark.field("A05")
@pytest.mark.field("A10")
@pytest.mark.field("A19")
@pytest.mark.parametrize("away", [reboot, reload_driver])
@pytest.mark.parametrize(("layout", "gpu", "kind", "regime", "changes"), ROWS)
def test_the_same_wish_leads_to_the_same_share_again(
    memory: Path,
    layout: str,
    gpu: str,
    kind: str,
    regime: Regime,
    changes: tuple[tuple[Knob, int | bool | None], ...],
    away: Callable[[Path], None],
) -> None:
    host = ready(memory, layout)
    set_up(host, gpu, changes)
    empty = snapshot(host)
    cells = {each.name: each.cells for each in card(host, gpu).types}
    wish = want(gpu, kind, regime, cell=cells[kind][-1] if kind in cells else None, handle=2)
    made = gpus.provide(host, wish, "machine")
    away(host.root)
    again = SimulatedHost(host.name, root=host.root, state_dir=host.state_dir)
    shown = {each.uuid for each in gpus.provided(again)}
    assert shown <= ({made.uuid} if regime is Regime.WHOLE else set())  # a card without its functions is not back yet
    set_up(again, gpu, changes)
    assert gpus.provide(again, wish, "machine") == made
    assert gpus.provide(again, wish, "machine") == made
    gpus.release(again, made)
    assert gpus.provided(again) == []
    assert of(gpu, snapshot(again)) == of(gpu, empty)


def of(gpu: str, tree: dict[str, str]) -> dict[str, str]:
    """What a tree has of one card, its virtual functions and what sits beside it."""
    return {name: text for name, text in tree.items() if gpu.rpartition(":")[0] in name}
