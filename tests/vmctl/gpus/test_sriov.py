"""Plain SR-IOV: a virtual function as it is; whose it is stands in the notes alone (dossier 1.6)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.vmctl.gpus.hosts import FLEX, card, flex, reasons, simulated, want
from tests.vmctl.gpus.trees import plant
from vmctl import gpus
from vmctl.card import CardChange, Framework, Knob, Regime
from vmctl.errors import Code, VmctlError
from vmctl.host import Host
from vmctl.ledger import Ledger
from vmctl.model import PCIFunction, WantedVGPU
from vmctl.simulate import SimulatedHost, faults, holders, reboot

FIRST, SECOND = "0000:6a:00.1", "0000:6a:00.2"


@pytest.fixture
def parts(memory: Path) -> SimulatedHost:
    return flex(memory)


def part(handle: int = 0, kind: str = "VF-1of4") -> WantedVGPU:
    return want(FLEX, kind, Regime.VF, cell=(handle, handle + 1), handle=handle)


def driver(host: Host, address: str) -> str | None:
    return host.link(host.pci(address) / "driver")


def test_the_number_of_functions_is_the_size(parts: SimulatedHost) -> None:
    gpu = card(parts, FLEX)
    assert (gpu.framework, gpu.regime, gpu.regimes) == (Framework.SRIOV, Regime.VF, (Regime.VF, Regime.WHOLE))
    (kind,) = gpu.types
    assert (kind.name, kind.size_group, kind.max, kind.free) == ("VF-1of4", "1of4", 4, 4)
    assert kind.cells == kind.free_cells == ((0, 1), (1, 2), (2, 3), (3, 4))
    assert (gpu.handles, kind.memory_mib) == (4, None)


def test_functions_that_are_off_are_said_and_can_be_switched_on(memory: Path) -> None:
    host = simulated(memory, "flex")
    gpu = card(host, FLEX)
    assert (gpu.framework, gpu.types, gpu.regimes) == (Framework.SRIOV, (), (Regime.WHOLE,))
    assert "virtual functions are off (0 of 31)" in reasons(gpu)["types"]
    with pytest.raises(VmctlError, match="virtual functions are off") as refusal:
        gpus.provide(host, part())
    assert refusal.value.retry
    gpus.change(host, CardChange(FLEX, Knob.VFS, 4))
    assert gpus.provide(host, part()).parent == FIRST


def test_another_number_of_parts_than_was_booked_is_refused(parts: SimulatedHost) -> None:
    with pytest.raises(VmctlError, match="offers VF-1of4, not VF-1of2") as refusal:
        gpus.provide(parts, part(kind="VF-1of2"))
    assert not refusal.value.retry


def test_a_function_goes_to_vfio_by_its_own_override_and_back(parts: SimulatedHost) -> None:
    made = gpus.provide(parts, part(1))
    assert (made.parent, made.cell, driver(parts, SECOND), driver(parts, FIRST)) == (SECOND, (1, 2), "vfio-pci", "xe")
    assert parts.read(parts.pci(SECOND) / "driver_override") == "vfio-pci"
    assert gpus.device(made) == PCIFunction(str(made.uuid), SECOND)
    assert [each.free_cells for each in card(parts, FLEX).types] == [((0, 1), (2, 3), (3, 4))]
    gpus.release(parts, made)
    assert (driver(parts, SECOND), parts.read(parts.pci(SECOND) / "driver_override")) == ("xe", "(null)")


def test_a_function_that_is_on_vfio_anyway_stays_there(parts: SimulatedHost) -> None:
    """As a host is set up that keeps its functions for machines (autoprobe off, or a rule of udev)."""
    probe = parts.pci(FLEX) / "sriov_drivers_autoprobe"
    gpus.change(parts, CardChange(FLEX, Knob.VFS, 0))
    parts.write(probe, "0", reading=probe)
    gpus.change(parts, CardChange(FLEX, Knob.VFS, 4))
    for name, value in (("driver_override", "vfio-pci"), ("../drivers_probe", FIRST)):
        path = parts.pci(FIRST) / name if name == "driver_override" else parts.path("/sys/bus/pci/drivers_probe")
        parts.write(path, value, reading=path)
    assert (driver(parts, FIRST), driver(parts, SECOND)) == ("vfio-pci", None)
    kept, bare = gpus.provide(parts, part(0)), gpus.provide(parts, part(1))
    assert {share.uuid for share in gpus.provided(parts)} == {kept.uuid, bare.uuid}
    gpus.release(parts, kept)
    gpus.release(parts, bare)
    assert (driver(parts, FIRST), driver(parts, SECOND)) == ("vfio-pci", None)
    assert gpus.provided(parts) == []


def test_a_function_that_a_process_drives_is_somebody_elses(parts: SimulatedHost) -> None:
    for path, value in (
        (parts.pci(FIRST) / "driver_override", "vfio-pci"),
        (parts.pci(FIRST) / "driver/unbind", FIRST),
    ):
        parts.write(path, value, reading=path)
    probe = parts.path("/sys/bus/pci/drivers_probe")
    parts.write(probe, FIRST, reading=probe)
    assert gpus.provided(parts) == []
    holders.hold(parts.root, f"/dev/vfio/{parts.link(parts.pci(FIRST) / 'iommu_group')}")
    (foreign,) = gpus.provided(parts)
    assert (foreign.uuid, foreign.parent) == (None, FIRST)
    assert gpus.provide(parts, part(0)).parent == SECOND


def test_a_share_that_is_open_is_not_taken_away(parts: SimulatedHost) -> None:
    made = gpus.provide(parts, part())
    holders.hold(parts.root, f"/dev/vfio/{parts.link(parts.pci(FIRST) / 'iommu_group')}", process=4711)
    with pytest.raises(VmctlError, match="in use by process 4711") as refusal:
        gpus.release(parts, made)
    assert refusal.value.retry
    assert gpus.provided(parts) == [made]


@pytest.mark.field("B11")
def test_a_function_that_never_reaches_vfio_gets_its_driver_back(parts: SimulatedHost) -> None:
    faults.plant(parts.root, [{"match": "drivers_probe", "effect": False, "times": 1}])
    with pytest.raises(VmctlError, match=f"{FIRST} was to get vfio-pci, but has no driver") as refusal:
        gpus.provide(parts, part())
    assert (refusal.value.code, refusal.value.retry) == (Code.FAILED, True)
    assert (driver(parts, FIRST), gpus.provided(parts)) == ("xe", [])


@pytest.mark.field("A13")
def test_one_that_is_given_back_by_half_is_still_there_until_it_is_whole(parts: SimulatedHost) -> None:
    made = gpus.provide(parts, part())
    faults.plant(parts.root, [{"match": "drivers_probe", "effect": False, "times": 1}])
    with pytest.raises(VmctlError, match=f"{FIRST} was to get xe, but has no driver"):
        gpus.release(parts, made)
    assert gpus.provided(parts) == [made]
    gpus.release(parts, made)
    assert (driver(parts, FIRST), gpus.provided(parts), list(Ledger(parts.state_dir))) == ("xe", [], [])


@pytest.mark.field("A14")
def test_a_late_release_leaves_the_next_owner_of_the_function_alone(parts: SimulatedHost) -> None:
    first = gpus.provide(parts, part())
    gpus.release(parts, first)
    second = gpus.provide(parts, part())
    gpus.release(parts, first)
    assert (gpus.provided(parts), driver(parts, FIRST)) == ([second], "vfio-pci")


@pytest.mark.field("A05")
def test_after_a_reboot_functions_come_back_first_and_then_the_share(parts: SimulatedHost) -> None:
    wish = part(2)
    before = gpus.provide(parts, wish, "machine")
    reboot(parts.root)
    again = SimulatedHost("flex", root=parts.root, state_dir=parts.state_dir)
    assert gpus.provided(again) == []
    gpus.change(again, CardChange(FLEX, Knob.VFS, 4))
    assert gpus.provide(again, wish, "machine") == before


def test_a_function_that_a_foreign_machine_names_is_left_to_it(parts: SimulatedHost) -> None:
    """Nothing of it shows on the host while that machine is off."""
    made = gpus.provide(parts, part(0), "machine", frozenset({FIRST}))
    assert (made.parent, driver(parts, FIRST)) == (SECOND, "xe")


@pytest.mark.field("B10")
def test_a_function_that_a_program_of_the_host_has_open_is_not_unbound(parts: SimulatedHost) -> None:
    plant(parts.root, f"/sys/bus/pci/devices/{FIRST}/drm/renderD129/dev = 226:129")
    holders.hold(parts.root, "/dev/dri/renderD129", process=815, command="Xorg")
    made = gpus.provide(parts, part(0))
    assert (made.parent, driver(parts, FIRST)) == (SECOND, "xe")
    assert {share.uuid for share in gpus.provided(parts)} == {made.uuid, None}


def test_a_function_on_vfio_that_nobody_noted_is_unknown_where_not_every_process_is_seen(parts: SimulatedHost) -> None:
    for path, value in (
        (parts.pci(FIRST) / "driver_override", "vfio-pci"),
        (parts.pci(FIRST) / "driver/unbind", FIRST),
        (parts.path("/sys/bus/pci/drivers_probe"), FIRST),
    ):
        parts.write(path, value, reading=path)
    assert gpus.provided(parts) == []
    shutil.rmtree(parts.path("/proc/1/fd"))  # a process that this user may not look at
    gpu = card(parts, FLEX)
    assert "not every process could be looked at" in {gap.what: gap.reason for gap in gpu.unknown}[gpus.HOLDERS]
    assert {kind.free for kind in gpu.types} == {None}
    with pytest.raises(VmctlError, match="not every process"):
        gpus.provide(parts, part(1))
