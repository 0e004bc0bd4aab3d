"""The IOMMU: judged by what the kernel made of it, not by its command line or log (dossier 7.1, 7.2)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vmctl.card import GPU
from vmctl.checks import boot
from vmctl.checks.finding import Evidence, Verdict, failed, not_applicable, passed, unknown, warned
from vmctl.checks.look import Look
from vmctl.gpus.cards import is_vfio

GROUPS = "/sys/kernel/iommu_groups"
CLASS = "/sys/class/iommu"
TABLES = {"/sys/firmware/acpi/tables/DMAR": "Intel", "/sys/firmware/acpi/tables/IVRS": "AMD"}
OFF_WORDS = ("iommu=off", "intel_iommu=off", "amd_iommu=off")
NO_EVIDENCE = ("amd_iommu=on", "iommu=pt", "intel_iommu=on", "iommu=on")
"""Words that people take for proof: the first is no value the kernel knows, none says that it came to anything."""
REMAPPING_OFF = ("intremap=off", "nointremap", "intremap=nosid")
UNSAFE = "/sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts"
SAFE_AGAIN = "Take allow_unsafe_interrupts=1 out of /etc/modprobe.d; this host does not need it. Then reboot."
NO_HOST_DRIVER = ("pci-stub", "pcieport", None)
"""Drivers beside VFIO's that leave a group viable (7.2); VFIO's own variants show by their vfio-dev folder."""


def enabled(look: Look) -> Verdict:
    """Groups are the deciding test, on Intel, AMD and ARM alike: they fill only when the IOMMU is in use."""
    groups = _groups(look)
    found = Evidence(GROUPS, f"{len(groups)} groups")
    if groups:
        return passed(found, *_units(look))
    if not look.gpus and is_guest(look):
        return not_applicable(found, ("/proc/cpuinfo", "flag hypervisor: this host is a virtual machine itself"))
    table = next((name for name in TABLES if look.there(name)), None)
    firmware = Evidence("/sys/firmware/acpi/tables", table.rsplit("/", 1)[1] if table else "neither DMAR nor IVRS")
    evidence = (found, *_units(look), firmware, *_empty_words(look))
    # Mediated devices on the card itself work without one; whole functions, VFs among them, do not.
    needed = any(gpu.vfs is not None or is_vfio(gpu.driver) for gpu in look.gpus)
    return (failed if needed else warned)(_remedy(look, table), *evidence)


def _groups(look: Look) -> list[str]:
    """The groups that an IOMMU made: a mediated device has one of its own, which its driver only pretends."""
    mediated = set(look.entries("/sys/bus/mdev/devices"))
    members = {name: set(look.entries(f"{GROUPS}/{name}/devices")) for name in look.entries(GROUPS) if name.isdecimal()}
    return [name for name, devices in members.items() if not devices or devices - mediated]


def is_guest(look: Look) -> bool:
    """Whether this host is a virtual machine."""
    return "hypervisor" in (look.text("/proc/cpuinfo") or "").split()


def _units(look: Look) -> Iterator[Evidence]:
    units = look.entries(CLASS)
    if units:
        yield Evidence(CLASS, " ".join(units))


def _empty_words(look: Look) -> Iterator[Evidence]:
    present = [word for word in boot.words(look.host) if word in NO_EVIDENCE]
    if present:
        yield Evidence("/proc/cmdline", f"{' '.join(present)}: asked for, which proves nothing")


def _remedy(look: Look, table: str | None) -> str:
    """By the CPU's maker, whatever made the GPU (field log B09)."""
    intel = "GenuineIntel" in (look.text("/proc/cpuinfo") or "")
    present = [word for word in OFF_WORDS if word in boot.words(look.host)]
    if present:
        return boot.how_to_remove(look.host, present[0])
    if table is None:
        return f"Switch on {'VT-d' if intel else 'IOMMU (AMD-Vi)'} in the firmware set-up, then reboot."
    if intel and "intel_iommu=on" not in boot.words(look.host):
        return boot.how_to_add(look.host, "intel_iommu=on")
    if intel:
        return "The command line asks for it and nothing came of it: look at dmesg for DMAR, and update the firmware."
    return "The firmware has an IOMMU and AMD's is on by default: look at dmesg for AMD-Vi, and update the firmware."


def remapping(look: Look) -> Verdict:
    """Without it a device's interrupts can be forged by its guest, and vfio refuses the device (7.1)."""
    if not _groups(look):
        return not_applicable((GROUPS, "no groups: see iommu.enabled"))
    interrupts = look.text("/proc/interrupts")
    unsafe = (look.text(UNSAFE) or "").strip() == "Y"
    allowed = (UNSAFE, "Y: vfio gives devices away without it")
    if interrupts is None:
        return unknown("Look at dmesg for DMAR-IR or AMD-Vi.", ("/proc/interrupts", "is not there"))
    remapped = sorted(set(re.findall(r"\bIR-[A-Z]+(?:-[A-Z]+)*|\b\w*ITS-(?:p?MSI|PCI-MSI)X?\b", interrupts)))
    if remapped and unsafe:
        return warned(SAFE_AGAIN, ("/proc/interrupts", " ".join(remapped)), allowed)
    if remapped:
        return passed(("/proc/interrupts", " ".join(remapped)))
    off = [word for word in REMAPPING_OFF if word in boot.words(look.host)]
    remedy = (
        boot.how_to_remove(look.host, off[0])
        if off
        else "Switch on interrupt remapping (with x2APIC) in the firmware set-up, then reboot."
    )
    evidence = ("/proc/interrupts", "no chip whose interrupts are remapped (IR-)")
    return failed(remedy, evidence, *((allowed,) if unsafe else ()))


def group_viable(look: Look, gpu: GPU) -> Verdict:
    """Whether the card's group can go to one machine, and each of its VFs to a machine of its own (7.2)."""
    if gpu.iommu_group is None:
        source = f"/sys/bus/pci/devices/{gpu.address}/iommu_group"
        if not _groups(look):
            return not_applicable((source, "none: see iommu.enabled"))
        return unknown("Look whether the card is still on the bus.", (source, "is not there, though others have one"))
    folder = f"{GROUPS}/{gpu.iommu_group}/devices"
    members = look.entries(folder)
    evidence = [Evidence(folder, _told(look, member)) for member in members]
    override = [word for word in boot.words(look.host) if word.startswith("pcie_acs_override=")]
    foreign = [member for member in members if _blocks(look, gpu, member)]
    shared = _shared_functions(look, gpu)
    if foreign and is_vfio(gpu.driver):
        return failed(f"Give these to vfio-pci, too, or take their driver away: {', '.join(foreign)}.", *evidence)
    if shared:
        said = f"{len(shared)} functions of the card share one group: they go to one machine together"
        remedy = "Switch on ARI and ACS in the firmware set-up, or put the card into another slot."
        return failed(remedy, *evidence, (GROUPS, said))
    if foreign:
        remedy = (
            f"To give this card away whole, give away with it or unbind: {', '.join(foreign)}; or use another slot."
        )
        return warned(remedy, *evidence)
    if override:
        remedy = f"It only pretends that devices are apart. {boot.how_to_remove(look.host, override[0])}"
        return warned(remedy, *evidence, ("/proc/cmdline", override[0]))
    return passed(*evidence)


def _told(look: Look, member: str) -> str:
    driver = look.host.link(look.host.pci(member) / "driver")
    return f"{member}, {'a bridge, ' if _is_bridge(look, member) else ''}driver {driver or 'none'}"


def _is_bridge(look: Look, member: str) -> bool:
    return (look.text(f"/sys/bus/pci/devices/{member}/class") or "").startswith("0x06")


def _blocks(look: Look, gpu: GPU, member: str) -> bool:
    """Whether a member's driver keeps the group from a machine. The card's own other functions go with it."""
    if member.rpartition(".")[0] == gpu.address.rpartition(".")[0] and not is_vfio(gpu.driver):
        return False
    folder = look.host.pci(member)
    if member == gpu.address or _is_bridge(look, member) or (folder / "physfn").is_symlink():
        return False
    driver = look.host.link(folder / "driver")
    return driver not in NO_HOST_DRIVER and not is_vfio(driver) and not (folder / "vfio-dev").is_dir()


def _shared_functions(look: Look, gpu: GPU) -> list[str]:
    """VFs of a card that do not have a group of their own."""
    folder = look.host.pci(gpu.address)
    names = [name for name in look.host.names(folder) if re.fullmatch(r"virtfn\d+", name)]
    groups = [look.host.link(folder / name / "iommu_group") for name in names]
    told = [group for group in groups if group is not None]
    return [group for group in told if told.count(group) > 1 or group == gpu.iommu_group]
