"""GPU instances that somebody else made hold their card: nothing that would wipe them is done (dossier 3.3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.vmctl.gpus.hosts import H100, card, reasons, simulated, want
from vmctl import gpus
from vmctl.card import CardChange, Knob, Regime
from vmctl.errors import Code, VmctlError
from vmctl.ledger import Ledger
from vmctl.simulate import SimulatedHost, faults
from vmctl.simulate.state import State


@pytest.fixture
def foreign(memory: Path) -> SimulatedHost:
    """A card in MIG mode with an instance that an administrator made for programs of the host."""
    host = simulated(memory, "h100")
    gpus.change(host, CardChange(H100, Knob.VFS, 0))
    gpus.change(host, CardChange(H100, Knob.MIG, True))
    assert host.run(["nvidia-smi", "mig", "-i", H100, "-cgi", "9:0", "-C"]).status == 0
    return host


def instances(host: SimulatedHost) -> list[str]:
    return [each.profile for each in State.read(host.root).cards[H100].instances.values()]


CHANGES = [CardChange(H100, Knob.MIG, False), CardChange(H100, Knob.VFS, None), CardChange(H100, Knob.ECC, False)]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: str(change.knob))
def test_a_card_with_one_is_not_changed(foreign: SimulatedHost, change: CardChange) -> None:
    before = instances(foreign)
    with pytest.raises(VmctlError, match=r"not empty: there is 3g\.40gb on gpu-instance \d \(not ours\)") as refusal:
        gpus.change(foreign, change)
    assert (refusal.value.code, instances(foreign)) == (Code.BUSY, before)


def test_a_card_with_one_is_not_given_away_whole(foreign: SimulatedHost) -> None:
    before = instances(foreign)
    with pytest.raises(VmctlError, match="not empty: there is 3g"):
        gpus.provide(foreign, want(H100, "any", Regime.WHOLE))
    assert instances(foreign) == before


def test_it_stands_among_the_holders_of_its_card(foreign: SimulatedHost) -> None:
    (holder,) = card(foreign, H100).holders
    assert (holder.uuid, holder.type, holder.device[:13], holder.cell) == (None, "3g.40gb", "gpu-instance ", (0, 4))
    with pytest.raises(VmctlError, match="not made by vmctl"):
        gpus.release(foreign, holder)


def test_an_instance_of_ours_is_none_of_somebody_elses(memory: Path) -> None:
    host = simulated(memory, "h100")
    for change in (CardChange(H100, Knob.VFS, 0), CardChange(H100, Knob.MIG, True), CardChange(H100, Knob.VFS, None)):
        gpus.change(host, change)
    made = gpus.provide(host, want(H100, "H100-3-40C", Regime.MIG, cell=(0, 4)))
    assert [holder.uuid for holder in card(host, H100).holders] == [made.uuid]
    gpus.release(host, made)
    assert (card(host, H100).holders, instances(host)) == ((), [])


@pytest.mark.parametrize("question", ["-q", "mig -lgi"])
def test_what_cannot_be_seen_is_not_wiped(foreign: SimulatedHost, question: str) -> None:
    before = instances(foreign)
    faults.plant(foreign.root, [{"match": f"nvidia-smi {question}$", "status": 255, "output": ""}])
    with pytest.raises(VmctlError, match=r"Which GPU instances GPU .* cannot be told") as refusal:
        gpus.change(foreign, CHANGES[1])
    assert (refusal.value.code, instances(foreign)) == (Code.COULD_NOT_TELL, before)


def test_a_card_that_does_not_list_them_says_so_and_offers_nothing(foreign: SimulatedHost) -> None:
    faults.plant(foreign.root, [{"match": "nvidia-smi mig -lgi$", "status": 255, "output": ""}])
    gpu = card(foreign, H100)
    assert "Which GPU instances" in reasons(gpu)["holders"]
    assert {kind.free for kind in gpu.types} <= {None}


@pytest.mark.field("A13")
def test_an_instance_whose_profile_is_not_told_stays_ours(memory: Path) -> None:
    """A list that does not come is no list of nothing: the note knows the profile, and an old one waits."""
    host = simulated(memory, "a100-mig")
    (gpu, *_) = gpus.inventory(host)
    kind = next(kind for kind in gpu.types if kind.free)
    wish = want(gpu.address, kind.name, Regime.MIG, cell=kind.free_cells[0])
    made = gpus.provide(host, wish, "machine")
    faults.plant(host.root, [{"match": "nvidia-smi mig -lgip$", "status": 255, "output": ""}])
    gpus.release(host, made)
    assert not State.read(host.root).cards[gpu.address].instances
    assert list(Ledger(host.state_dir)) == []


@pytest.mark.field("A13")
def test_an_old_note_without_a_profile_waits_until_it_is_told(memory: Path) -> None:
    host = simulated(memory, "a100-mig")
    (gpu, *_) = gpus.inventory(host)
    kind = next(kind for kind in gpu.types if kind.free)
    made = gpus.provide(host, want(gpu.address, kind.name, Regime.MIG, cell=kind.free_cells[0]), "machine")
    notes = host.state_dir / "vgpus.json"
    notes.write_text(notes.read_text().replace('"profile_id"', '"vfs"'))
    faults.plant(host.root, [{"match": "nvidia-smi mig -lgip$", "status": 255, "output": ""}])
    with pytest.raises(VmctlError, match=r"Which GPU instance on GPU .* cannot be told") as refusal:
        gpus.release(host, made)
    assert refusal.value.code is Code.COULD_NOT_TELL
    assert "holders" in reasons(card(host, gpu.address))  # its vGPU is gone, and whether all of it is, is not known
    assert [noted.uuid for noted in Ledger(host.state_dir)] == [made.uuid]
    faults.clear(host.root)
    (left,) = gpus.provided(host)
    gpus.release(host, left)
    assert not State.read(host.root).cards[gpu.address].instances
