"""What people read in a terminal of 80 columns: nothing is cut, and nothing said eight times."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.vmctl.build import NOW
from vmctl import checks, gpus
from vmctl.answers import cards, catalogue, tables
from vmctl.card import Unknown
from vmctl.observation import Whose
from vmctl.simulate import SimulatedHost, prepare
from vmctl.site import Site

LAYOUTS = ["t4", "v100x8", "gvtg", "a100-mig", "rtx-pro-6000"]
GAP = Unknown("claims", "libvirt was not asked, since nobody knows where it listens, and that for a long time already.")


def host(folder: Path, layout: str) -> SimulatedHost:
    prepare(folder / "root", layout)
    return SimulatedHost("sim", root=folder / "root", state_dir=folder / "state")


def shown(capsys: pytest.CaptureFixture[str], show: Any, document: object) -> str:
    show(json.loads(json.dumps(document)))
    return capsys.readouterr().out


def refuse_wide_lines(printed: str, columns: int) -> None:
    assert [line for line in printed.splitlines() if len(line) > columns and " " in line.strip()] == []


@pytest.mark.parametrize("columns", [80, 160])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_cards_and_types_stand_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, layout: str, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    there = gpus.inventory(host(tmp_path, layout))
    told = cards.gpus_json("sim", NOW, True, there, Whose({}, frozenset()), [GAP])
    for printed in (
        shown(capsys, tables.show_gpus, told),
        shown(capsys, tables.show_types, catalogue.types_json("sim", NOW, True, there, [GAP])),
    ):
        refuse_wide_lines(printed, columns)
        assert printed.startswith("sim: simulated GPUs, ")
        words = set(re.split(r"[\s,]+", printed))
        for gpu in there:
            names = {gpu.address, *(kind.name.split()[-1] for kind in gpu.types)}
            assert names | {kind.driver_id for kind in gpu.types} <= words
        assert GAP.reason in " ".join(printed.split())
        assert len(printed.splitlines()) < 60


def test_what_the_doctor_asks_for_stands_whole_and_the_rest_is_a_list_of_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    here = host(tmp_path, "v100x8")
    site = Site(here, "qemu+unix:///system?socket=/nowhere", tmp_path, tmp_path, tmp_path, "tessera")
    document = checks.document(site, checks.run(site), NOW)
    printed = shown(capsys, tables.show_findings, document)
    refuse_wide_lines(printed, 80)
    text = " ".join(printed.split())
    findings: Any = document["findings"]
    for finding in findings:
        assert finding["id"] in text
        if finding["status"] not in tables.QUIET:
            assert " ".join(finding["remedy"].split()) in text
            assert [each for each in finding["evidence"] if " ".join(each["said"].split()) not in text] == []
    assert {finding["status"] for finding in findings} > set(tables.QUIET)
    assert len(printed.splitlines()) < 80


def test_nothing_that_a_host_says_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    finding = {"id": "x", "subject": "host", "status": "fail", "remedy": "[bold]a\x1b[2J\rb\x07"}
    findings = [finding | {"evidence": [{"source": "/proc/\x1b]0;me\x07", "said": "y\nz"}]}]
    document = {"host": "h", "checked_at": "now", "simulated": False, "findings": findings}
    printed = shown(capsys, tables.show_findings, document)
    assert re.search(r"[\x00-\x09\x0b-\x1f\x7f]", printed) is None
    assert "[bold]a" in printed
