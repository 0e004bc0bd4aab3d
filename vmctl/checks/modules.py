"""Kernel modules: those that must be there, those that must not, and whether the kernel takes the driver's."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum

from vmctl.card import GPU, Framework
from vmctl.checks import distribution
from vmctl.checks.finding import Evidence, Verdict, failed, not_applicable, passed, unknown, warned
from vmctl.checks.look import AS_ROOT, SIGNER, Look
from vmctl.errors import VmctlError

RELEASE = "/proc/sys/kernel/osrelease"
SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
STRANGERS = ("nouveau", "nova_core")
"""Drivers that take NVIDIA cards away from NVIDIA's own (7.4)."""


class Presence(StrEnum):
    """How a module is there."""

    LOADED = "loaded"
    BUILT_IN = "built in"
    LOADABLE = "not loaded, and a file of this kernel"
    ABSENT = "neither loaded nor a file of this kernel"
    UNKNOWN = "not loaded; whether this kernel has it could not be seen"


def presence(look: Look, module: str) -> Presence:
    """By /sys/module, then by the running kernel's own lists: a module that is not loaded is not "off" (B07)."""
    if look.there(f"/sys/module/{module}"):
        return Presence.LOADED
    builtin, loadable = _listed(look, "modules.builtin"), _listed(look, "modules.dep")
    if builtin is not None and module in builtin:
        return Presence.BUILT_IN
    if loadable is not None and module in loadable:
        return Presence.LOADABLE
    return Presence.UNKNOWN if builtin is None or loadable is None else Presence.ABSENT


def _listed(look: Look, name: str) -> set[str] | None:
    """The modules that a list of the running kernel names; None where it cannot be read."""
    release = (look.text(RELEASE) or "").strip()
    for folder in ("/lib/modules", "/usr/lib/modules"):
        text = look.text(f"{folder}/{release}/{name}") if release else None
        if text:
            files = (line.partition(":")[0] for line in text.splitlines())
            return {re.sub(r"\.ko.*$", "", file.rpartition("/")[2]).replace("-", "_") for file in files}
    return None


def vfio(look: Look) -> Verdict:
    """The kernel's half of giving devices to machines."""
    if not look.gpus:
        return not_applicable(("/sys/bus/pci/devices", "no GPU"))
    found = {module: presence(look, module) for module in _needed(look.gpus)}
    evidence = [Evidence(f"/sys/module/{module}", kind.value) for module, kind in found.items()]
    missing = [module for module, kind in found.items() if kind not in (Presence.LOADED, Presence.BUILT_IN)]
    if not missing:
        return passed(*evidence)
    if Presence.ABSENT in found.values():
        gone = ", ".join(module for module, kind in found.items() if kind is Presence.ABSENT)
        return failed(f"Boot a kernel that has {gone} (CONFIG_VFIO_PCI, CONFIG_VFIO_MDEV).", *evidence)
    remedy = f"Run: modprobe -a {' '.join(missing)}, and name them in a file below /etc/modules-load.d."
    return (unknown if Presence.UNKNOWN in found.values() else warned)(remedy, *evidence)


def _needed(gpus: Iterable[GPU]) -> list[str]:
    """`nvidia` is the VFIO driver itself where the vendor's framework is (1.3)."""
    ways = {gpu.framework for gpu in gpus}
    modules = ["vfio"]
    if ways & {Framework.MDEV_PF, Framework.MDEV_VF}:
        modules.append("mdev")
    if ways & {Framework.PASSTHROUGH, Framework.SRIOV}:
        modules.append("vfio_pci")
    return modules


def nouveau(look: Look) -> Verdict:
    """Kept away from the cards, and out of the initial RAM disk (field log H06)."""
    if not look.nvidia:
        return not_applicable(("/sys/bus/pci/devices", "no NVIDIA GPU"))
    loaded = [module for module in STRANGERS if look.there(f"/sys/module/{module}")]
    if not loaded:
        return passed(("/sys/module", f"no {' and no '.join(STRANGERS)}"))
    held = [gpu.address for gpu in look.nvidia if gpu.driver in STRANGERS]
    evidence = [
        *(Evidence(f"/sys/module/{module}", "loaded") for module in loaded),
        *(Evidence(f"/sys/bus/pci/devices/{address}/driver", "nouveau or nova_core") for address in held),
    ]
    return (failed if held else warned)(without(look, loaded), *evidence)


def without(look: Look, modules: Iterable[str]) -> str:
    """How modules are kept from ever being loaded."""
    lines = " and ".join(f"`blacklist {module}`" for module in modules)
    options = "" if "nouveau" not in modules else " and `options nouveau modeset=0`"
    rebuild = distribution.rebuild_initial_disk(look.host)
    return (
        f"Put {lines}{options} into a file below /etc/modprobe.d, run: {rebuild}, reboot, "
        "and install NVIDIA's vGPU host driver."
    )


def secure_boot(look: Look) -> Verdict:
    """A signed boot takes only signed modules (7.4)."""
    if not look.there("/sys/firmware/efi"):
        return not_applicable(("/sys/firmware/efi", "none: not booted by UEFI"))
    if not look.nvidia:
        return not_applicable(("/sys/bus/pci/devices", "no NVIDIA GPU"))
    on = _secure_boot_is_on(look)
    if on is None:
        return unknown(AS_ROOT, (SECURE_BOOT, "is not there: efivarfs is not mounted"))
    if not on:
        return passed((SECURE_BOOT, "off: unsigned modules are taken"))
    evidence = [Evidence(SECURE_BOOT, "on")]
    if look.there("/sys/module/nvidia"):
        taint = (look.text("/sys/module/nvidia/taint") or "").strip() or "none"
        return passed(*evidence, ("/sys/module/nvidia/taint", f"{taint}; the kernel took the module"))
    return _unsigned(look, evidence)


def _secure_boot_is_on(look: Look) -> bool | None:
    """Four bytes of attributes, then 1 or 0."""
    if not look.there(SECURE_BOOT):
        return None
    try:
        content = look.host.path(SECURE_BOOT).read_bytes()
    except OSError:
        return None
    return content[4] == 1 if len(content) == 5 else None


def _unsigned(look: Look, evidence: list[Evidence]) -> Verdict:
    sign = "Sign the module and enrol the key: mokutil --import KEY.der, then reboot and confirm on the screen."
    try:
        signer = look.said(SIGNER)
    except VmctlError as error:
        return unknown(sign, *evidence, (SIGNER, error.what))
    if signer.status:
        return warned(sign, *evidence, (SIGNER, "no module nvidia of this kernel"))
    if not signer.output.strip():
        return failed(sign, *evidence, (SIGNER, "no signature, and the module is not loaded"))
    said = f"signed by {signer.output.strip()}, and not loaded"
    return warned("Enrol that key: mokutil --import KEY.der, then reboot and confirm.", *evidence, (SIGNER, said))
