"""GPU instances that somebody else made are users of their card: no change of ours takes them away."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.vmctl import folder
from tests.vmctl.build import GPU_ADDRESS, NOW, a40, document, machine, observed, settings, state, vgpu
from tests.vmctl.folder import simulated_site
from vmctl import apply as applying
from vmctl import gpus
from vmctl.card import Framework, Mode, ProvidedVGPU, Regime
from vmctl.plan import desired
from vmctl.plan.card_steps import WaitForDrain
from vmctl.plan.reconcile import plan
from vmctl.simulate.state import State
from vmctl.site import Site

H100 = "0000:4e:00.0"


def test_a_change_waits_for_them_by_name() -> None:
    theirs = ProvidedVGPU(
        None, GPU_ADDRESS, "3g.40gb", Framework.VENDOR_VFIO, "gpu-instance 3", "", regime=Regime.MIG, cell=(0, 4)
    )
    card = a40(holders=(theirs,), mig=Mode(True, True), regime=Regime.MIG)
    (step,) = plan(state(cards=[settings(regime="equal")]), observed(gpus=(card,)), NOW).steps
    assert isinstance(step, WaitForDrain)
    assert step.holders == ("nobody known: 3g.40gb gpu-instance 3",)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with folder.place(monkeypatch) as base:
        yield simulated_site(base, "h100")


def apply(site: Site, *machines: Any, regime: str) -> list[tuple[str, bool]]:
    text = json.dumps(document(*machines, cards=[settings(H100, regime=regime)], stop_grace_seconds=0))
    report: Any = applying.apply(site, desired.parse(text), NOW, budget=600)
    return [(step["kind"], step["done"]) for step in report["steps"]]


def instances(site: Site) -> int:
    return len(State.read(site.host.root).cards[H100].instances)


@pytest.mark.field("A13")
def test_no_regime_virtual_function_or_whole_card_takes_them_away(site: Site) -> None:
    assert all(done for _, done in apply(site, regime="mig"))
    answer = site.host.run(["nvidia-smi", "mig", "-i", H100, "-cgi", "3g.40gb"])
    assert (answer.status, instances(site)) == (0, 1), answer.output
    for regime in ("equal", "mixed", "whole"):
        assert apply(site, regime=regime) == [("wait", False)]
        assert instances(site) == 1
    whole = machine("w", vgpus=[vgpu("w", gpu=H100, type="NVIDIA H100", regime="whole", cell=None, handle=None)])
    assert ("start", True) not in apply(site, whole, regime="mig")
    assert instances(site) == 1
    (card,) = [gpu for gpu in gpus.inventory(site.host) if gpu.address == H100]
    (free,) = [kind.free_cells[0] for kind in card.types if kind.name == "H100-3-40C"]
    beside = machine("b", vgpus=[vgpu("b", gpu=H100, type="H100-3-40C", regime="mig", cell=list(free), handle=None)])
    assert all(done for _, done in apply(site, beside, regime="mig")), "beside it there is room"
    assert instances(site) == 2
