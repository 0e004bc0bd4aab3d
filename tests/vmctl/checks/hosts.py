"""A whole host on a folder that every check passes, and what its commands say; tests spoil it in one place each."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.vmctl.gpus.trees import function, kind, nvidia, plant
from vmctl import checks, gpus
from vmctl.card import Mode
from vmctl.checks.look import COMMANDS, SMI, Libvirt, Look, systemctl
from vmctl.errors import Code, VmctlError
from vmctl.gpus.driver.answers import DriverFacts
from vmctl.host import Answer, Host
from vmctl.model import Accelerator
from vmctl.site import Site

GPU, BRIDGE = "0000:3b:00.0", "0000:3a:00.0"
BUS = "/sys/bus/pci/devices"
GROUPS = "/sys/kernel/iommu_groups"
INTEL = "/proc/cpuinfo = vendor_id : GenuineIntel\\nflags : fpu vmx"
AMD = "/proc/cpuinfo = vendor_id : AuthenticAMD\\nflags : fpu svm"
GUEST = "/proc/cpuinfo = vendor_id : GenuineIntel\\nflags : fpu hypervisor"
RIGHTS = "CapEff: 000001ffffffffff"

MACHINE = f"""
{INTEL}
/proc/cmdline = BOOT_IMAGE=/vmlinuz root=/dev/sda1 intel_iommu=on iommu=pt
/proc/interrupts =  24:  0  IR-PCI-MSI-0000:3b:00.0    0-edge      nvidia
/proc/meminfo = MemTotal:       65536000 kB
/proc/sys/kernel/osrelease = 6.1.0-18-amd64
/proc/812/comm = libvirtd
/proc/812/fd/ = <dir>
/proc/812/limits = Max locked memory         8388608              8388608              bytes
/proc/812/status = {RIGHTS}
/lib/modules/6.1.0-18-amd64/modules.builtin = kernel/virt/lib/irqbypass.ko
/lib/modules/6.1.0-18-amd64/modules.dep = kernel/drivers/vfio/pci/vfio-pci.ko.xz: x.ko\\nkernel/drivers/vfio/vfio.ko.xz:
/sys/module/vfio/ = <dir>
/sys/module/mdev/ = <dir>
/sys/module/nvidia/version = 550.163.02
/sys/module/nvidia/taint = OE
/sys/module/apparmor/parameters/enabled = Y
/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages = 0
/sys/class/iommu/dmar0/ = <dir>
/sys/firmware/acpi/tables/DMAR = <table>
/sys/firmware/efi/efivars/ = <dir>
/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.550.163.02 = <library>
/usr/sbin/lvs = <binary>
/etc/os-release = ID=debian
/etc/default/libvirt-guests = ON_SHUTDOWN=shutdown
/etc/ssh/sshd_config = Include /etc/ssh/sshd_config.d/*.conf
/usr/sbin/update-grub = <binary>
/etc/default/grub = GRUB_CMDLINE_LINUX=
"""

T4 = (
    function(GPU)
    + kind(GPU, "nvidia-232", name="GRID T4-4Q", description=nvidia(4, 4), available="4")
    + f"""
{BUS}/{GPU}/driver_override = (null)
{BUS}/{GPU}/iommu_group -> {GROUPS}/7
{GROUPS}/7/devices/{GPU} -> {BUS}/{GPU}
{GROUPS}/7/devices/{BRIDGE} -> {BUS}/{BRIDGE}
{BUS}/{BRIDGE}/class = 0x060400
{BUS}/{BRIDGE}/driver -> /sys/bus/pci/drivers/pcieport
"""
)

SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


def unit(
    name: str, load: str = "loaded", active: str = "active", sub: str = "running", file: str = "enabled", **more: str
) -> Answer:
    """What `systemctl show` says of a unit."""
    told = {"Id": name, "LoadState": load, "ActiveState": active, "SubState": sub, "UnitFileState": file} | more
    return said("".join(f"{key}={value}\n" for key, value in told.items()))


def said(output: str = "", status: int = 0, errors: str = "") -> Answer:
    return Answer(status, output, errors)


def no_unit(name: str) -> Answer:
    return unit(name, "not-found", "inactive", "dead", "")


SPLIT = ("virtqemud.service", "virtqemud.socket", "virtnodedevd.service", "virtnodedevd.socket")
PRESENT = ("nvidia-vgpu-mgr.service", "libvirtd.service", "libvirtd.socket", "libvirt-guests.service")
ANSWERS: Mapping[str, Answer | VmctlError] = {
    **{systemctl(name): unit(name) for name in PRESENT},
    **{systemctl(name): no_unit(name) for name in SPLIT},
    systemctl("nvidia-vgpud.service"): unit("nvidia-vgpud.service", active="inactive", sub="dead", Result="success"),
    SMI: said("Driver Version                            : 550.163.02\n"),
    "/usr/sbin/sshd -T": said("maxsessions 60\nmaxstartups 60:30:120\n"),
    "lvs --reportformat json -o vg_name,lv_name,lv_attr,data_percent,metadata_percent": said('{"report":[{"lv":[]}]}'),
    "modinfo -F signer nvidia": said("DKMS module signing key\n"),
    "dmesg": said("[    0.0] Linux version 6.1.0\n"),
    "mdevctl --version": said("1.2.0\n"),
    "qemu-img --version": said("qemu-img version 7.2\n"),
    "xorriso -version": said("xorriso 1.5.4\n"),
}
assert {SMI, *COMMANDS} == set(ANSWERS)

TOLD = DriverFacts(mig=Mode(False, False), ecc=Mode(True, True))
SEEN: Mapping[str, object] = {
    "KVM": Accelerator(True, "kvm", "A test machine ran on KVM."),
    "libvirt": Libvirt((10, 3, 0)),
    "disk space": ("/var/lib/tessera", 100 * 2**30),
}


def good(root: Path) -> Host:
    """A host with a T4 on which everything is well."""
    plant(root, MACHINE + T4)
    secure_boot(root, 0)
    return Host("good", root=root, state_dir=root.parent / "state", clock_state=lambda: 0)


def secure_boot(root: Path, on: int) -> None:
    (root / SECURE_BOOT.lstrip("/")).write_bytes(bytes([6, 0, 0, 0, on]))


def spoil(host: Host, changes: str) -> None:
    """Plant over a host: files and links as in trees.py, and `- /path` for what goes."""
    for line in changes.splitlines():
        place = line.removeprefix("- ").partition(" = ")[0].partition(" -> ")[0]
        path = host.path(place.strip())
        if path.is_dir() and not path.is_symlink() and not place.endswith("/"):
            shutil.rmtree(path)
        elif path.is_symlink() or path.is_file():
            path.unlink()
        if not line.startswith("- "):
            plant(host.root, line)


def site(host: Host) -> Site:
    storage = host.root.parent / "storage"
    return Site(host, "test:///default", storage, storage, storage, "default")


def seen(host: Host, told: Any = None, **more: Any) -> Look:
    """A look at a host as `look` gives it, with other answers by name; `told`: what the driver says of each card."""
    driver: Mapping[str, DriverFacts] = {GPU: TOLD} if told is None else told
    cards: object = (tuple(gpus.inventory(host, driver)), driver)
    return Look(site(host), {"GPUs": cards} | dict(SEEN) | dict(ANSWERS) | more)


def one(look: Look, name: str, subject: str | None = None) -> checks.Finding:
    """The finding about a question; of the first card where it is about cards."""
    found = [finding for finding in checks.examine(look) if finding.id == name]
    return next(finding for finding in found if subject is None or finding.subject == subject)


def denied(command: str = "it") -> VmctlError:
    return VmctlError(Code.COULD_NOT_TELL, f"The command {command} may not be run.", "Look at its rights.")
