"""A card that has fallen off the bus: its files say what they said, and it gets no share."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.vmctl.gpus.test_provide import T4, wanted
from vmctl import gpus
from vmctl.card import Regime
from vmctl.errors import Code, VmctlError
from vmctl.model import Place
from vmctl.simulate import SimulatedHost, faults

OTHER = "0000:af:00.0"


@pytest.fixture
def lost(t4: SimulatedHost) -> SimulatedHost:
    faults.lose(t4.root, T4)
    return t4


def test_it_is_said_of_the_card(lost: SimulatedHost) -> None:
    card = next(each for each in gpus.inventory(lost) if each.address == T4)
    assert "fallen off the bus" in card.reason
    assert any(gap.what == "types" and "fallen off" in gap.reason for gap in card.unknown)


@pytest.mark.parametrize("regime", [Regime.EQUAL, Regime.WHOLE])
def test_it_gets_no_share(lost: SimulatedHost, regime: Regime) -> None:
    cell = None if regime is Regime.WHOLE else (0, 1)
    with pytest.raises(VmctlError, match="fallen off the bus") as refused:
        gpus.provide(lost, replace(wanted(T4, "T4-4Q"), regime=regime, cell=cell))
    assert refused.value.code == Code.NO_CAPACITY
    assert "Reboot" in refused.value.remedy


def test_another_card_is_tried(lost: SimulatedHost) -> None:
    share = replace(wanted(T4, "T4-4Q"), alternatives=(Place(OTHER, (0, 1), 0),))
    assert gpus.provide(lost, share).gpu == OTHER


def test_what_was_on_it_is_still_seen_and_can_go(t4: SimulatedHost) -> None:
    made = gpus.provide(t4, wanted(T4, "T4-4Q"))
    faults.lose(t4.root, T4)
    assert made.uuid in {share.uuid for share in gpus.provided(t4)}
    gpus.release(t4, made)
    assert gpus.provided(t4) == []
