"""A card cannot be given away because of its neighbours, or because the host has no IOMMU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab import board
from tests.lab.desired import NOT_VIABLE, ON_CARD, ON_FUNCTION, VENDOR, WHOLE, Caller, clean, machine
from tests.lab.machine import Lab

pytestmark = pytest.mark.timeout(1200)


def test_a_card_whose_group_goes_to_nobody(caller: Caller) -> None:
    """A network card that the host uses shares its IOMMU group: that is named before anything is bound."""
    wish = machine(NOT_VIABLE)
    told = {wish["machine"]: [board.ODD_NEIGHBOUR, NOT_VIABLE.gpu]}
    error = caller.until_told(told, caller.want(wish)).of(wish["machine"])
    assert (error["code"], error["retry"]) == ("failed", False), error
    found = caller.findings().words("iommu.group_viable", NOT_VIABLE.gpu)
    assert found.startswith("warn"), found
    assert board.ODD_NEIGHBOUR in found, found


@pytest.fixture
def without_iommu(lab_host: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    """Another lab host, booted with its IOMMU off. The usual one stands still meanwhile."""
    other = None
    lab_host.freeze()
    try:
        other = Lab.start(tmp_path_factory.mktemp("no-iommu"), kernel="intel_iommu=off", ready=lab_host.ready)
        with clean(other) as caller:
            yield caller
    finally:
        if other is not None:
            other.stop()
        lab_host.thaw()


def test_a_host_whose_iommu_is_off(without_iommu: Caller) -> None:
    """Mediated devices need none; whole cards, and functions that a machine has as they are, do."""
    caller = without_iommu
    mediated, given = [machine(way) for way in (ON_CARD, ON_FUNCTION)], [machine(way) for way in (WHOLE, VENDOR)]
    told = {wish["machine"]: ["IOMMU", way.gpu] for way, wish in zip((WHOLE, VENDOR), given, strict=True)}
    answer = caller.until_told(told, caller.want(*mediated, *given))
    names = {wish["machine"] for wish in mediated}
    caller.until("mediated devices work", lambda answer: answer.running == names, answer)
    found = caller.findings().words("iommu.enabled")
    assert found.startswith("fail"), found
    assert "intel_iommu=off" in found.splitlines()[-1], found
