"""The GPU driver: which is bound, whether its parts fit, whether it is the one that makes vGPUs."""

from __future__ import annotations

import pytest

from tests.vmctl.checks.hosts import BUS, GPU, denied, no_unit, one, said, seen, spoil, unit
from tests.vmctl.gpus.trees import function, plant
from vmctl.checks import Status
from vmctl.checks.look import SMI, systemctl
from vmctl.host import Host

DRIVER = f"{BUS}/{GPU}/driver"
VGPUD, MANAGER = systemctl("nvidia-vgpud.service"), systemctl("nvidia-vgpu-mgr.service")
LIBRARY = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so."
TYPES = f"{BUS}/{GPU}/mdev_supported_types"
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.199\n"


@pytest.mark.parametrize(
    ("changes", "status", "told"),
    [
        ("", Status.PASS, ""),
        (f"{DRIVER} -> /sys/bus/pci/drivers/vfio-pci", Status.NOT_APPLICABLE, ""),
        (f"{DRIVER} -> /sys/bus/pci/drivers/nova_core", Status.FAIL, "blacklist nova_core"),
        (f"- {DRIVER}", Status.FAIL, "NVRM"),
        (f"- {DRIVER}\n{BUS}/{GPU}/vendor = 0x1002", Status.FAIL, "maker's driver"),
        (f"- {DRIVER}\n- /sys/module/nvidia", Status.FAIL, "linux-headers-$(uname -r)"),
    ],
)
def test_a_card_without_its_driver_says_what_to_do(good: Host, changes: str, status: Status, told: str) -> None:
    spoil(good, changes)
    found = one(seen(good), "driver.bound", GPU)
    assert found.status is status
    assert told in found.remedy


@pytest.mark.field("H04")
@pytest.mark.parametrize(
    ("release", "told"),
    [("ID=debian", "linux-headers-$(uname -r)"), ("ID=fedora", "kernel-devel-$(uname -r)"), ("ID=sles", "zypper")],
)
def test_a_driver_that_was_never_built_for_this_kernel_is_told_so(good: Host, release: str, told: str) -> None:
    spoil(good, f"- {DRIVER}\n- /sys/module/nvidia\n/etc/os-release = {release}")
    assert told in one(seen(good), "driver.bound", GPU).remedy


def test_a_driver_that_is_there_and_not_loaded_is_told_to_load(good: Host) -> None:
    lists = "/lib/modules/6.1.0-18-amd64/modules.dep"
    spoil(good, f"- {DRIVER}\n- /sys/module/nvidia\n{lists} = updates/dkms/nvidia.ko.xz:")
    assert "modprobe nvidia" in one(seen(good), "driver.bound", GPU).remedy


def test_a_host_without_a_gpu_is_told_so(good: Host) -> None:
    spoil(good, f"- {BUS}/{GPU}")
    look = seen(good, {})
    assert one(look, "gpus.present").status is Status.WARN
    assert one(look, "driver.bound", "host").status is Status.NOT_APPLICABLE


def test_a_bus_that_shows_nothing_at_all_is_unknown(good: Host) -> None:
    spoil(good, f"- {BUS}")
    assert one(seen(good, {}), "gpus.present").status is Status.UNKNOWN


@pytest.mark.parametrize("name", ["class", "vendor"])
def test_a_function_that_does_not_say_what_it_is_keeps_the_list_from_being_whole(good: Host, name: str) -> None:
    other = "0000:af:00.0"
    plant(good.root, function(other, driver="none"))
    spoil(good, f"{BUS}/{other}/{name} = ?")
    found = one(seen(good), "gpus.present")
    assert found.status is Status.UNKNOWN
    assert f"{other} may be a GPU" in found.evidence[0].said


@pytest.mark.field("H09")
@pytest.mark.parametrize(
    ("changes", "smi", "status"),
    [
        ("", said("Driver Version    : 550.163.02\n"), Status.PASS),
        (f"- {LIBRARY}550.163.02", said("Driver Version    : 550.163.02\n"), Status.PASS),
        ("", said(MISMATCH, 18), Status.FAIL),
        (f"- {LIBRARY}550.163.02\n{LIBRARY}550.199 = x", said("Driver Version  : 550.163.02\n"), Status.FAIL),
        (f"{LIBRARY}550.199 = x", said("Driver Version    : 550.163.02\n"), Status.PASS),  # an old one lies about
        (f"- {LIBRARY}550.163.02", denied("nvidia-smi"), Status.UNKNOWN),
        (f"- {LIBRARY}550.163.02", said("Treiberversion: neu\n"), Status.UNKNOWN),
        ("- /sys/module/nvidia/version", said("Driver Version    : 550.163.02\n"), Status.UNKNOWN),
        (f"- {LIBRARY}550.163.02", said("Driver Version    : 535.1.1\n"), Status.FAIL),
        (f"{DRIVER} -> /sys/bus/pci/drivers/nouveau", denied("nvidia-smi"), Status.NOT_APPLICABLE),
    ],
)
def test_parts_of_different_releases_fail(good: Host, changes: str, smi: object, status: Status) -> None:
    spoil(good, changes)
    found = one(seen(good, **{SMI: smi}), "driver.versions")
    assert found.status is status
    assert ("apt-mark hold" in found.remedy) == (status is Status.FAIL)


@pytest.mark.parametrize(
    "text",
    [
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.02  Tue Jan 1 2026",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.163.02  Release Build",
    ],
)
def test_the_modules_own_words_do_where_its_version_file_is_missing(good: Host, text: str) -> None:
    spoil(good, f"- /sys/module/nvidia/version\n/proc/driver/nvidia/version = {text}\\nGCC version: gcc 12.2.0")
    assert one(seen(good), "driver.versions").status is Status.PASS


@pytest.mark.parametrize(
    ("changes", "manager", "status"),
    [
        ("", no_unit("nvidia-vgpu-mgr.service"), Status.PASS),  # it offers types, so it is the right one
        (f"- {TYPES}", no_unit("nvidia-vgpu-mgr.service"), Status.FAIL),
        (f"- {TYPES}", unit("nvidia-vgpu-mgr.service"), Status.PASS),
        (f"- {TYPES}\n/usr/bin/nvidia-vgpu-mgr = <binary>", denied("systemctl"), Status.PASS),
        (f"- {TYPES}", denied("systemctl"), Status.UNKNOWN),
        (f"{DRIVER} -> /sys/bus/pci/drivers/vfio-pci", denied("systemctl"), Status.NOT_APPLICABLE),
    ],
)
def test_the_plain_driver_is_told_from_the_host_driver(
    good: Host, changes: str, manager: object, status: Status
) -> None:
    spoil(good, changes)
    found = one(seen(good, **{MANAGER: manager}), "driver.package")
    assert found.status is status
    assert ("plain CUDA driver" in found.remedy) == (status is Status.FAIL)


ONCE = unit("nvidia-vgpud.service", active="inactive", sub="dead", Result="success")


@pytest.mark.parametrize(
    ("once", "always", "status", "told"),
    [
        (ONCE, unit("nvidia-vgpu-mgr.service"), Status.PASS, ""),
        (ONCE, unit("nvidia-vgpu-mgr.service", active="inactive"), Status.FAIL, "enable --now nvidia-vgpu-mgr.service"),
        (
            unit("nvidia-vgpud.service", active="failed", Result="exit-code"),
            unit("nvidia-vgpu-mgr.service"),
            Status.FAIL,
            "restart nvidia-vgpud.service",
        ),
        (ONCE, no_unit("nvidia-vgpu-mgr.service"), Status.FAIL, "vGPU host driver"),
        (ONCE, said("", 1, "System has not been booted with systemd"), Status.UNKNOWN, "systemctl status"),
        (ONCE, denied("systemctl"), Status.UNKNOWN, ""),
    ],
)
def test_the_manager_must_run(good: Host, once: object, always: object, status: Status, told: str) -> None:
    found = one(seen(good, **{VGPUD: once, MANAGER: always}), "vgpu.manager")
    assert found.status is status
    assert told in found.remedy


@pytest.mark.field("A24")
def test_types_that_could_not_be_read_are_unknown_and_not_none(good: Host) -> None:
    spoil(good, f"{TYPES}/nvidia-232/available_instances = some")
    found = one(seen(good), "vgpu.types", GPU)
    assert found.status is Status.UNKNOWN
    assert any("available_instances" in each.said for each in found.evidence)


@pytest.mark.field("A23")
def test_functions_without_types_are_no_silent_nothing(good: Host) -> None:
    spoil(good, f"- {TYPES}\n{BUS}/{GPU}/sriov_totalvfs = 1\n{BUS}/{GPU}/sriov_numvfs = 1")
    address = "0000:3b:00.4"
    plant(
        good.root, f"{function(address)}{BUS}/{address}/physfn -> {BUS}/{GPU}\n{BUS}/{GPU}/virtfn0 -> {BUS}/{address}"
    )
    found = one(seen(good), "vgpu.types", GPU)
    assert found.status is Status.FAIL
    assert any("no vGPU" in each.said for each in found.evidence)
    assert "vGPU host driver" in found.remedy


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ("", Status.PASS),
        (f"{DRIVER} -> /sys/bus/pci/drivers/vfio-pci", Status.NOT_APPLICABLE),
        (f"- {TYPES}\n{BUS}/{GPU}/sriov_totalvfs = 16\n{BUS}/{GPU}/sriov_numvfs = 0", Status.WARN),
        (f"- {TYPES}", Status.FAIL),
    ],
)
def test_a_card_offers_types(good: Host, changes: str, status: Status) -> None:
    spoil(good, changes)
    assert one(seen(good), "vgpu.types", GPU).status is status
