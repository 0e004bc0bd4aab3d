"""Acceptance of a card, trial by trial: who must not be on it, every legal place, and what counts as a refusal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.vmctl import folder
from tests.vmctl.build import NOW, Json, document, settings
from tests.vmctl.folder import FolderHypervisor, simulated_site
from vmctl import accept as accepting
from vmctl import apply as applying
from vmctl import gpus, guest_trial
from vmctl.card import GPU, VGPUType
from vmctl.errors import Code, VmctlError
from vmctl.gpus import processes
from vmctl.guest_trial import GuestTrial
from vmctl.plan import desired
from vmctl.simulate import holders
from vmctl.site import Site

A40 = "0000:41:00.0"
FEW = ("A40-16Q", "A40-24Q")


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A card of mixed sizes with two types, and a guest that always sees it."""
    with folder.place(monkeypatch) as base:
        found = simulated_site(base, "a40-mixed")
        cards = [settings(A40, regime="mixed")]
        applying.apply(found, desired.parse(json.dumps(document(cards=cards))), NOW)
        monkeypatch.setattr(guest_trial, "boot", lambda *_: GuestTrial("A40-16Q", 0.1, stand_in="nobody"))
        monkeypatch.setattr(gpus, "inventory", only(lambda kind: kind if kind.name in FEW else None))
        yield found


def only(told: Callable[[VGPUType], VGPUType | None]) -> Any:
    """The inventory with each type as `told` has it, or without it."""
    truth = gpus.inventory

    def inventory(host: Any) -> list[GPU]:
        return [
            replace(gpu, types=tuple(kind for kind in map(told, gpu.types) if kind is not None)) for gpu in truth(host)
        ]

    return inventory


def accept(site: Site, rounds: int = 1) -> Json:
    return accepting.accept(site, A40, rounds, "demo", lambda line: None)


def problems(site: Site) -> str:
    report = accept(site)
    assert not report["accepted"]
    return " ".join(report["problems"])


@pytest.mark.parametrize("rounds", [1, 3])
def test_over_all_rounds_every_legal_place_is_tried_by_itself(site: Site, rounds: int) -> None:
    legal = {kind.name: sorted(kind.cells) for gpu in gpus.inventory(site.host) for kind in gpu.types}
    report = accept(site, rounds)
    assert report["problems"] == []
    for name, cells in legal.items():
        trials = [trial for each in report["rounds"] for trial in each["types"] if trial["type"] == name]
        assert sorted(tuple(cell) for trial in trials for cell in trial["cells"]) == cells


def test_a_place_that_is_free_though_nobody_said_so_is_a_problem(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    shy = only(lambda kind: replace(kind, free_cells=kind.free_cells[1:]))
    monkeypatch.setattr(gpus, "inventory", shy)
    assert "A40-16Q at [0, 16] was made, though the place was not said to be free." in problems(site)


def test_a_place_that_is_said_to_be_free_and_is_refused_is_a_problem(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = gpus.provide

    def choosy(host: Any, wanted: Any, machine: str = "") -> Any:
        if wanted.cell == (0, 16) and wanted.handle is None:
            raise VmctlError(Code.NO_CAPACITY, "Not there.", "")
        return truth(host, wanted, machine)

    monkeypatch.setattr(gpus, "provide", choosy)
    assert "A40-16Q at [0, 16] was not made: Not there." in problems(site)


def test_only_a_refusal_for_want_of_room_is_a_refusal(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    truth = gpus.provide

    def slow(host: Any, wanted: Any, machine: str = "") -> Any:
        if wanted.handle == 2:
            raise VmctlError(Code.TIMEOUT, "It gave no answer.", "")
        return truth(host, wanted, machine)

    monkeypatch.setattr(gpus, "provide", slow)
    assert "A40-24Q failed, and was not refused: It gave no answer." in problems(site)


def test_what_is_said_of_a_card_in_part_full_is_compared_too(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(kind: VGPUType) -> VGPUType:
        return replace(kind, free=3) if len(kind.free_cells) < len(kind.cells) else kind

    monkeypatch.setattr(gpus, "inventory", only(forgetful))
    assert "A40-16Q had room for 3 more after the first, as vmctl said; 1 were made" in problems(site)


def test_a_number_that_is_not_told_is_no_number(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "inventory", only(lambda kind: replace(kind, free=None)))
    assert "A40-16Q: how many fit could not be told." in problems(site)


@pytest.mark.parametrize(("command", "accepted"), [("python3", False), ("nvidia-vgpu-mgr", True)])
def test_a_program_on_the_card_is_its_user_and_the_drivers_own_is_not(site: Site, command: str, accepted: bool) -> None:
    (node,) = processes.gpu_nodes(site.host, A40)
    holders.hold(site.host.root, node, command=command)
    if accepted:
        assert accept(site)["accepted"]
        return
    with pytest.raises(VmctlError, match=r"in use: process 4242 \(python3\)") as caught:
        accept(site)
    assert caught.value.code == Code.BUSY


@pytest.mark.parametrize("seconds", [60.0, 0.0])
def test_a_guest_whose_start_goes_on_is_waited_for(site: Site, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """libvirt answers nothing about a machine that it is just starting; the report is not lost for that."""
    silent = [VmctlError(Code.TIMEOUT, "libvirt did not answer.", "Look at its log.", retry=True)] * 2

    def force_stop(hypervisor: FolderHypervisor, uuid: str) -> None:
        if silent:
            raise silent.pop()

    monkeypatch.setattr(FolderHypervisor, "force_stop", force_stop)
    monkeypatch.setattr(guest_trial, "STARTING_SECONDS", seconds)
    if seconds:
        assert accept(site)["accepted"]
    else:
        with pytest.raises(VmctlError, match="did not answer"):
            accept(site)
