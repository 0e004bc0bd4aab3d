"""The GPU driver: which is bound, whether its parts fit together, whether it is the one that makes vGPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vmctl.card import GPU, Framework, Unknown
from vmctl.checks import cards, distribution, modules, units
from vmctl.checks.finding import Evidence, Verdict, failed, not_applicable, passed, unknown, warned
from vmctl.checks.look import SMI, Look
from vmctl.errors import VmctlError
from vmctl.gpus.cards import is_vfio
from vmctl.gpus.functions import SRIOV_MANAGE

MODULE = "/sys/module/nvidia/version"
PROC = "/proc/driver/nvidia/version"
LIBRARIES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
RELEASE = re.compile(r"\b\d{3}\.\d+(?:\.\d+)?\b")
MANAGERS = ("nvidia-vgpud.service", "nvidia-vgpu-mgr.service")
PACKAGE_FILES = ("/usr/bin/nvidia-vgpu-mgr", "/usr/bin/nvidia-vgpud", SRIOV_MANAGE)
HOST_DRIVER = "Install NVIDIA's vGPU host driver of a release that lists this card, and reboot."
MISMATCH = re.compile(r"version mismatch|API mismatch", re.IGNORECASE)


def bound(look: Look, gpu: GPU) -> Verdict:
    """Which driver a card is on."""
    link = Evidence(f"/sys/bus/pci/devices/{gpu.address}/driver", gpu.driver or "none")
    if is_vfio(gpu.driver):
        return not_applicable(link, ("whole card", "given to a machine whole, or kept for that"))
    if gpu.driver in modules.STRANGERS:
        return failed(modules.without(look, [gpu.driver]), link)
    if gpu.driver is None:
        return _none(look, gpu, link)
    return passed(link)


def _none(look: Look, gpu: GPU, link: Evidence) -> Verdict:
    """No driver at all: was it never built for this kernel (field log H04), or does it not take the card?"""
    if gpu.vendor != "NVIDIA":
        return failed("Install the maker's driver for this card, or give it to vfio-pci.", link)
    there = modules.presence(look, "nvidia")
    evidence = (link, Evidence("/sys/module/nvidia", there.value))
    if there is modules.Presence.ABSENT:
        headers = distribution.install(look.host, "kernel-headers")
        return failed(f"Build the driver for this kernel: {headers}, then dkms autoinstall. {HOST_DRIVER}", *evidence)
    if there is modules.Presence.LOADABLE:
        return failed("Run: modprobe nvidia. If that is refused, look at secureboot.modules and at dmesg.", *evidence)
    return failed(f"Look at dmesg for NVRM: the driver did not take this card. {HOST_DRIVER}", *evidence)


def versions(look: Look) -> Verdict:
    """Kernel module, library and nvidia-smi are of one release; updates break that until the next boot (H09)."""
    if not any(gpu.driver == "nvidia" for gpu in look.gpus):
        return not_applicable(("/sys/bus/pci/devices", "no GPU on the nvidia driver"))
    module = (look.text(MODULE) or "").strip() or _release(look.text(PROC))
    libraries = _libraries(look)
    evidence = [
        Evidence(MODULE, module or "no version"),
        *(Evidence(path, version) for path, version in libraries.items()),
    ]
    smi, said = _smi(look)
    evidence.append(Evidence(SMI, said))
    if MISMATCH.search(said) or (module and libraries and module not in libraries.values()):
        return failed(_hold(look), *evidence)
    if module and (module in libraries.values() or smi == module):
        return passed(*evidence)
    if module and smi:
        return failed(_hold(look), *evidence)
    return unknown("Look at what nvidia-smi says on the host.", *evidence)


def _hold(look: Look) -> str:
    hold = distribution.hold(look.host, "'nvidia-*' 'libnvidia-*'")
    return f"Stop the machines and reboot, so that module and libraries are of one release; then: {hold}."


def _smi(look: Look) -> tuple[str | None, str]:
    """The release that nvidia-smi tells, and its words."""
    try:
        answer = look.said(SMI)
    except VmctlError as error:
        return None, error.what
    found = re.search(r"^Driver Version\s*:\s*(\S+)", answer.output, re.MULTILINE)
    if found is not None:
        return found[1], f"Driver Version {found[1]}"
    words = (answer.output.strip() or answer.errors.strip()).splitlines()
    return None, f"status {answer.status}: {' '.join(words[:2])[:200]}"


def _release(text: str | None) -> str | None:
    found = RELEASE.search(text or "")
    return found[0] if found else None


def _libraries(look: Look) -> dict[str, str]:
    """The NVML libraries that are there: path to release."""
    found = {}
    for folder in LIBRARIES:
        for name in look.entries(folder):
            version = name.removeprefix("libnvidia-ml.so.")
            if version != name and RELEASE.fullmatch(version):
                found[f"{folder}/{name}"] = version
    return found


def package(look: Look) -> Verdict:
    """The vGPU host driver and the plain CUDA driver have the same module name (7.4)."""
    driven = [gpu for gpu in look.nvidia if gpu.driver == "nvidia"]
    if not driven:
        return not_applicable(("/sys/bus/pci/devices", "no GPU on the nvidia driver"))
    offering = [gpu for gpu in driven if gpu.types]
    if offering:
        return passed(*((gpu.address, f"{len(gpu.types)} vGPU types") for gpu in offering))
    files = [name for name in PACKAGE_FILES if look.there(name)]
    if files:
        return passed(*((name, "is there") for name in files))
    evidence = [Evidence(name, "is not there") for name in PACKAGE_FILES]
    try:
        manager = units.unit(look, MANAGERS[1])
    except VmctlError as error:
        return unknown(HOST_DRIVER, *evidence, ("systemctl", error.what))
    evidence.append(Evidence(MANAGERS[1], units.told(manager)))
    if units.is_there(manager):
        return passed(*evidence)
    return failed(f"This is the plain CUDA driver, which makes no vGPUs. {HOST_DRIVER}", *evidence)


def manager(look: Look) -> Verdict:
    """nvidia-vgpud feeds the type list and may end; nvidia-vgpu-mgr must run while machines run (1.2)."""
    if not any(gpu.driver == "nvidia" for gpu in look.nvidia):
        return not_applicable(("/sys/bus/pci/devices", "no GPU on the nvidia driver"))
    found = {name: units.unit(look, name) for name in MANAGERS}
    evidence = [Evidence(name, units.told(each)) for name, each in found.items()]
    absent = [name for name, each in found.items() if not units.is_there(each)]
    if absent:
        return failed(f"{HOST_DRIVER} It brings {' and '.join(absent)}.", *evidence)
    once, always = found.values()
    if once.get("ActiveState") == "failed" or once.get("Result", "success") != "success":
        return failed(f"Run: systemctl restart {MANAGERS[0]}, and look at: journalctl -u {MANAGERS[0]}", *evidence)
    if not units.is_active(always):
        return failed(
            f"Run: systemctl enable --now {MANAGERS[1]}. Until then no machine with a vGPU starts.", *evidence
        )
    return passed(*evidence)


def types(look: Look, gpu: GPU) -> Verdict:
    """Whether a card offers sizes at all, and whether all of them could be read."""
    if gpu.driver != "nvidia" and gpu.framework in (Framework.PASSTHROUGH, Framework.SRIOV, Framework.NONE):
        said = gpu.reason or f"on {gpu.driver or 'no driver'}: cut into no vGPU types"
        return not_applicable((gpu.address, said))
    if cards.drives_the_screen(look, gpu):
        return not_applicable((gpu.address, "drives the host's screen: see display.mode"))
    gaps = [Evidence(gap.what, gap.reason) for gap in _gaps(gpu)]
    seen = Evidence(gpu.address, f"{len(gpu.types)} types, framework {gpu.framework.value}")
    if gpu.types and not gaps:
        return passed(seen)
    if gpu.types:
        return unknown("Look at nvidia-vgpud's log: journalctl -u nvidia-vgpud", seen, *gaps)
    switched_off = gpu.vfs is not None and gpu.vfs.enabled == 0
    reason = (Evidence(gpu.address, gpu.reason),) if gpu.reason else ()
    if switched_off:
        return warned("Switch its virtual functions on first: see sriov.enabled.", seen, *reason, *gaps)
    # Whether it can be given away whole is asked elsewhere: its group is no matter of the driver.
    if gpu.framework is Framework.PASSTHROUGH and any(other.types for other in look.nvidia):
        return warned("If it is no vGPU card it can only be given away whole: then all is well.", seen, *reason)
    remedy = f"{HOST_DRIVER} If it is: systemctl restart nvidia-vgpud, and see display.mode and driver.package."
    return failed(remedy, seen, *reason, *gaps)


def _gaps(gpu: GPU) -> Iterator[Unknown]:
    """What could not be read about the types; an unreadable mode of the card is none of theirs."""
    other = ("mig", "ecc", "scheduler", "mixed", "uuid", "model", "numa_node")
    return (gap for gap in gpu.unknown if gap.what.split(".")[0] not in other)
