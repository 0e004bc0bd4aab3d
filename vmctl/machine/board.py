"""A machine's board in domain XML: what it boots by, its TPM, its processors and where its memory lies.  Pure."""

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vmctl.model import Firmware

SECURE = {"secure-boot": "yes", "enrolled-keys": "yes"}
PLAIN = {"secure-boot": "no"}  # named, or libvirt may choose a firmware with Secure Boot on


@dataclass(frozen=True)
class Pinning:
    """The NUMA node that a machine's processors and memory are kept on, and the host's processors of that node."""

    node: int
    cpus: str


def processors(domain: ET.Element, count: int, pinning: Pinning | None) -> None:
    """So many vCPUs; on a node they run on its processors only, and all memory is taken there."""
    placed = {} if pinning is None else {"placement": "static", "cpuset": pinning.cpus}
    ET.SubElement(domain, "vcpu", placed).text = str(count)
    if pinning is not None:
        numa = ET.SubElement(domain, "numatune")
        ET.SubElement(numa, "memory", mode="strict", nodeset=str(pinning.node))


UNITS = {"b": 1, "bytes": 1, "KB": 10**3, "KiB": 2**10, "MB": 10**6, "MiB": 2**20, "GB": 10**9, "GiB": 2**30}
UNITS |= {"k": 2**10, "M": 2**20, "G": 2**30, "TB": 10**12, "TiB": 2**40, "T": 2**40}
"""libvirt's units of memory; where none is named it means KiB."""
HARD = ("strict", "restrictive")
"""Memory modes that leave a machine no other node."""


def kept_on_nodes(xmls: Iterable[str]) -> dict[int, int]:
    """How many MiB the domains of these XMLs take on each node that they are kept on; on several, they may all lie on
    any of them. An XML that makes no sense is told elsewhere.
    """
    found: Counter[int] = Counter()
    for xml in xmls:
        with suppress(ET.ParseError):
            domain = ET.fromstring(xml)
            placed = domain.find("numatune/memory")
            if placed is not None and placed.get("mode", "strict") in HARD:
                found.update(dict.fromkeys(numbers(placed.get("nodeset", "")), _memory_mib(domain)))
    return dict(found)


def numbers(text: str) -> Iterator[int]:
    """The numbers of a list like "0-2,^1,5" as libvirt writes node sets."""
    parts = [part for part in text.replace(" ", "").split(",") if part]
    without = {int(part[1:]) for part in parts if part.startswith("^") and part[1:].isdecimal()}
    for part in parts:
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            yield from (number for number in range(int(first), int(last or first) + 1) if number not in without)


def _memory_mib(domain: ET.Element) -> int:
    element = domain.find("memory")
    text = (domain.findtext("memory") or "").strip()
    unit = "KiB" if element is None else element.get("unit", "KiB")
    return int(text) * UNITS.get(unit, 2**10) // 2**20 if text.isdecimal() else 0


def system(firmware: Firmware, nvram: Path) -> ET.Element:
    """The `os` element, always Q35.  libvirt chooses the UEFI that its host has; its variables lie where we say."""
    found = ET.Element("os")
    if firmware is not Firmware.BIOS:
        found.set("firmware", "efi")
    ET.SubElement(found, "type", arch="x86_64", machine="q35").text = "hvm"
    if firmware is not Firmware.BIOS:
        wanted = ET.SubElement(found, "firmware")
        for name, enabled in (SECURE if firmware is Firmware.SECURE else PLAIN).items():
            ET.SubElement(wanted, "feature", enabled=enabled, name=name)
        ET.SubElement(found, "nvram", format="raw").text = str(nvram)
    ET.SubElement(found, "boot", dev="hd")
    return found


def cpu(domain_type: str, firmware: Firmware) -> ET.Element:
    """The host's own CPU under KVM; in emulation a model that every QEMU emulates whole."""
    if domain_type == "kvm":
        own = ET.Element("cpu", mode="host-passthrough")
        if firmware is not Firmware.BIOS:  # a UEFI lays its 64-bit window out by it: GPUs have BARs of many GiB
            ET.SubElement(own, "maxphysaddr", mode="passthrough")
        return own
    model = ET.Element("cpu", mode="custom", match="exact")
    ET.SubElement(model, "model", fallback="forbid").text = "qemu64"
    return model


def tpm() -> ET.Element:
    """A TPM 2.0.  Its state outlives the domain, which is transient: libvirt keeps it under the machine's uuid."""
    found = ET.Element("tpm", model="tpm-crb")
    ET.SubElement(found, "backend", type="emulator", version="2.0", persistent_state="yes")
    return found
