"""Whole cards and parts of them in any order: never both, and the tree is the first one when all have gone."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.vmctl.gpus.hosts import FLEX, L40S, card, flex, simulated, snapshot, want
from vmctl import gpus
from vmctl.card import CardChange, Knob, ProvidedVGPU, Regime
from vmctl.errors import Code, VmctlError
from vmctl.ledger import Ledger
from vmctl.simulate import SimulatedHost
from vmctl.simulate.holders import hold, let_go

WISHES = st.integers(0, 5)


class Mixture(RuleBasedStateMachine):
    """Six wishes, each for a part of a card or for the whole of it; a machine may hold what it has."""

    cards: tuple[str, ...] = (L40S, "0000:a6:00.0")
    part, regime, most, count = "L40S-12Q", Regime.EQUAL, 4, 16

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
        self.host = self.begin(self.folder)
        self.first = snapshot(self.host)
        self.uuids = [want(L40S, self.part).uuid for _ in range(6)]
        self.model: dict[str, ProvidedVGPU] = {}
        self.held: set[str] = set()

    def begin(self, folder: Path) -> SimulatedHost:
        return simulated(folder, "l40s")

    def teardown(self) -> None:
        for share in tuple(self.held):
            self.let_go(share)
        for each in self.model.values():
            gpus.release(self.host, each)
        assert snapshot(self.host) == self.first
        assert list(Ledger(self.host.state_dir)) == []
        shutil.rmtree(self.folder)

    def on(self, gpu: str, but: str) -> list[ProvidedVGPU]:
        return [share for uuid, share in self.model.items() if share.gpu == gpu and uuid != but]

    @rule(wish=WISHES, number=st.integers(0, 1), whole=st.booleans(), handle=st.integers(0, 4))
    def provide(self, wish: int, number: int, whole: bool, handle: int) -> None:
        uuid, gpu = self.uuids[wish], self.cards[number % len(self.cards)]
        if uuid in self.held:
            return  # its machine runs: nobody asks for it anew
        regime = Regime.WHOLE if whole else self.regime
        asked = replace(want(gpu, "whole" if whole else self.part, regime, handle=handle), uuid=uuid)
        others = self.on(gpu, uuid)
        fits = not others if whole else len(others) < self.most and all(each.regime is regime for each in others)
        if fits:
            self.model[uuid] = gpus.provide(self.host, asked, "machine")
            return
        with pytest.raises(VmctlError) as refusal:
            gpus.provide(self.host, asked, "machine")
        assert refusal.value.code in (Code.BUSY, Code.NO_CAPACITY, Code.COULD_NOT_TELL)
        assert refusal.value.retry
        self.model = {share.uuid: share for share in gpus.provided(self.host) if share.uuid is not None}
        assert set(self.model) >= {each.uuid for each in others}  # nobody else's went for it

    @rule(wish=WISHES)
    def start_a_machine(self, wish: int) -> None:
        share = self.model.get(self.uuids[wish])
        if share is not None:
            group = self.host.link(self.host.pci(share.parent) / "iommu_group")
            hold(self.host.root, f"/dev/vfio/{group}", process=5000 + wish)
            self.held.add(self.uuids[wish])

    @rule(wish=WISHES)
    def end_it(self, wish: int) -> None:
        self.let_go(self.uuids[wish])

    def let_go(self, uuid: str) -> None:
        let_go(self.host.root, process=5000 + self.uuids.index(uuid))
        self.held.discard(uuid)

    @rule(wish=WISHES)
    def release(self, wish: int) -> None:
        share = self.model.get(self.uuids[wish])
        if share is None:
            return
        if self.uuids[wish] in self.held:
            with pytest.raises(VmctlError, match="in use by process"):
                gpus.release(self.host, share)
            return
        gpus.release(self.host, share)
        del self.model[self.uuids[wish]]

    @rule(number=st.integers(0, 1))
    def switch_the_functions(self, number: int) -> None:
        gpu = self.cards[number % len(self.cards)]
        held = self.on(gpu, "")
        if held:
            other = self.count if held[0].regime is Regime.WHOLE else 0
            with pytest.raises(VmctlError, match="not empty"):
                gpus.change(self.host, CardChange(gpu, Knob.VFS, other))
            return
        gpus.change(self.host, CardChange(gpu, Knob.VFS, 0))
        gpus.change(self.host, CardChange(gpu, Knob.VFS, self.count))

    @invariant()
    def what_exists_is_what_was_made(self) -> None:
        assert {share.uuid: share for share in gpus.provided(self.host)} == self.model

    @invariant()
    def a_card_is_in_the_regime_of_its_shares(self) -> None:
        for gpu in self.cards:
            held = self.on(gpu, "")
            assert {share.regime for share in held} <= {card(self.host, gpu).regime}


class MixtureOfParts(Mixture):
    cards = (FLEX,)
    part, regime, most, count = "VF-1of4", Regime.VF, 4, 4

    def begin(self, folder: Path) -> SimulatedHost:
        return flex(folder)


SETTINGS = settings(max_examples=6, stateful_step_count=14, deadline=None, suppress_health_check=list(HealthCheck))
TestByNumbers = Mixture.TestCase
TestByNumbers.settings = SETTINGS
TestOfParts = MixtureOfParts.TestCase
TestOfParts.settings = SETTINGS
