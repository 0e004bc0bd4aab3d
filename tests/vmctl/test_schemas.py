"""Every document has a JSON Schema and an example, and what we really print fits it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, FormatChecker, ValidationError

from tests.vmctl.build import (
    GPU_ADDRESS,
    NOW,
    PORTAL,
    Json,
    card,
    document,
    machine,
    marked,
    name_uuid,
    observed,
    running,
    share,
    state,
    vgpu,
)
from vmctl import gpus, simulate
from vmctl.answers import cards as cards_report
from vmctl.answers import catalogue, report
from vmctl.answers.report import Outcome
from vmctl.card import (
    GPU,
    Framework,
    Mode,
    Policy,
    ProvidedVGPU,
    Regime,
    Scheduler,
    Unknown,
    VFs,
    VGPUType,
)
from vmctl.errors import Code, VmctlError
from vmctl.model import NumaNode
from vmctl.observation import Capacity, Disk, ForeignDomain, MachineState, Whose
from vmctl.plan import desired
from vmctl.plan.reconcile import plan
from vmctl.state import Memory

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
NAMES = sorted(path.name.removesuffix(".schema.json") for path in SCHEMAS.glob("*.schema.json"))


def validator(name: str) -> Draft202012Validator:
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema, format_checker=FormatChecker())


def check(name: str, value: Any) -> None:
    validator(name).validate(json.loads(json.dumps(value)))


@pytest.mark.parametrize("name", NAMES)
def test_each_has_an_example_that_fits(name: str) -> None:
    check(name, json.loads((SCHEMAS / f"{name}.example.json").read_text()))


def test_every_example_has_a_schema() -> None:
    assert sorted(path.name.removesuffix(".example.json") for path in SCHEMAS.glob("*.example.json")) == NAMES


def test_the_example_of_a_desired_state_is_taken() -> None:
    assert desired.parse((SCHEMAS / "desired.example.json").read_text()).machines


def test_the_schema_takes_and_refuses_what_vmctl_does() -> None:
    whole = document(machine("a", vgpus=[vgpu("a"), vgpu("b", cell=None, handle=None, regime="whole")]))
    check("desired", whole)
    capital = machine("a")["machine"].upper()
    assert capital != capital.lower()
    for wrong in (
        {"generation": -1}, {"surprise": 1}, {"machines": [machine() | {"hostname": "A"}]}, {"schema": True},
        {"portal": capital}, {"purge": [capital]}, {"machines": [machine() | {"machine": capital}]},
    ):  # fmt: skip
        with pytest.raises(ValidationError):
            check("desired", whole | wrong)
        with pytest.raises(VmctlError):
            desired.parse(json.dumps(whole | wrong))


def full_card(mine: str, theirs: str) -> GPU:
    """A card about which there is something to tell in every field."""
    slices = VGPUType(
        name="A40-12Q",
        driver_id="nvidia-563",
        series="Q",
        memory_mib=12288,
        size_group="12G",
        regime=Regime.MIG,
        max=4,
        cells=((0, 4), (4, 8)),
        free_cells=((4, 8),),
        slots=((0, 1), (1, 2)),
        free=3,
        gi_profile="3g.20gb",
        media=True,
    )
    foreign = ProvidedVGPU(None, GPU_ADDRESS, "", Framework.VENDOR_VFIO, "0000:3b:00.5", "", 1, theirs)
    ours = share("a", mine, cell=(0, 4), slot=(0, 2), regime=Regime.MIG, licence="Licensed")
    return card(
        ours,
        foreign,
        share("x"),
        reason="It has virtual functions of NVIDIA's own driver.",
        uuid="GPU-00000000-0000-4000-8000-00000003b000",
        numa_node=0,
        driver="nvidia",
        iommu_group="40",
        iommu_members=(GPU_ADDRESS, "0000:3b:00.1"),
        vfs=VFs(32, 32, 30),
        memory_mib=49152,
        handles=32,
        regime=Regime.MIG,
        regimes=(Regime.MIG, Regime.WHOLE),
        regime_change_seconds=60,
        mig=Mode(True, True),
        ecc=Mode(True, False),
        mixed=False,
        scheduler=Scheduler(Policy.FIXED_SHARE, 3000),
        types=(slices,),
        unknown=(Unknown("types.A40-12Q.free", "It says nothing."),),
    )


def full_report() -> Json:
    """A report with something of everything."""
    mine = running("a", asked=NOW, marked=(marked("a"),), address="10.0.0.7", console=True)
    host = observed(
        mine,
        *(running(str(number)) for number in range(4)),
        foreign=(
            ForeignDomain("theirs", name_uuid("theirs"), MachineState.OFF, frozenset({"0000:3b:00.0"}), "It is stuck."),
        ),
        gpus=(full_card(mine.machine, name_uuid("theirs")),),
        capacity=Capacity(2, 4096, 10000, (NumaNode(0, "0-1", 4096),)),
        disks=(Disk(mine.machine, 12, True, True),),
        ours=frozenset({name_uuid("vgpu a")}),
        unknown=(Unknown("state of theirs", "It did not answer."),),
    )
    found = plan(state(machine("new", vgpus=[vgpu("new")])), host, NOW)
    trouble = VmctlError(Code.FAILED, "It did not work.", "Try again.", retry=True)
    outcomes = [Outcome(step, done=False, error=trouble) for step in found.steps]
    return report.report_json(host, Memory(PORTAL, 42, NOW, 60, 900), outcomes, found.needs_confirmation)


def test_a_full_report_fits() -> None:
    whole = full_report()
    assert whole["steps"]
    assert whole["needs_confirmation"]
    check("report", whole)


def test_a_report_before_any_portal_called_fits() -> None:
    check("report", report.report_json(observed(), None))


@pytest.mark.parametrize("layout", ["t4", "a40"])
def test_the_gpus_of_a_simulated_host_fit(tmp_path: Path, layout: str) -> None:
    simulate.prepare(tmp_path / "root", layout)
    host = simulate.SimulatedHost("sim", root=tmp_path / "root", state_dir=tmp_path)
    nobody = Whose({}, frozenset())
    check("gpus", cards_report.gpus_json("sim", NOW, True, gpus.inventory(host), nobody))


def test_every_field_of_a_card_comes_through() -> None:
    mine = running("a")
    whose = observed(mine, gpus=(full_card(mine.machine, name_uuid("theirs")),)).whose
    found: Any = cards_report.gpu_json(full_card(mine.machine, "x"), whose)
    assert found["group_members"] == [GPU_ADDRESS, "0000:3b:00.1"]
    assert found["vfs"] == {"total": 32, "enabled": 32, "free": 30}
    assert (found["mig"], found["ecc"]) == ({"current": True, "pending": True}, {"current": True, "pending": False})
    assert found["scheduler"] == {"policy": "fixed_share", "time_slice_us": 3000}
    assert found["unknown"] == {"types.A40-12Q.free": "It says nothing."}
    (kind,) = found["types"]
    assert (kind["gi_profile"], kind["media"], kind["slots"]) == ("3g.20gb", True, [[0, 1], [1, 2]])
    ours, foreign, nobodys = found["holders"]
    assert (ours["machine"], ours["domain"], ours["state"], ours["ours"]) == (mine.machine, mine.name, "running", True)
    assert (ours["cell"], ours["slot"], ours["licence"]) == ([0, 4], [0, 2], "Licensed")
    assert (foreign["uuid"], foreign["device"], foreign["domain"], foreign["ours"]) == (
        None,
        "0000:3b:00.5",
        None,
        False,
    )
    assert (nobodys["machine"], nobodys["ours"]) == (None, False)


def test_a_number_that_nobody_told_is_null_and_never_0() -> None:
    untold = replace(full_card("x", "y"), handles=None)
    untold = replace(untold, types=(replace(untold.types[0], max=None, free=None, free_cells=()),))
    whole: Any = cards_report.gpus_json("sim", NOW, True, [untold], Whose({}, frozenset()))
    check("gpus", whole)
    check("report", report.report_json(observed(gpus=(untold,)), None))
    check("types", catalogue.types_json("sim", NOW, True, [untold]))
    (card,) = whole["gpus"]
    assert (card["handles"], card["types"][0]["max"], card["types"][0]["free"]) == (None, None, None)


def test_how_much_of_a_node_is_taken_comes_through() -> None:
    nodes = (NumaNode(0, "0-1", 4096, used_mib=1024),)
    found: Any = report.report_json(observed(capacity=Capacity(2, 4096, 10000, nodes)), None)
    check("report", found)
    assert found["capacity"]["nodes"] == [{"node": 0, "vcpus": 2, "memory_mib": 4096, "used_memory_mib": 1024}]


def test_an_error_fits() -> None:
    check("error", report.error_json(VmctlError(Code.BUSY, "Busy.", "Wait.", retry=True)))
