"""Which GPUs a machine has, and how each can be shared: decided card by card, from sysfs alone.

One host may hold an old card with mediated devices beside a new one without (dossier 1.0), so nothing is decided
for the host as a whole. A card that a machine has whole, or whose driver is not ready, stays in the list.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from vmctl.card import Framework, Unknown, VFs
from vmctl.gpus.address import normalise
from vmctl.host import Host

GPU_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")
"""VGA, 3D and other display controllers, processing accelerators; all occur for GPUs (dossier 1.0)."""
GPU_DRIVERS = {"nvidia", "nouveau", "i915", "xe", "amdgpu"}
NVIDIA = "NVIDIA"
NVIDIAS = ("nvidia", "nouveau")
VENDORS = {"0x10de": NVIDIA, "0x8086": "Intel", "0x1002": "AMD"}
MDEV_TYPES = "mdev_supported_types"
VENDOR_TYPES = "nvidia/creatable_vgpu_types"
LOST = "It has fallen off the bus: whatever is asked of it, it does not answer."
AFTER_LOSS = "Reboot the host when its other machines may end; a card that is lost again is defective."
VF_COUNTS = ("sriov_totalvfs", "sriov_numvfs")


@dataclass(frozen=True)
class VirtualFunction:
    """One SR-IOV virtual function: its number on the card, which is the handle of its share, and its address."""

    number: int
    address: str


@dataclass(frozen=True)
class Card:
    """A GPU's physical function as the kernel shows it."""

    address: str
    folder: Path
    vendor: str
    device: str
    driver: str | None
    framework: Framework
    reason: str  # why it is shared so, where that is no matter of course
    virtual: tuple[VirtualFunction, ...]
    vfs: VFs | None
    unknown: tuple[Unknown, ...]  # what could not be told of it


def cards(host: Host) -> list[Card]:
    """Every GPU of the machine, by address. Virtual functions, audio and USB functions are none.

    Raises VmctlError where the PCI bus is there and cannot be listed.
    """
    devices = host.path("/sys/bus/pci/devices")
    return [_card(host, name) for name in host.listed(devices) if _is_gpu(host, devices / name)]


def find(host: Host, address: str) -> Card | None:
    """The GPU at an address, None when there is none."""
    address = normalise(address)
    return _card(host, address) if _is_gpu(host, host.pci(address)) else None


def doubtful(host: Host) -> list[Unknown]:
    """What keeps the list of GPUs from being whole: functions that may be GPUs and do not say what they are."""
    devices = host.path("/sys/bus/pci/devices")
    found = []
    for name in host.listed(devices):
        code = host.read_or_none(devices / name / "class") or ""
        if re.fullmatch(r"0x[0-9a-f]{6}", code) and not code.startswith(GPU_CLASSES):
            continue
        vendor = host.read_or_none(devices / name / "vendor") or ""
        told = re.fullmatch(r"0x[0-9a-f]{4}", vendor)
        if _is_gpu(host, devices / name) or (told and (vendor not in VENDORS or code.startswith(GPU_CLASSES))):
            continue
        if not (devices / name / "physfn").is_symlink():
            reason = f"{name} may be a GPU: its class says {code!r}, its vendor {vendor!r}."
            found.append(Unknown("gpus", reason))
    return found


def is_vfio(driver: str | None) -> bool:
    """Whether a driver gives its device to user space: vfio-pci, or a variant such as mlx5_vfio_pci, xe-vfio-pci."""
    return driver is not None and "vfio" in driver


def is_lost(host: Host, address: str) -> bool:
    """Whether a card has fallen off the bus: its files stay, and all that is read from the card itself is ones."""
    return host.start_of(host.pci(address) / "config", 4) == b"\xff" * 4


def _is_gpu(host: Host, folder: Path) -> bool:
    if os.path.islink(f"{folder}/physfn"):
        return False
    driven = host.link(folder / "driver") in GPU_DRIVERS or (folder / MDEV_TYPES).is_dir()
    code = host.read_or_none(folder / "class") or ""
    if not re.fullmatch(r"0x[0-9a-f]{6}", code):
        return driven  # what a GPU's driver drives is one, even where its class cannot be read
    # Board management and emulated screens are display controllers too.
    return code.startswith(GPU_CLASSES) and (driven or host.read_or_none(folder / "vendor") in VENDORS)


def _card(host: Host, address: str) -> Card:
    folder = host.pci(address)
    driver = host.link(folder / "driver")
    vendor = NVIDIA if driver == "nvidia" else VENDORS.get(host.read_or_none(folder / "vendor") or "", "unknown")
    virtual = _virtual_functions(host, folder)
    vfs, gaps = _vfs(host, folder)
    if vfs is not None and vfs.enabled != len(virtual):
        gaps = (Unknown("vfs", f"{vfs.enabled} are on, but the kernel shows {len(virtual)} of them."),)
    framework = _framework(folder, vendor, driver, [host.pci(function.address) for function in virtual], vfs)
    reason = _of_the_host(host, address, framework, virtual) or _reason(framework, driver, virtual, vfs)
    told = not reason or (framework is Framework.PASSTHROUGH and vendor != NVIDIA and not is_vfio(driver))
    return Card(
        address=address,
        folder=folder,
        vendor=vendor,
        device=(host.read_or_none(folder / "device") or "unknown").removeprefix("0x"),
        driver=driver,
        framework=framework,
        reason=reason,
        virtual=virtual,
        vfs=vfs,
        unknown=gaps if told else (Unknown("types", reason), *gaps),
    )


def _virtual_functions(host: Host, folder: Path) -> tuple[VirtualFunction, ...]:
    """By number: the names sort as virtfn0, virtfn1, virtfn10 (dossier 1.2)."""
    found = [
        VirtualFunction(int(name.removeprefix("virtfn")), target)
        for name in host.names(folder)
        if re.fullmatch(r"virtfn\d+", name) and (target := host.link(folder / name))
    ]
    return tuple(sorted(found, key=lambda function: function.number))


def _vfs(host: Host, folder: Path) -> tuple[VFs | None, tuple[Unknown, ...]]:
    """How many virtual functions there can be and are; None where the card has no SR-IOV."""
    counts: list[int] = []
    for name in VF_COUNTS:
        text = (host.read_or_none(folder / name) or "").strip()
        if not text.isdecimal():
            shown = any(os.path.lexists(folder / each) for each in (*VF_COUNTS, "virtfn0"))
            return None, (Unknown("vfs", f"{name} says {text!r}."),) if shown else ()
        counts.append(int(text))
    return (VFs(*counts) if counts[0] else None), ()


def _framework(folder: Path, vendor: str, driver: str | None, virtual: list[Path], vfs: VFs | None) -> Framework:
    if is_vfio(driver):
        return Framework.PASSTHROUGH
    # By what is there, readable or not: a card whose list cannot be read still has its shares.
    if any(os.path.lexists(function / VENDOR_TYPES) for function in virtual):
        return Framework.VENDOR_VFIO
    if any(os.path.lexists(function / MDEV_TYPES) for function in virtual):
        return Framework.MDEV_VF
    if os.path.lexists(folder / MDEV_TYPES):
        return Framework.MDEV_PF
    if driver is not None and vfs is not None and vendor != NVIDIA:
        return Framework.SRIOV
    if driver is not None and vfs is None and (folder / "iommu_group").is_symlink():
        return Framework.PASSTHROUGH
    return Framework.NONE


def _of_the_host(host: Host, address: str, framework: Framework, virtual: tuple[VirtualFunction, ...]) -> str:
    """Why a card cannot be cut, where neither its driver nor its settings are to blame."""
    if is_lost(host, address):
        return LOST
    driven = any(host.link(host.pci(function.address) / "driver") for function in virtual)
    if framework is Framework.NONE and virtual and not driven and not (host.pci(address) / "iommu_group").is_symlink():
        return "The host's IOMMU is off, so its virtual functions get no driver."
    return ""


def _reason(framework: Framework, driver: str | None, virtual: tuple[VirtualFunction, ...], vfs: VFs | None) -> str:
    """Why a card cannot be cut now; empty when it can."""
    if is_vfio(driver):
        return f"The card is on {driver}: it is given to a machine whole, or kept for that."
    if framework in (Framework.MDEV_PF, Framework.MDEV_VF, Framework.VENDOR_VFIO):
        return ""
    if driver is None:
        return "No driver is bound to the card."
    if vfs is not None and vfs.enabled == 0:
        return f"Its virtual functions are off (0 of {vfs.total}): not set up since the host started."
    if vfs is not None and not virtual:
        return f"The kernel shows none of its {vfs.enabled} virtual functions."
    if framework is Framework.SRIOV:
        return ""
    if driver not in NVIDIAS:
        return f"The driver {driver} makes no parts of this card."
    return f"The driver {driver} offers no vGPU on this card: wrong package, vgpud has not run, or no vGPU card."
