"""Which driver a function of a simulated machine has, and who keeps it from changing (dossier 1.4)."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.vmctl.simulate.conftest import Make
from tests.vmctl.simulate.doors import everything, mdev, smi, vfs, write
from vmctl.errors import VmctlError
from vmctl.simulate import SimulatedHost

L40S = "0000:26:00.0"
FLEX = "0000:6a:00.0"
DISPLAY = "0000:65:00.0"


def to_vfio(host: SimulatedHost, function: str) -> None:
    folder = host.pci(function)
    write(host, folder / "driver_override", "vfio-pci")
    if host.link(folder / "driver") is not None:
        host.write(folder / "driver/unbind", function, reading=folder / "driver")
    host.write(host.path("/sys/bus/pci/drivers_probe"), function, reading=folder / "driver")


def give_back(host: SimulatedHost, function: str) -> None:
    folder = host.pci(function)
    host.write(folder / "driver/unbind", function, reading=folder / "driver")
    write(host, folder / "driver_override", "\n")
    host.write(host.path("/sys/bus/pci/drivers_probe"), function, reading=folder / "driver")


def test_a_display_card_goes_to_user_space_and_comes_back(make: Make) -> None:
    host = make("a40-mixed")
    functions = [f"{DISPLAY[:-1]}{number}" for number in range(4)]
    before = {function: host.link(host.pci(function) / "driver") for function in functions}
    was = everything(host)
    for function in functions:
        to_vfio(host, function)
    assert {host.link(host.pci(function) / "driver") for function in functions} == {"vfio-pci"}
    assert host.names(host.path("/dev/vfio")) == ["30", "vfio"]
    assert "RTX 4000" not in smi(host, "-L")
    assert not host.path(f"/proc/driver/nvidia/gpus/{DISPLAY}").exists()
    for function in functions:
        give_back(host, function)
    assert {function: host.link(host.pci(function) / "driver") for function in functions} == before
    assert host.read(host.pci(DISPLAY) / "driver_override") == "(null)"
    assert everything(host) == was


def test_a_gpu_that_is_lent_loses_its_vfs_and_comes_back_without(make: Make) -> None:
    host = make("l40s")
    to_vfio(host, L40S)
    assert vfs(host, L40S) == 0
    assert smi(host, "-L").count("L40S") == 1
    assert host.run(["sriov-manage", "-e", L40S]).status != 0
    give_back(host, L40S)
    assert vfs(host, L40S) == 0
    assert host.run(["sriov-manage", "-e", L40S]).status == 0


def test_no_card_leaves_its_driver_while_it_is_used(make: Make) -> None:
    host = make("t4")
    lock = host.path("/proc/driver/nvidia/gpus/0000:3b:00.0/unbindLock")
    mdev(host, "0000:3b:00.0", "nvidia-232")
    assert write(host, lock, "1") == "0"
    with pytest.raises(VmctlError, match="does not come back"):
        to_vfio(host, "0000:3b:00.0")
    other = host.path("/proc/driver/nvidia/gpus/0000:af:00.0/unbindLock")
    assert write(host, other, "1") == "1"
    to_vfio(host, "0000:af:00.0")
    assert host.link(host.pci("0000:af:00.0") / "driver") == "vfio-pci"
    assert not (host.pci("0000:af:00.0") / "mdev_supported_types").exists()


def test_a_vf_of_the_vendors_interface_works_with_no_other_driver(make: Make) -> None:
    host = make("l40s")
    with pytest.raises(OSError, match=r".") as refusal:
        to_vfio(host, "0000:26:00.4")
    assert refusal.value.errno == errno.EINVAL
    assert host.link(host.pci("0000:26:00.4") / "driver") is None


def test_a_function_that_is_open_is_not_taken_back(make: Make) -> None:
    host = make("flex")
    write(host, host.pci(FLEX) / "sriov_numvfs", "2")
    to_vfio(host, "0000:6a:00.1")
    group = host.link(host.pci("0000:6a:00.1") / "iommu_group")
    with host.path(f"/dev/vfio/{group}").open():
        with pytest.raises(VmctlError, match="does not come back"):
            give_back(host, "0000:6a:00.1")
        with pytest.raises(VmctlError, match="does not come back"):
            write(host, host.pci(FLEX) / "sriov_numvfs", "0")
    write(host, host.pci(FLEX) / "sriov_numvfs", "0")


def test_what_no_driver_serves_is_refused(make: Make) -> None:
    host = make("t4")
    for path, value in (
        (Path("/sys/bus/pci/drivers/nvidia/unbind"), "0000:99:00.0"),
        (Path("/sys/bus/pci/drivers/vfio-pci/bind"), "0000:3b:00.0"),
        (Path("/sys/bus/pci/drivers_probe"), "0000:99:00.0"),
        (Path("/sys/bus/pci/devices/0000:3b:00.0/class"), "0x020000"),
        (Path("/sys/bus/pci/devices/0000:3b:00.0/nothing"), "1"),
    ):
        with pytest.raises(OSError, match=r"."):
            host.write(host.path(str(path)), value, reading=host.path(str(path)))
