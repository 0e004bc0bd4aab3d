"""GPU instances and mixed sizes on simulated cards: refusals of the driver, other people's vGPUs, what runs where."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.vmctl.gpus.test_layered_sequences import UUIDS, switch
from vmctl import gpus
from vmctl.card import GPU, Framework, ProvidedVGPU, Regime
from vmctl.errors import Code, VmctlError
from vmctl.gpus.driver.answers import Active, DriverFacts
from vmctl.gpus.layers.places import running, seen
from vmctl.gpus.shares import Survey
from vmctl.ledger import Ledger, Made
from vmctl.model import Place, WantedVGPU
from vmctl.simulate import SimulatedHost, faults, prepare, reboot
from vmctl.simulate.state import State

A100, H100, A40, BLACKWELL = "0000:41:00.0", "0000:4e:00.0", "0000:41:00.0", "0001:c8:00.0"


def host_of(folder: Path, layout: str, gpu: str = "", mode: str = "") -> SimulatedHost:
    prepare(folder / "root", layout)
    host = SimulatedHost(layout, root=folder / "root", state_dir=folder / "state")
    if mode:
        switch(host, gpu, mode)
    return host


@pytest.fixture
def a100(memory: Path) -> SimulatedHost:
    return host_of(memory, "a100-mig")


@pytest.fixture
def h100(memory: Path) -> SimulatedHost:
    return host_of(memory, "h100", H100, "mig")


@pytest.fixture
def a40_mixed(memory: Path) -> SimulatedHost:
    return host_of(memory, "a40-mixed")


def wish(gpu: str, name: str, start: int, size: int, regime: Regime = Regime.MIG, number: int = 0) -> WantedVGPU:
    return WantedVGPU(UUIDS[number], gpu, name, regime, (start, start + size), number)


def card(host: SimulatedHost, address: str) -> GPU:
    return next(each for each in gpus.inventory(host) if each.address == address)


def free(host: SimulatedHost, address: str) -> dict[str, int | None]:
    return {kind.name: kind.free for kind in card(host, address).types}


def smi(host: SimulatedHost, *words: str) -> None:
    answer = host.run(["nvidia-smi", *words])
    assert answer.status == 0, answer


# MIG ----------------------------------------------------------------------------------------------


def test_a_cell_decides_where_the_instance_lies_and_alternatives_are_tried(a100: SimulatedHost) -> None:
    smi(a100, "mig", "-i", A100, "-cgi", "9:4", "-C")  # somebody else's
    order = replace(wish(A100, "A100D-3-40C", 4, 4), alternatives=(Place(A100, (0, 4), 1),))
    made = gpus.provide(a100, order)
    assert made.cell == (0, 4)
    assert sorted(each.start for each in State.read(a100.root).cards[A100].instances.values()) == [0, 4]
    gpus.release(a100, made)
    assert [each.start for each in State.read(a100.root).cards[A100].instances.values()] == [4]


def test_somebody_elses_instance_is_named_and_takes_its_cells(a100: SimulatedHost) -> None:
    smi(a100, "mig", "-i", A100, "-cgi", "9:4", "-C")
    assert free(a100, A100)["A100D-1-10C"] == 4
    with pytest.raises(VmctlError, match=r"3g\.40gb at \[4, 8\).*not made by vmctl") as refusal:
        gpus.provide(a100, wish(A100, "A100D-7-80C", 0, 8))
    assert refusal.value.code == Code.NO_CAPACITY
    assert list(Ledger(a100.state_dir)) == []


def test_a_vgpu_comes_into_its_own_instance_although_the_driver_prefers_another(h100: SimulatedHost) -> None:
    """The driver takes the first idle instance of the profile; ours is the second."""
    smi(h100, "mig", "-i", H100, "-cgi", "9:0", "-C")
    made = gpus.provide(h100, wish(H100, "H100-3-40C", 4, 4))
    assert made.cell == (4, 8)
    assert gpus.provided(h100) == [made]
    own = State.read(h100.root).cards[H100]
    assert [own.instances[str(vgpu.instance)].start for vgpu in own.vgpus.values()] == [4]
    gpus.release(h100, made)
    assert [each.start for each in State.read(h100.root).cards[H100].instances.values()] == [0]


def test_a_vgpu_that_never_lands_right_leaves_nothing(h100: SimulatedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    smi(h100, "mig", "-i", H100, "-cgi", "9:0", "-C")
    monkeypatch.setattr("vmctl.gpus.mig.instance_of", lambda *_: 1)
    with pytest.raises(VmctlError, match=r"put H100-3-40C .* into GPU instance 1 \(3g\.40gb at \[0, 4\)\)") as refusal:
        gpus.provide(h100, wish(H100, "H100-3-40C", 4, 4))
    assert refusal.value.code == Code.NO_CAPACITY
    own = State.read(h100.root).cards[H100]
    assert (own.vgpus, [each.start for each in own.instances.values()]) == ({}, [0])
    assert list(Ledger(h100.state_dir)) == []


@pytest.mark.field("A20")
def test_an_instance_that_was_reported_and_is_not_there_is_a_failure(a100: SimulatedHost) -> None:
    said = "Successfully created GPU instance ID  2 on GPU  0 using profile MIG 3g.40gb (ID  9)\n"
    faults.plant(a100.root, [{"match": "mig .*-cgi", "output": said, "effect": False}])
    with pytest.raises(VmctlError, match="makes no GPU instance") as refusal:
        gpus.provide(a100, wish(A100, "A100D-3-40C", 4, 4))
    assert refusal.value.code == Code.FAILED
    assert gpus.provided(a100) == []
    faults.clear(a100.root)
    assert gpus.provide(a100, wish(A100, "A100D-3-40C", 4, 4)).cell == (4, 8)


@pytest.mark.field("A13")
def test_an_instance_that_does_not_go_is_a_share_that_stays(a100: SimulatedHost) -> None:
    made = gpus.provide(a100, wish(A100, "A100D-3-40C", 4, 4))
    said = "Unable to destroy GPU instance ID  2 from GPU  0: In use by another client\n"
    faults.plant(a100.root, [{"match": "mig .*-dgi", "output": said, "status": 19, "effect": False}])
    with pytest.raises(VmctlError, match="In use by another client") as refusal:
        gpus.release(a100, made)
    assert refusal.value.code == Code.BUSY
    (left,) = gpus.provided(a100)
    assert (left.uuid, left.parent, left.cell) == (made.uuid, A100, (4, 8))
    assert card(a100, A100).holders == (left,)
    assert free(a100, A100)["A100D-3-40C"] == 1  # its place counts as taken
    faults.clear(a100.root)
    gpus.release(a100, left)
    assert gpus.provided(a100) == []
    assert free(a100, A100)["A100D-3-40C"] == 2


def test_a_refused_vgpu_leaves_no_instance(a100: SimulatedHost) -> None:
    faults.plant(a100.root, [{"match": "/create$", "error": "ENOSPC", "effect": False}])
    with pytest.raises(VmctlError):
        gpus.provide(a100, wish(A100, "A100D-3-40C", 4, 4))
    assert State.read(a100.root).cards[A100].instances == {}
    assert list(Ledger(a100.state_dir)) == []


def test_a_share_that_was_planned_anew_moves_with_its_instance(a100: SimulatedHost) -> None:
    gpus.provide(a100, wish(A100, "A100D-3-40C", 4, 4))
    assert gpus.provide(a100, wish(A100, "A100D-3-40C", 0, 4)).cell == (0, 4)
    assert [each.start for each in State.read(a100.root).cards[A100].instances.values()] == [0]


@pytest.mark.field("A19")
def test_a_mode_that_waits_for_a_reset_cannot_be_booked(a100: SimulatedHost) -> None:
    functions = "/usr/lib/nvidia/sriov-manage"
    assert a100.run([functions, "-d", A100]).status == 0
    a100.run(["nvidia-smi", "-i", A100, "-mig", "0"])
    assert a100.run([functions, "-e", A100]).status == 0
    found = card(a100, A100)
    assert found.mig is not None
    assert (found.mig.current, found.mig.pending) == (True, False)
    assert found.types == ()
    assert any("reset" in gap.reason for gap in found.unknown)
    with pytest.raises(VmctlError):
        gpus.provide(a100, wish(A100, "A100D-3-40C", 4, 4))
    reboot(a100.root)
    assert a100.run([functions, "-e", A100]).status == 0
    assert card(a100, A100).regime is Regime.EQUAL


# Mixed sizes --------------------------------------------------------------------------------------


def mixed(name: str, start: int, size: int, number: int = 0) -> WantedVGPU:
    return wish(A40, name, start, size, Regime.MIXED, number)


def params(host: SimulatedHost, uuid: str) -> str:
    return host.path(f"/sys/bus/mdev/devices/{uuid}/nvidia/vgpu_params").read_text().strip()


def test_the_planned_place_is_demanded_and_read_back(a40_mixed: SimulatedHost) -> None:
    made = gpus.provide(a40_mixed, mixed("A40-8Q", 16, 8))
    assert params(a40_mixed, UUIDS[0]) == "vgpu-placement-id=16"
    assert (made.regime, made.cell) == (Regime.MIXED, (16, 24))
    assert free(a40_mixed, A40)["A40-24Q"] == 1


def test_a_place_that_does_not_exist_or_is_taken_is_refused(a40_mixed: SimulatedHost) -> None:
    with pytest.raises(VmctlError, match="legal places") as refusal:
        gpus.provide(a40_mixed, mixed("A40-8Q", 8, 8))
    assert refusal.value.code == Code.FAILED
    gpus.provide(a40_mixed, mixed("A40-8Q", 16, 8))
    with pytest.raises(VmctlError, match=UUIDS[0]) as refusal:
        gpus.provide(a40_mixed, mixed("A40-24Q", 0, 24, 1))
    assert refusal.value.code == Code.NO_CAPACITY
    order = replace(mixed("A40-24Q", 0, 24, 1), alternatives=(Place(A40, (24, 48), 1),))
    assert gpus.provide(a40_mixed, order).cell == (24, 48)


@pytest.mark.parametrize("error", ["EINVAL", "EPERM"])
def test_a_demand_that_the_driver_refuses_leaves_no_share(a40_mixed: SimulatedHost, error: str) -> None:
    faults.plant(a40_mixed.root, [{"match": "vgpu_params$", "error": error, "effect": False}])
    with pytest.raises(VmctlError, match="does not let") as refusal:
        gpus.provide(a40_mixed, mixed("A40-8Q", 16, 8))
    assert refusal.value.code == (Code.NO_CAPACITY if error == "EINVAL" else Code.FAILED)
    assert gpus.provided(a40_mixed) == []


def test_a_demand_that_is_not_kept_leaves_no_share(a40_mixed: SimulatedHost) -> None:
    faults.plant(a40_mixed.root, [{"match": "vgpu_params$", "effect": False}])
    with pytest.raises(VmctlError, match="did not keep the demand"):
        gpus.provide(a40_mixed, mixed("A40-8Q", 16, 8))
    assert gpus.provided(a40_mixed) == []


def test_a_function_that_shows_another_place_leaves_no_share(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = host_of(memory, "rtx-pro-6000", BLACKWELL, "mixed")
    order = wish(BLACKWELL, "RTX Pro 6000 Blackwell DC-24Q", 24, 24, Regime.MIXED)
    made = gpus.provide(host, order)
    folder = host.pci(made.parent) / "nvidia"
    assert ((folder / "placement_id").read_text().strip(), made.cell) == ("24", (24, 48))
    gpus.release(host, made)
    assert (folder / "vgpu_params").read_text().strip() == ""
    monkeypatch.setattr("vmctl.gpus.mixed.start", lambda *_: 0)
    with pytest.raises(VmctlError, match="was to lie at 24, but the driver put it at 0"):
        gpus.provide(host, order)
    assert gpus.provided(host) == []
    assert (folder / "vgpu_params").read_text().strip() == ""


def test_a_card_that_lost_its_mixed_mode_gets_no_mixed_share(a40_mixed: SimulatedHost) -> None:
    """A reboot takes the mode (3.2); a share of equal size would lie anywhere."""
    reboot(a40_mixed.root)
    assert a40_mixed.run(["/usr/lib/nvidia/sriov-manage", "-e", A40]).status == 0
    with pytest.raises(VmctlError, match="not in the regime mixed") as refusal:
        gpus.provide(a40_mixed, mixed("A40-8Q", 16, 8))
    assert refusal.value.retry


# Where others lie ---------------------------------------------------------------------------------


def foreign(host: SimulatedHost, kind: str, uuid: str = UUIDS[50]) -> None:
    host.write(
        host.pci("0000:41:00.7") / f"mdev_supported_types/{kind}/create",
        uuid,
        reading=host.path("/sys/bus/mdev/devices"),
    )


def test_a_foreign_share_that_is_off_may_lie_anywhere_so_nothing_is_free(a40_mixed: SimulatedHost) -> None:
    foreign(a40_mixed, "nvidia-563")
    found = card(a40_mixed, A40)
    assert list(Ledger(a40_mixed.state_dir)) == []
    assert [(share.uuid, share.regime, share.cell) for share in found.holders] == [(UUIDS[50], Regime.MIXED, None)]
    assert set(free(a40_mixed, A40).values()) == {0, None}
    assert "types.A40-8Q.free" in [gap.what for gap in found.unknown]
    with pytest.raises(VmctlError, match="or may be"):
        gpus.provide(a40_mixed, mixed("A40-8Q", 40, 8))


def test_what_runs_is_where_the_driver_shows_it(a40_mixed: SimulatedHost) -> None:
    """By mediated device, or as the only one of its type in its machine."""
    gpus.provide(a40_mixed, mixed("A40-8Q", 16, 8), "machine")
    foreign(a40_mixed, "nvidia-563", UUIDS[50])
    survey = Survey(a40_mixed)
    told = survey.facts[A40]
    active = (
        Active(1, vm="machine", type="A40-8Q", placement=40),
        Active(2, mdev=UUIDS[50], type="A40-12Q", placement=24),
    )
    survey.__dict__["facts"] = {A40: replace(told, active=active)}
    (address,) = [each for each in survey.cards if each.address == A40]
    plain = [replace(share, cell=None) for share in gpus.provided(a40_mixed)]
    assert {share.uuid: share.cell for share in seen(survey, address, plain)} == {
        UUIDS[0]: (40, 48),
        UUIDS[50]: (24, 36),
    }


def test_two_of_one_type_in_one_machine_are_not_told_apart() -> None:
    share = ProvidedVGPU("u", A40, "A40-8Q", Framework.MDEV_VF, "0000:41:00.4", "8G")
    made = Made("u", "m", A40, "A40-8Q")
    one, other = (Active(number, vm="m", type="A40-8Q", placement=number * 16) for number in range(2))
    assert running(share, made, DriverFacts(active=(one,))) == one
    assert running(share, made, DriverFacts(active=(one, other))) is None
