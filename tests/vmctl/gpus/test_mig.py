"""GPU instances: made where the plan says, taken away with their share, never somebody else's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.vmctl.gpus import told as given_by
from tests.vmctl.gpus.trees import function, plant
from vmctl.card import Mode, Regime
from vmctl.errors import Code, VmctlError
from vmctl.gpus import cards
from vmctl.gpus.cards import Card
from vmctl.gpus.driver.answers import Active, DriverFacts, Instance
from vmctl.gpus.layers import mig
from vmctl.gpus.layers.places import is_left_over, seen
from vmctl.gpus.shares import Making, Survey
from vmctl.host import Answer, Host, run_command
from vmctl.ledger import Ledger, Made
from vmctl.model import WantedVGPU

GPU, FUNCTION = "0000:41:00.0", "0000:41:00.4"
TOLD = given_by.mig_card(given_by.profiles(given_by.A100_80))
NAMES = given_by.A100_80


@dataclass
class SMI:
    """nvidia-smi mig of one card: what exists, and what it refuses."""

    there: list[Instance] = field(default_factory=list)
    refuses: dict[str, str] = field(default_factory=dict)  # option -> text
    lies: bool = False  # exit status 0 and nothing done
    halves: bool = False  # the GPU instance comes, its compute instance does not
    asked: list[Sequence[str]] = field(default_factory=list)

    def __call__(self, command: Sequence[str], *, limit: float, given: str = "") -> Answer:
        if command[0] != "nvidia-smi":
            return run_command(command, limit=limit, given=given)
        assert command[1:4] == ["mig", "-i", GPU]
        option, *words = command[4:]
        self.asked.append(command[4:])
        if option in self.refuses:
            return Answer(5, f"Failed: {self.refuses[option]}\n", "")
        if option == "-lgi":
            return (
                Answer(0, drawn(self.there), "") if self.there else Answer(6, "No GPU instances found: Not Found\n", "")
            )
        if not self.lies:
            getattr(self, option.lstrip("-"))(words)
        if self.halves and option == "-cgi":
            return Answer(5, "Failed to create compute instances: Insufficient Resources\n", "")
        return Answer(0, "Successfully did it\n", "")

    def cgi(self, words: list[str]) -> None:
        number, _, start = words[0].partition(":")
        assert words[1:] == ["-C"]
        size = given_by.EIGHT_SLICES[int(number)][1]
        self.there.append(Instance(len(self.there) + 3, NAMES[int(number)], int(number), int(start), size))

    def dci(self, words: list[str]) -> None:
        assert words[0] == "-gi"

    def dgi(self, words: list[str]) -> None:
        self.there = [each for each in self.there if each.id != int(words[1])]


def drawn(there: Sequence[Instance]) -> str:
    """`nvidia-smi mig -lgi`."""
    rule = "+----------------------------------------------------+"
    rows = [f"|   0  MIG {i.profile:<12} {i.profile_id:>2} {i.id:>8} {i.start:>10}:{i.size}   |\n{rule}" for i in there]
    return "\n".join([rule, "| GPU instances:                                     |", f"|{'=' * 52}|", *rows, ""])


@dataclass
class Ground:
    """A host with one card in MIG mode."""

    host: Host
    smi: SMI
    card: Card

    def making(self, name: str, start: int, uuid: str = "a", kind: str = "A100D-3-40C", size: int = 4) -> Making:
        wish = WantedVGPU(uuid, GPU, kind, Regime.MIG, (start, start + size), 0)
        return Making(wish, name, Ledger(self.host.state_dir))

    def make(self, start: int, uuid: str = "a", told: DriverFacts = TOLD, **other: Any) -> None:
        mig.make_room(self.host, self.card, self.making("m", start, uuid, **other), told)

    def vgpu(self, uuid: str, start: int, device: str = FUNCTION, kind: str = "A100D-3-40C", size: int = 4) -> None:
        """The vGPU on top: noted, and its type on the function."""
        made = Made(uuid, "m", GPU, kind, "mig", device, (start, start + size), (0, 1), 0, driver_id="701")
        Ledger(self.host.state_dir).note(made)
        (self.host.pci(device) / "nvidia").mkdir(parents=True, exist_ok=True)
        (self.host.pci(device) / "nvidia/current_vgpu_type").write_text("701\n")

    def gone(self, device: str = FUNCTION) -> None:
        (self.host.pci(device) / "nvidia/current_vgpu_type").write_text("0\n")

    @property
    def cells(self) -> list[tuple[int, int]]:
        return sorted((each.start, each.start + each.size) for each in self.smi.there)

    def noted(self) -> list[str]:
        return [made.uuid for made in Ledger(self.host.state_dir)]


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    smi = SMI()
    host = Host("mig", root=tmp_path / "root", state_dir=tmp_path / "state", commands=smi)
    plant(host.root, function(GPU, device="0x20b5", sriov_totalvfs="1", sriov_numvfs="1") + function(FUNCTION))
    plant(host.root, f"/sys/bus/pci/devices/{FUNCTION}/nvidia/creatable_vgpu_types = ID    : vGPU Name")
    plant(host.root, f"/sys/bus/pci/devices/{GPU}/virtfn0 -> ../{FUNCTION}")
    card = cards.find(host, GPU)
    assert card is not None
    return Ground(host, smi, card)


def test_an_instance_is_made_at_the_planned_start_and_noted_first(ground: Ground) -> None:
    ground.make(4)
    ground.make(4)
    assert ground.cells == [(4, 8)]
    assert [words for words in ground.smi.asked if words[0] == "-cgi"] == [["-cgi", "9:4", "-C"]]
    (made,) = Ledger(ground.host.state_dir)
    assert (made.uuid, made.regime, made.cell, made.device) == ("a", "mig", (4, 8), GPU)


def test_it_goes_with_its_share(ground: Ground) -> None:
    ground.make(4)
    ground.vgpu("a", 4)
    mig.after_release(ground.host, ground.card, "a", TOLD)
    assert ground.cells == [(4, 8)]  # its vGPU is still there
    ground.gone()
    mig.after_release(ground.host, ground.card, "a", TOLD)
    assert ground.cells == []


def test_somebody_elses_instance_is_named_and_stays(ground: Ground) -> None:
    ground.smi.there = [Instance(1, "3g.40gb", 9, 4, 4)]
    for start, kind, size in ((4, "A100D-3-40C", 4), (0, "A100D-7-80C", 8), (4, "A100D-2-20C", 2)):
        with pytest.raises(VmctlError, match=r"GPU instance 1 .*not made by vmctl") as refusal:
            ground.make(start, kind=kind, size=size)
        assert refusal.value.code == Code.NO_CAPACITY
    mig.after_release(ground.host, ground.card, "a", TOLD)
    assert (ground.cells, ground.noted()) == ([(4, 8)], [])


def test_one_with_a_vgpu_is_in_the_way_and_an_idle_one_of_ours_gives_way(ground: Ground) -> None:
    ground.make(4, "old")
    ground.vgpu("old", 4)
    with pytest.raises(VmctlError, match="has a vGPU"):
        ground.make(0, "new", kind="A100D-7-80C", size=8)
    ground.gone()
    ground.make(0, "new", kind="A100D-7-80C", size=8)
    assert (ground.cells, ground.noted()) == ([(0, 8)], ["new"])


def test_one_that_runs_is_busy_whatever_our_notes_say(ground: Ground) -> None:
    ground.make(4, "old")
    running = DriverFacts(TOLD.uuid, mig=TOLD.mig, profiles=TOLD.profiles, active=(Active(1, instance=3),))
    with pytest.raises(VmctlError, match="has a vGPU"):
        ground.make(0, "new", running, kind="A100D-7-80C", size=8)


def test_an_idle_one_of_the_same_profile_elsewhere_cannot_catch_the_vgpu(ground: Ground) -> None:
    ground.make(0, "old")
    ground.make(4, "new")
    assert (ground.cells, ground.noted()) == ([(4, 8)], ["new"])


def test_a_share_that_was_to_lie_elsewhere_leaves_nothing_there(ground: Ground) -> None:
    ground.make(0, kind="A100D-2-20C", size=2)
    ground.make(4)
    assert ground.cells == [(4, 8)]
    assert next(iter(Ledger(ground.host.state_dir))).cell == (4, 8)


@pytest.mark.field("A20")
def test_success_without_an_instance_is_a_failure(ground: Ground) -> None:
    ground.smi.lies = True
    with pytest.raises(VmctlError, match="makes no GPU instance") as refusal:
        ground.make(4)
    assert (refusal.value.code, ground.noted()) == (Code.FAILED, [])


@pytest.mark.field("A20")
def test_a_destruction_that_changes_nothing_is_a_failure(ground: Ground) -> None:
    ground.make(4)
    ground.smi.lies = True
    with pytest.raises(VmctlError, match="keeps GPU instance 3"):
        mig.after_release(ground.host, ground.card, "a", TOLD)
    assert ground.noted() == ["a"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Insufficient Resources", Code.NO_CAPACITY),
        ("In use by another client", Code.BUSY),
        ("Insufficient Permissions", Code.FAILED),
        ("Some new words", Code.FAILED),
    ],
)
def test_the_drivers_refusals_are_told_as_they_are(ground: Ground, text: str, code: Code) -> None:
    ground.smi.refuses = {"-cgi": text}
    with pytest.raises(VmctlError, match=text) as refusal:
        ground.make(4)
    assert (refusal.value.code, ground.cells, ground.noted()) == (code, [], [])


def test_a_half_made_instance_is_taken_away(ground: Ground) -> None:
    ground.smi.halves = True
    with pytest.raises(VmctlError, match="Insufficient Resources"):
        ground.make(4)
    assert (ground.cells, ground.noted()) == ([], [])


def test_a_half_made_instance_that_stays_is_remembered(ground: Ground) -> None:
    ground.smi.halves, ground.smi.refuses = True, {"-dgi": "In use by another client"}
    with pytest.raises(VmctlError, match="In use by another client"):
        ground.make(4)
    assert (ground.cells, ground.noted()) == ([(4, 8)], ["a"])


def test_a_list_that_cannot_be_read_is_not_an_empty_one(ground: Ground) -> None:
    ground.smi.refuses = {"-lgi": "Insufficient Permissions"}
    with pytest.raises(VmctlError, match="cannot be listed") as refusal:
        ground.make(4)
    assert refusal.value.code == Code.COULD_NOT_TELL


@pytest.mark.field("A19")
@pytest.mark.parametrize("mode", [None, Mode(False, False), Mode(False, True), Mode(True, False)])
def test_nothing_is_made_on_a_card_that_is_not_in_mig_mode_for_good(ground: Ground, mode: Mode | None) -> None:
    with pytest.raises(VmctlError, match="not in MIG mode"):
        ground.make(4, told=DriverFacts(mig=mode, profiles=TOLD.profiles))
    assert ground.smi.asked == []


def test_a_place_that_the_driver_does_not_list_is_refused_before_anything_is_asked(ground: Ground) -> None:
    with pytest.raises(VmctlError, match=r"cannot lie at \[2, 6\)"):
        ground.make(2)
    assert ground.smi.asked == []


def test_a_vgpu_in_another_instance_than_planned_is_found_out(ground: Ground) -> None:
    ground.smi.there = [Instance(1, "3g.40gb", 9, 0, 4), Instance(2, "3g.40gb", 9, 4, 4)]
    shown = ground.host.pci(FUNCTION) / "nvidia/gpu_instance_id"
    wish = ground.making("m", 4).wanted
    assert mig.elsewhere(ground.host, ground.card, FUNCTION, wish) is None  # shows nothing yet
    shown.write_text("2\n")
    assert mig.elsewhere(ground.host, ground.card, FUNCTION, wish) is None
    for number, said in (("1", "into GPU instance 1 (3g.40gb at [0, 4))"), ("7", "7, which is not listed")):
        shown.write_text(number)
        wrong = mig.elsewhere(ground.host, ground.card, FUNCTION, wish)
        assert wrong is not None
        assert said in wrong.what


# What a cut-off run leaves ------------------------------------------------------------------------


def survey(ground: Ground, **told: Any) -> Survey:
    found = Survey(ground.host)
    usual: dict[str, Any] = {"mig": TOLD.mig, "profiles": TOLD.profiles, "instances": tuple(ground.smi.there)}
    found.__dict__["facts"] = {GPU: DriverFacts(**usual | told)}
    return found


def test_an_instance_whose_vgpu_is_gone_is_a_share_that_has_to_be_released(ground: Ground) -> None:
    ground.make(4)
    (left,) = seen(survey(ground), ground.card, [])
    assert (left.uuid, left.cell, left.regime, left.parent, left.size_group) == ("a", (4, 8), Regime.MIG, GPU, "40G")
    assert is_left_over(left)
    mig.after_release(ground.host, ground.card, "a", TOLD)
    assert seen(survey(ground), ground.card, []) == []


def test_whether_instances_are_left_must_be_certain(ground: Ground) -> None:
    assert seen(survey(ground, instances=None), ground.card, []) == []  # none of ours was ever made
    ground.make(4)
    with pytest.raises(VmctlError, match="cannot be told"):
        seen(survey(ground, instances=None), ground.card, [])
    assert seen(survey(ground, instances=None, mig=Mode(False, False)), ground.card, []) == []
