"""Kernel modules: not loaded is not "off", and a signed boot is believed by what it took."""

from __future__ import annotations

import pytest

from tests.vmctl.checks import hosts
from tests.vmctl.checks.hosts import BUS, GPU, denied, one, said, seen, spoil
from vmctl.checks import Status
from vmctl.host import Host

RELEASE = "6.1.0-18-amd64"
LISTS = f"/lib/modules/{RELEASE}"
NO_VFIO = "- /sys/module/vfio"
SIGNER = "modinfo -F signer nvidia"


@pytest.mark.field("B07")
@pytest.mark.parametrize(
    ("changes", "status", "told"),
    [
        ("", Status.PASS, ""),
        (NO_VFIO, Status.WARN, "modprobe -a vfio,"),
        (f"{NO_VFIO}\n{LISTS}/modules.builtin = kernel/drivers/vfio/vfio.ko", Status.PASS, ""),
        (f"{NO_VFIO}\n{LISTS}/modules.dep = kernel/x.ko:", Status.FAIL, "CONFIG_VFIO_PCI"),
        (f"{NO_VFIO}\n- {LISTS}", Status.UNKNOWN, "modprobe -a vfio,"),
        (f"{NO_VFIO}\n- /proc/sys/kernel/osrelease", Status.UNKNOWN, "modprobe"),
        ("- /sys/module/mdev", Status.FAIL, "mdev"),
    ],
)
def test_vfio_that_is_not_loaded_is_not_off(good: Host, changes: str, status: Status, told: str) -> None:
    spoil(good, changes)
    look = seen(good)
    found = one(look, "vfio.available")
    assert found.status is status
    assert told in found.remedy
    assert one(look, "iommu.enabled").status is Status.PASS


@pytest.mark.parametrize("suffix", ["", ".xz", ".zst", ".gz"])
def test_modules_are_found_however_they_are_packed(good: Host, suffix: str) -> None:
    spoil(good, f"- /sys/module/mdev\n{LISTS}/modules.dep = kernel/drivers/vfio/mdev/mdev.ko{suffix}: x.ko")
    assert one(seen(good), "vfio.available").status is Status.WARN


@pytest.mark.field("H06")
def test_nouveau_is_kept_out_of_the_initial_disk_too(good: Host) -> None:
    spoil(good, "/sys/module/nouveau/ = <dir>")
    assert one(seen(good), "nouveau.absent").status is Status.WARN
    spoil(good, f"{BUS}/{GPU}/driver -> /sys/bus/pci/drivers/nouveau")
    look = seen(good)
    found = one(look, "nouveau.absent")
    assert found.status is Status.FAIL
    assert "blacklist nouveau" in found.remedy
    assert "update-initramfs -u" in found.remedy
    bound = one(look, "driver.bound", GPU)
    assert (bound.status, bound.remedy) == (Status.FAIL, found.remedy)


@pytest.mark.parametrize(
    ("release", "told"),
    [
        ('ID="rhel"', "dracut -f"),
        ("ID=opensuse-leap\\nID_LIKE='suse opensuse'", "dracut -f"),
        ("ID=linuxmint\\nID_LIKE=ubuntu", "update-initramfs -u -k all,"),
        ("ID=arch", "update-initramfs -u, or dracut -f"),
    ],
)
def test_the_initial_disk_is_rebuilt_as_the_distribution_does(good: Host, release: str, told: str) -> None:
    spoil(good, f"/sys/module/nova_core/ = <dir>\n/etc/os-release = {release}")
    assert told in one(seen(good), "nouveau.absent").remedy


def test_proxmox_copies_the_initial_disk_too(good: Host) -> None:
    spoil(good, "/sys/module/nouveau/ = <dir>\n/etc/kernel/proxmox-boot-uuids = x")
    assert "proxmox-boot-tool refresh" in one(seen(good), "nouveau.absent").remedy


def test_a_signed_boot_that_took_the_module_passes(good: Host) -> None:
    hosts.secure_boot(good.root, 1)
    assert one(seen(good), "secureboot.modules").status is Status.PASS


@pytest.mark.parametrize(
    ("signer", "status"),
    [
        (said("\n"), Status.FAIL),
        (said("DKMS module signing key\n"), Status.WARN),
        (said("", 1, "modinfo: ERROR: Module nvidia not found."), Status.WARN),
        (denied("modinfo"), Status.UNKNOWN),
    ],
)
def test_a_signed_boot_without_the_module_asks_for_its_signature(good: Host, signer: object, status: Status) -> None:
    hosts.secure_boot(good.root, 1)
    spoil(good, "- /sys/module/nvidia")
    found = one(seen(good, **{SIGNER: signer}), "secureboot.modules")
    assert found.status is status
    assert "mokutil --import" in found.remedy


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ("- /sys/firmware/efi", Status.NOT_APPLICABLE),
        ("- /sys/firmware/efi/efivars", Status.UNKNOWN),
        (f"{hosts.SECURE_BOOT} = garbled", Status.UNKNOWN),
        (f"{BUS}/{GPU}/vendor = 0x8086\n{BUS}/{GPU}/driver -> /sys/bus/pci/drivers/i915", Status.NOT_APPLICABLE),
    ],
)
def test_what_the_firmware_does_not_tell_is_unknown(good: Host, changes: str, status: Status) -> None:
    spoil(good, changes)
    assert one(seen(good), "secureboot.modules").status is status
