"""What domains that are not ours name, running or off: left alone while they may run, and never booked over."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.vmctl import folder
from tests.vmctl.build import GPU_ADDRESS, NOW, Json, a40, document, machine, name_uuid, observed, share, state, vgpu
from tests.vmctl.folder import simulated_site
from vmctl import apply as applying
from vmctl.card import Framework, ProvidedVGPU
from vmctl.errors import Code
from vmctl.ledger import Ledger
from vmctl.observation import ForeignDomain, MachineState
from vmctl.plan import desired
from vmctl.plan.reconcile import plan
from vmctl.plan.steps import Refuse, Release

L40S = "0000:26:00.0"
FUNCTION = "0000:3b:00.4"


def theirs(state_now: MachineState = MachineState.OFF, *claims: str) -> ForeignDomain:
    return ForeignDomain("old-desktop", name_uuid("theirs"), state_now, frozenset(claims or (FUNCTION,)))


def steps(domain: ForeignDomain, *machines: Json, **other: Any) -> list[Any]:
    held = share("a", domain.uuid, parent=FUNCTION, framework=Framework.VENDOR_VFIO, handle=0)
    found = observed(foreign=(domain,), gpus=(a40(holders=(held,)),), ours=frozenset({held.uuid}), **other)
    return list(plan(state(*machines), found, NOW).steps)


def released(found: list[Any]) -> list[ProvidedVGPU]:
    return [step.vgpu for step in found if isinstance(step, Release)]


def test_our_share_that_nobody_wants_goes_when_only_a_domain_that_is_off_names_it() -> None:
    assert len(released(steps(theirs()))) == 1
    assert len(released(steps(theirs(MachineState.OFF, name_uuid("vgpu a"))))) == 1


@pytest.mark.parametrize("now", [each for each in MachineState if each is not MachineState.OFF])
def test_one_that_a_foreign_domain_may_be_using_is_never_touched(now: MachineState) -> None:
    assert released(steps(theirs(now))) == []


def test_a_wanted_share_on_a_function_that_such_a_domain_names_is_made_elsewhere() -> None:
    wanted = machine("a", vgpus=[vgpu("a", handle=None)])
    assert [step.kind for step in steps(theirs(), wanted)] == ["release", "provide", "disk", "start"]
    assert released(steps(theirs(MachineState.RUNNING), wanted)) == []
    by_uuid = theirs(MachineState.OFF, name_uuid("vgpu a"))
    assert released(steps(by_uuid, wanted)) == [], "it would be named wherever it lies"


@pytest.mark.parametrize("claimed", [GPU_ADDRESS, "0000:3b:00.1", FUNCTION])
def test_a_card_of_which_a_foreign_domain_names_a_part_is_not_given_away_whole(claimed: str) -> None:
    whole = machine("w", vgpus=[vgpu("w", type="NVIDIA A40", regime="whole", cell=None, handle=None)])
    claim = ProvidedVGPU(None, GPU_ADDRESS, "", Framework.VENDOR_VFIO, FUNCTION, "", 0, name_uuid("theirs"))
    card = a40(holders=(claim,) if claimed == FUNCTION else (), iommu_members=(GPU_ADDRESS, "0000:3b:00.1"))
    host = observed(foreign=(theirs(MachineState.OFF, claimed),), gpus=(card,))
    (step,) = plan(state(whole), host, NOW).steps
    assert isinstance(step, Refuse)
    assert (step.error.code, "old-desktop (off)" in step.error.what) == (Code.NO_CAPACITY, True)
    free = observed(foreign=(theirs(MachineState.OFF, "0000:99:00.0"),), gpus=(replace(card, holders=()),))
    assert plan(state(whole), free, NOW).steps[0].kind == "provide"


# On a host ------------------------------------------------------------------------------------------


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with folder.place(monkeypatch) as path:
        yield path


def test_a_function_that_a_stopped_domain_names_is_taken_for_everybody_else(base: Path) -> None:
    """Else the first function is chosen at every apply, and every start fails."""
    site = simulated_site(base, "l40s")
    bus, _, rest = "26:00.4".partition(":")
    address = f"<address domain='0x0000' bus='0x{bus}' slot='0x{rest[:2]}' function='0x4'/>"
    hostdev = f"<hostdev mode='subsystem' type='pci'><source>{address}</source></hostdev>"
    xml = f"<domain><name>old</name><uuid>{name_uuid('old')}</uuid><devices>{hostdev}</devices></domain>"
    (base / "domains" / f"{name_uuid('old')}.off").write_text(xml)
    wanted = machine("a", vgpus=[vgpu("a", gpu=L40S, type="L40S-12Q", handle=None)])
    report: Any = applying.apply(site, desired.parse(json.dumps(document(wanted))), NOW)
    assert [step["error"] for step in report["steps"]] == [None, None, None]
    assert [made.device for made in Ledger(site.host.state_dir)] == ["0000:26:00.5"]
