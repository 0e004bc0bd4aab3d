"""How long an apply takes at most: the parts of it, and that none of them outlasts what is left."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as portal

from tests.vmctl import folder
from tests.vmctl.build import NOW, Json, document, machine, settings, vgpu
from tests.vmctl.folder import simulated_site
from vmctl import apply as applying
from vmctl import firewall
from vmctl.commands import TooSlow
from vmctl.errors import Code, VmctlError
from vmctl.host import LEAST_SECONDS, Host
from vmctl.hypervisor import Hypervisor
from vmctl.plan import desired
from vmctl.plan.steps import REBIND_SECONDS, START_SECONDS
from vmctl.simulate import reboot
from vmctl.site import Site
from vmctl.state import locked

L40S, SECOND = "0000:26:00.0", "0000:a6:00.0"


def test_the_portal_waits_for_the_longest_apply() -> None:
    assert portal.APPLY_TIMEOUT_SECONDS >= applying.LONGEST_SECONDS


def test_every_step_fits_into_an_apply_that_has_nothing_else_to_do() -> None:
    assert REBIND_SECONDS + START_SECONDS < applying.BUDGET_SECONDS


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with folder.place(monkeypatch) as base:
        yield simulated_site(base, "l40s")


def apply(site: Site, *machines: Json, budget: float, **other: Any) -> list[tuple[str, str]]:
    text = json.dumps(document(*machines, stop_grace_seconds=0, **other))
    report: Any = applying.apply(site, desired.parse(text), NOW, budget)
    return [(step["kind"], "done" if step["done"] else step["error"]["code"]) for step in report["steps"]]


def test_a_step_that_would_not_be_over_in_time_is_left_and_shorter_ones_are_done(site: Site) -> None:
    cards = [settings(L40S, regime="equal")]
    whole = machine("w", vgpus=[vgpu("w", gpu=SECOND, type="NVIDIA L40S", regime="whole", cell=None, handle=None)])
    plain = machine("p")
    reboot(site.host.root)
    short = apply(site, whole, plain, cards=cards, budget=REBIND_SECONDS - 1)
    assert sorted(short) == sorted(
        [
            *(("card", "later"), ("provide", "later"), ("disk", "later"), ("start", "later")),
            *(("disk", "done"), ("start", "done")),
        ]
    )
    assert {said for _, said in apply(site, whole, plain, cards=cards, budget=600)} == {"done"}


def test_a_command_ends_when_the_time_of_all_is_over(tmp_path: Path) -> None:
    host = Host("here", root=tmp_path, state_dir=tmp_path).by(time.monotonic() + 0.1)
    began = time.monotonic()
    with pytest.raises(TooSlow):
        host.driver_tool(["sleep", "30"], limit=60, changes=False)
    with pytest.raises(TooSlow):
        host.run(["sleep", "30"], limit=60)
    assert time.monotonic() - began < 2 * LEAST_SECONDS + 3
    assert host.left(60) == LEAST_SECONDS
    assert Host("here").left(60) == 60


def test_libvirt_and_the_firewall_are_not_waited_for_longer_than_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Asleep:
        """A libvirt that never comes back."""

        def createXML(self, xml: str, flags: int) -> None:
            time.sleep(30)

    monkeypatch.setattr(firewall, "LOCK", tmp_path / "firewall")
    hypervisor = Hypervisor(Asleep())
    host = Host("here").by(time.monotonic() + 0.2)
    began = time.monotonic()
    with locked(tmp_path / "firewall"), hypervisor.hurried(host.left), pytest.raises(VmctlError) as caught:
        hypervisor.start("<domain/>")
    assert caught.value.code == Code.TIMEOUT
    assert time.monotonic() - began < 2 * LEAST_SECONDS + 3
