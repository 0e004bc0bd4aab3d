"""Which GPUs a machine has, and how each can be shared: decided card by card, from sysfs alone.

One host may hold an old card with mediated devices beside a new one without (dossier 1.0), so nothing is decided
for the host as a whole. A card that a machine has whole, or whose driver is not ready, stays in the list.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from vmctl.card import Framework, Unknown, VFs
from vmctl.gpus.address import normalise
from vmctl.host import Host

DISPLAY_CLASSES = ("0x0300", "0x0302")  # VGA and 3D controllers; both occur for GPUs (dossier 1.0)
VENDORS = {"0x10de": "NVIDIA", "0x8086": "Intel", "0x1002": "AMD"}
MDEV_TYPES = "mdev_supported_types"
VENDOR_TYPES = "nvidia/creatable_vgpu_types"


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
    virtual: tuple[VirtualFunction, ...]
    vfs: VFs | None
    reasons: tuple[Unknown, ...]  # why it cannot be shared now


def cards(host: Host) -> list[Card]:
    """Every GPU of the machine, by address. Virtual functions, audio and USB functions are none."""
    devices = host.path("/sys/bus/pci/devices")
    return [_card(host, name) for name in host.names(devices) if _is_gpu(host, devices / name)]


def find(host: Host, address: str) -> Card | None:
    """The GPU at an address, None when there is none."""
    address = normalise(address)
    return _card(host, address) if _is_gpu(host, host.pci(address)) else None


def _is_gpu(host: Host, folder: Path) -> bool:
    if not (host.read_or_none(folder / "class") or "").startswith(DISPLAY_CLASSES):
        return False
    if (folder / "physfn").is_symlink():
        return False
    # Board management and emulated screens are display controllers too.
    return host.read_or_none(folder / "vendor") in VENDORS or (folder / MDEV_TYPES).is_dir()


def _card(host: Host, address: str) -> Card:
    folder = host.pci(address)
    driver = host.link(folder / "driver")
    virtual = _virtual_functions(host, folder)
    vfs = _vfs(host, folder)
    framework = _framework(folder, [host.pci(function.address) for function in virtual])
    return Card(
        address=address,
        folder=folder,
        vendor=VENDORS.get(host.read_or_none(folder / "vendor") or "", "unknown"),
        device=(host.read_or_none(folder / "device") or "unknown").removeprefix("0x"),
        driver=driver,
        framework=framework,
        virtual=virtual,
        vfs=vfs,
        reasons=_reasons(framework, driver, vfs),
    )


def _virtual_functions(host: Host, folder: Path) -> tuple[VirtualFunction, ...]:
    """By number: the names sort as virtfn0, virtfn1, virtfn10 (dossier 1.2)."""
    found = [
        VirtualFunction(int(name.removeprefix("virtfn")), target)
        for name in host.names(folder)
        if re.fullmatch(r"virtfn\d+", name) and (target := host.link(folder / name))
    ]
    return tuple(sorted(found, key=lambda function: function.number))


def _vfs(host: Host, folder: Path) -> VFs | None:
    total = host.read_or_none(folder / "sriov_totalvfs") or ""
    enabled = host.read_or_none(folder / "sriov_numvfs") or ""
    if not (total.isdecimal() and enabled.isdecimal()) or total == "0":
        return None
    return VFs(int(total), int(enabled))


def _framework(folder: Path, virtual: list[Path]) -> Framework:
    if any((function / VENDOR_TYPES).exists() for function in virtual):
        return Framework.VENDOR_VFIO
    if any((function / MDEV_TYPES).is_dir() for function in virtual):
        return Framework.MDEV_VF
    if (folder / MDEV_TYPES).is_dir():
        return Framework.MDEV_PF
    return Framework.NONE


def _reasons(framework: Framework, driver: str | None, vfs: VFs | None) -> tuple[Unknown, ...]:
    """Why a card without a usable interface has none; empty when it has one."""
    what = "types"
    if framework is Framework.VENDOR_VFIO:
        return (Unknown(what, "This version makes no vGPUs through the vendor's own VFIO interface."),)
    if framework is not Framework.NONE:
        return ()
    if driver is None:
        return (Unknown(what, "No driver is bound to the card."),)
    if driver == "vfio-pci":
        return (Unknown(what, "The card is on vfio-pci: it is given to a machine whole, or kept for that."),)
    if vfs is not None and vfs.enabled == 0:
        return (Unknown(what, f"Its virtual functions are off (0 of {vfs.total}): not set up since the host started."),)
    return (
        Unknown(
            what,
            f"The driver {driver} offers no vGPU on this card: wrong package, vgpud has not run, or no vGPU card.",
        ),
    )
