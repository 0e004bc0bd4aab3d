"""IOMMU and VFIO: judged by what the kernel made of them, not by its command line or log (dossier 7.1)."""

from __future__ import annotations

from collections.abc import Sequence

from vmctl.card import GPU, Framework
from vmctl.checks import boot
from vmctl.checks.finding import Evidence, Finding, Verdict
from vmctl.host import Host

GROUPS = "/sys/kernel/iommu_groups"
TABLES = {"/sys/firmware/acpi/tables/DMAR": "Intel", "/sys/firmware/acpi/tables/IVRS": "AMD"}
OFF_WORDS = ("iommu=off", "intel_iommu=off", "amd_iommu=off")


def iommu(host: Host, gpus: Sequence[GPU]) -> Finding:
    """Groups are the deciding test, on Intel, AMD and ARM alike: they fill only when the IOMMU is in use."""
    groups = [name for name in host.names(host.path(GROUPS)) if name.isdecimal()]
    found = Evidence(GROUPS, f"{len(groups)} groups")
    if groups:
        return Finding("iommu", Verdict.PASS, (found,))
    if not gpus and _is_guest(host):
        guest = Evidence("/proc/cpuinfo", "flag hypervisor: this host is a virtual machine itself")
        return Finding("iommu", Verdict.NOT_APPLICABLE, (found, guest))
    table = next((name for name in TABLES if host.path(name).exists()), None)
    firmware = Evidence("/sys/firmware/acpi/tables", table.rsplit("/", 1)[1] if table else "neither DMAR nor IVRS")
    return Finding("iommu", _without_iommu(gpus), (found, firmware), _iommu_remedy(host, table))


def _without_iommu(gpus: Sequence[GPU]) -> Verdict:
    """Mediated devices on the card itself work without one; whole functions, VFs among them, do not."""
    needed = any(gpu.vfs is not None or gpu.driver == "vfio-pci" for gpu in gpus)
    return Verdict.FAIL if needed else Verdict.WARN


def _iommu_remedy(host: Host, table: str | None) -> str:
    """By the CPU's maker, whatever made the GPU (field log B09)."""
    intel = "GenuineIntel" in (host.read_or_none(host.path("/proc/cpuinfo")) or "")
    present = [word for word in OFF_WORDS if word in boot.words(host)]
    if present:
        return boot.how_to_remove(host, present[0])
    if table is None:
        return f"Switch on {'VT-d' if intel else 'IOMMU (AMD-Vi)'} in the firmware set-up, then reboot."
    if intel:
        return boot.how_to_add(host, "intel_iommu=on")
    return "The firmware has an IOMMU and AMD's is on by default: look at dmesg for AMD-Vi, and update the firmware."


def _is_guest(host: Host) -> bool:
    flags = (host.read_or_none(host.path("/proc/cpuinfo")) or "").split()
    return "hypervisor" in flags


def vfio(host: Host, gpus: Sequence[GPU]) -> Finding:
    """The kernel's half of giving devices to machines. Built in or a module: both show below /sys/module."""
    if not gpus:
        return Finding("vfio", Verdict.NOT_APPLICABLE, (Evidence("/sys/bus/pci/devices", "no GPU"),))
    needed = {"vfio": "vfio-pci"}
    if any(gpu.framework in (Framework.MDEV_PF, Framework.MDEV_VF) for gpu in gpus):
        needed["mdev"] = "mdev"
    missing = {name: module for name, module in needed.items() if not host.path(f"/sys/module/{name}").exists()}
    evidence = tuple(Evidence(f"/sys/module/{name}", "missing" if name in missing else "present") for name in needed)
    if not missing:
        return Finding("vfio", Verdict.PASS, evidence)
    modules = " ".join(missing.values())
    return Finding("vfio", Verdict.FAIL, evidence, f"Run: modprobe -a {modules}, and name them in /etc/modules-load.d.")
