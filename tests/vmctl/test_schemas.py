"""Every document has a JSON Schema and an example, and what we really print fits it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, FormatChecker, ValidationError

from tests.vmctl.build import (
    NOW,
    PORTAL,
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
from vmctl import desired, gpus, report, simulate
from vmctl.card import Unknown
from vmctl.errors import Code, VmctlError
from vmctl.observation import Disk, ForeignDomain, MachineState
from vmctl.reconcile import plan
from vmctl.report import Outcome
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
    for wrong in ({"generation": -1}, {"surprise": 1}, {"machines": [machine() | {"hostname": "A"}]}):
        with pytest.raises(ValidationError):
            check("desired", whole | wrong)
        with pytest.raises(VmctlError):
            desired.parse(json.dumps(whole | wrong))


def full_report() -> report.Json:
    """A report with something of everything."""
    mine = running("a", asked=NOW, marked=(marked("a"),), address="10.0.0.7", console=True)
    host = observed(
        mine,
        *(running(str(number)) for number in range(4)),
        foreign=(
            ForeignDomain("theirs", name_uuid("theirs"), MachineState.OFF, frozenset({"0000:3b:00.0"}), "It is stuck."),
        ),
        gpus=(card(share("a", mine.machine), share("x")),),
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
    check("gpus", report.gpus_json("sim", NOW, True, gpus.inventory(host)))


def test_an_error_fits() -> None:
    check("error", report.error_json(VmctlError(Code.BUSY, "Busy.", "Wait.", retry=True)))
