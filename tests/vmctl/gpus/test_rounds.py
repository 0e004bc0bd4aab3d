"""Fifty machines one after the other, by every way: the tree is the same to the file afterwards (field log A12)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.vmctl.gpus.hosts import FLEX, H100, L40S, RTX_4000, card, flex, simulated, snapshot, want
from vmctl import gpus
from vmctl.card import Regime
from vmctl.ledger import Ledger
from vmctl.simulate import SimulatedHost

WAYS = [
    ("t4", "0000:3b:00.0", "T4-16Q", Regime.EQUAL),
    ("gvtg", "0000:00:02.0", "i915-GVTg_V5_4", Regime.EQUAL),
    ("a40", "0000:41:00.0", "A40-8Q", Regime.EQUAL),
    ("a40-mixed", "0000:41:00.0", "A40-8Q", Regime.MIXED),
    ("l40s", L40S, "L40S-24Q", Regime.EQUAL),
    ("a100-mig", "0000:41:00.0", "A100D-3-40C", Regime.MIG),
    ("flex", FLEX, "VF-1of4", Regime.VF),
    ("h100", H100, "NVIDIA H100 PCIe", Regime.WHOLE),
    ("a40-mixed", RTX_4000, "Quadro RTX 4000", Regime.WHOLE),
    ("flex", FLEX, "Intel 56c0", Regime.WHOLE),
]


def ready(folder: Path, layout: str) -> SimulatedHost:
    return flex(folder) if layout == "flex" else simulated(folder, layout)


@pytest.mark.field("A12")
@pytest.mark.parametrize(("layout", "gpu", "kind", "regime"), WAYS)
def test_fifty_rounds_leave_the_tree_as_it_was(memory: Path, layout: str, gpu: str, kind: str, regime: Regime) -> None:
    host = ready(memory, layout)
    cells = {each.name: each.cells for each in card(host, gpu).types}
    before = snapshot(host)
    for number in range(50):
        cell = cells[kind][number % len(cells[kind])] if kind in cells else None
        made = gpus.provide(host, want(gpu, kind, regime, cell=cell, handle=number % 4), "machine")
        if number == 0:
            assert gpus.provided(host) == [made]
            assert snapshot(host) != before
        gpus.release(host, made)
    assert snapshot(host) == before
    assert list(Ledger(host.state_dir)) == []


@pytest.mark.parametrize(("layout", "gpu", "kind", "regime"), WAYS)
def test_a_share_is_made_once_however_often_it_is_asked_for(
    memory: Path, layout: str, gpu: str, kind: str, regime: Regime
) -> None:
    host = ready(memory, layout)
    cells = {each.name: each.cells for each in card(host, gpu).types}
    wish = want(gpu, kind, regime, cell=cells[kind][0] if kind in cells else None)
    made = gpus.provide(host, wish, "machine")
    tree = snapshot(host)
    assert gpus.provide(host, wish, "machine") == made
    assert snapshot(host) == tree
    assert [share.uuid for share in card(host, gpu).holders] == [wish.uuid]
    noted = Ledger(host.state_dir).get(wish.uuid)
    assert noted is not None
    assert (noted.machine, noted.gpu, noted.device) == ("machine", gpu, made.parent)
    gpus.release(host, made)
    gpus.release(host, made)
    assert gpus.provided(host) == []
