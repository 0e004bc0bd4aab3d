"""Hosts are brought to a new release one after the other: what a release before answers is understood, and obeyed.

tests/data/releases/ keeps of each release what its vmctl answers, and the schema of what it takes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, FormatChecker

from portal.enforcement.models import HostState
from portal.enforcement.report import parse
from portal.gateway import GatewayError, answers
from portal.inventory import actions as inventory
from portal.inventory.models import GPU
from tests import make
from tests.fakes import FakeHost
from tests.portal.enforcement.conftest import Stage

RELEASES = sorted((Path(__file__).parents[2] / "data/releases").iterdir())
every_release = pytest.mark.parametrize("release", RELEASES, ids=[release.name for release in RELEASES])


def answer(release: Path, name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((release / f"{name}.json").read_text())
    return document


class OldHost(FakeHost):
    """Answers as its release did, whatever it is asked."""

    told: Mapping[str, Any]

    def report(self, desired: Mapping[str, Any], steps: list[dict[str, Any]]) -> dict[str, Any]:
        mine = {"host": self.name, "portal": desired["portal"], "generation": desired["generation"]}
        return {**self.told, **mine}


@every_release
def test_a_report_is_understood_and_recorded(stage: Stage, release: Path) -> None:
    host = OldHost(stage.world.host.name)
    host.told = answer(release, "report")
    stage.host(host, stage.world.host)
    stage.tick()
    state = HostState.objects.get()
    assert (state.last_error, (state.report or {})["vmctl"]) == (None, release.name)
    seen = {gpu["address"] for gpu in host.told["gpus"]}
    assert set(GPU.objects.filter(facts__has_key="framework").values_list("address", flat=True)) >= seen
    assert len(parse(host.told).machines) == len(host.told["machines"]) > 0


@every_release
def test_its_gpus_are_understood(db: None, release: Path) -> None:
    host = make.host("gpu1", gpus=[])
    found = inventory.record_inventory(host, answer(release, "gpus"), make.NOW)
    assert found
    assert any(gpu.types.exists() for gpu in found)


@every_release
def test_its_errors_are_understood(release: Path) -> None:
    told = answer(release, "error")
    with pytest.raises(GatewayError) as error:
        answers.read(1, json.dumps(told), "", answers=(0,), what="apply on gpu1")
    assert error.value.as_dict() == told["error"]


@every_release
def test_what_is_wanted_of_it_fits_its_schema(stage: Stage, release: Path) -> None:
    """vmctl refuses a field that it does not know, so a new one must not go to an older host."""
    schema = json.loads((release / "desired.schema.json").read_text())
    validator = Draft202012Validator(schema, format_checker=FormatChecker())
    image = stage.world.image
    image.firmware, image.tpm, image.licence = "uefi-secure", True, 1
    inventory.save_choice(image, by=None, now=make.NOW)
    gpu = stage.world.host.gpus.get()
    gpu.wanted_regime, gpu.scheduler_policy, gpu.time_slice_us = "equal", "fixed_share", 3000
    gpu.offered_types = ["T4-4Q"]
    inventory.save_gpu(gpu, by=None, now=make.NOW)
    stage.world.book(1, 3)
    stage.world.book(1, 2, disposable=True)
    for hours in (0.5, 1, 2, 2.5, 3, 4):
        stage.at(hours).tick()
    calls = stage.hosts.hosts["sim-t4"].calls
    assert {machine["order"] for call in calls for machine in call["machines"]} == {"run", "stop"}
    assert any(call["cards"] for call in calls)
    for call in calls:
        validator.validate(json.loads(json.dumps(call)))
