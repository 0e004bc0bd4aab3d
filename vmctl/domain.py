"""Domain XML: built from values, read back into values.  Pure."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from vmctl import mark as marks
from vmctl.model import Attachment, DesiredMachine, MediatedDevice, PCIFunction, StandInVideo
from vmctl.observation import Mark

ALIAS = "ua-tessera-"
FILTER = "tessera-guest"


@dataclass(frozen=True)
class Wiring:
    """A machine's place on the guest network."""

    network: str
    mac: str
    address: str
    gateway: str
    subnet: str
    netmask: str


@dataclass(frozen=True)
class Blueprint:
    """Everything a domain is made of."""

    machine: DesiredMachine
    mark: Mark
    domain_type: str  # "kvm" | "qemu", always said: libvirt's own default believes in /dev/kvm
    disk: Path
    image: Path  # what the disk is an overlay of
    seed: Path
    serial: Path
    console: Path
    wiring: Wiring
    attachments: tuple[Attachment, ...]


def render(plan: Blueprint) -> str:
    """The XML for virDomainCreateXML."""
    domain = ET.Element("domain", type=plan.domain_type)
    _text(domain, "name", plan.machine.name)
    _text(domain, "uuid", plan.machine.machine)
    ET.SubElement(domain, "metadata").append(marks.element_of(plan.mark))
    _text(domain, "memory", str(plan.machine.memory_mib), unit="MiB")
    _text(domain, "vcpu", str(plan.machine.vcpus))
    system = ET.SubElement(domain, "os")
    _text(system, "type", "hvm", arch="x86_64", machine="q35")
    ET.SubElement(system, "boot", dev="hd")
    features = ET.SubElement(domain, "features")
    ET.SubElement(features, "acpi")
    ET.SubElement(features, "apic")
    domain.append(_cpu(plan.domain_type))
    ET.SubElement(domain, "clock", offset="utc")
    _text(domain, "on_poweroff", "destroy")
    _text(domain, "on_reboot", "restart")
    _text(domain, "on_crash", "destroy")
    domain.append(_no_sleep())
    domain.append(_devices(plan))
    ET.indent(domain)
    return ET.tostring(domain, encoding="unicode") + "\n"


def _text(parent: ET.Element, tag: str, text: str, **attributes: str) -> None:
    ET.SubElement(parent, tag, attributes).text = text


def _cpu(domain_type: str) -> ET.Element:
    """The host's own CPU under KVM; in emulation a model that every QEMU emulates whole."""
    if domain_type == "kvm":
        return ET.Element("cpu", mode="host-passthrough")
    cpu = ET.Element("cpu", mode="custom", match="exact")
    _text(cpu, "model", "qemu64", fallback="forbid")
    return cpu


def _no_sleep() -> ET.Element:
    """A vGPU does not survive suspend (field log A18), so the machine is not offered it."""
    power = ET.Element("pm")
    ET.SubElement(power, "suspend-to-mem", enabled="no")
    ET.SubElement(power, "suspend-to-disk", enabled="no")
    return power


def _devices(plan: Blueprint) -> ET.Element:
    devices = ET.Element("devices")
    devices.append(_disk(plan.disk, plan.image))
    devices.append(_seed(plan.seed))
    devices.append(_interface(plan.wiring))
    devices.append(_serial(plan.serial))
    devices.append(_agent())
    ET.SubElement(devices, "controller", type="usb", model="qemu-xhci")
    ET.SubElement(devices, "input", type="tablet", bus="usb")
    devices.append(_screen(plan.console))
    video = ET.SubElement(devices, "video")
    ET.SubElement(video, "model", type="vga", vram="16384", heads="1", primary="yes")
    devices.extend(_attachment(attachment) for attachment in plan.attachments)
    entropy = ET.SubElement(devices, "rng", model="virtio")
    _text(entropy, "backend", "/dev/urandom", model="random")
    ET.SubElement(devices, "memballoon", model="none")  # a vGPU pins the memory: nothing to give back
    return devices


def _disk(path: Path, image: Path) -> ET.Element:
    """The overlay and, said outright, what lies under it.

    libvirt then neither guesses a chain from the guest's own bytes, nor gives the image, which many share, to QEMU's
    user (who could write to it) or takes it away when the first of them ends.
    """
    disk = ET.Element("disk", type="file", device="disk")
    ET.SubElement(disk, "driver", name="qemu", type="qcow2", discard="unmap")
    ET.SubElement(disk, "source", file=str(path))
    below = ET.SubElement(disk, "backingStore", type="file")
    ET.SubElement(below, "format", type="qcow2")
    source = ET.SubElement(below, "source", file=str(image))
    ET.SubElement(source, "seclabel", model="dac", relabel="no")
    ET.SubElement(below, "backingStore")
    ET.SubElement(disk, "target", dev="vda", bus="virtio")
    return disk


def _seed(path: Path) -> ET.Element:
    """A virtio disk, not a CD: small cloud kernels have no driver for a SATA drive."""
    disk = ET.Element("disk", type="file", device="disk")
    ET.SubElement(disk, "driver", name="qemu", type="raw")
    ET.SubElement(disk, "source", file=str(path))
    ET.SubElement(disk, "target", dev="vdb", bus="virtio")
    ET.SubElement(disk, "readonly")
    return disk


def _interface(wiring: Wiring) -> ET.Element:
    """On the NAT network, behind our filter, and on an isolated port: no guest sees another's frames."""
    interface = ET.Element("interface", type="network")
    ET.SubElement(interface, "mac", address=wiring.mac)
    ET.SubElement(interface, "source", network=wiring.network)
    ET.SubElement(interface, "model", type="virtio")
    filtered = ET.SubElement(interface, "filterref", filter=FILTER)
    for name, value in (
        ("IP", wiring.address),
        ("GATEWAY", wiring.gateway),
        ("SUBNET", wiring.subnet),
        ("NETMASK", wiring.netmask),
    ):
        ET.SubElement(filtered, "parameter", name=name, value=value)
    ET.SubElement(interface, "port", isolated="yes")
    ET.SubElement(interface, "rom", enabled="no")  # nothing boots from the network
    return interface


def _serial(path: Path) -> ET.Element:
    serial = ET.Element("serial", type="file")
    ET.SubElement(serial, "source", path=str(path), append="on")
    ET.SubElement(serial, "target", port="0")
    return serial


def _agent() -> ET.Element:
    channel = ET.Element("channel", type="unix")
    ET.SubElement(channel, "target", type="virtio", name="org.qemu.guest_agent.0")
    return channel


def _screen(socket: Path) -> ET.Element:
    """VNC on a unix socket that we choose: no port, no password, no keymap (the browser sends key symbols)."""
    graphics = ET.Element("graphics", type="vnc", sharePolicy="ignore")
    ET.SubElement(graphics, "listen", type="socket", socket=str(socket))
    return graphics


def _attachment(attachment: Attachment) -> ET.Element:
    """The element a vGPU becomes.  Its alias names the vGPU, so that a claim can be read from any domain's XML."""
    match attachment:
        case MediatedDevice(uuid):
            element = ET.Element(
                "hostdev", mode="subsystem", type="mdev", managed="no", model="vfio-pci", display="off"
            )
            ET.SubElement(ET.SubElement(element, "source"), "address", uuid=uuid)
        case PCIFunction(uuid, address, managed):
            element = ET.Element("hostdev", mode="subsystem", type="pci", managed="yes" if managed else "no")
            ET.SubElement(ET.SubElement(element, "source"), "address", _pci_parts(address))
        case StandInVideo(uuid):
            element = ET.Element("video")
            ET.SubElement(element, "model", type="virtio", heads="1")
    ET.SubElement(element, "alias", name=f"{ALIAS}{uuid}")
    return element


def _pci_parts(address: str) -> dict[str, str]:
    domain, bus, rest = address.split(":")
    slot, function = rest.split(".")
    return {"domain": f"0x{domain}", "bus": f"0x{bus}", "slot": f"0x{slot}", "function": f"0x{function}"}


# What a domain takes ------------------------------------------------------------------------------


def read_claims(xml: str) -> frozenset[str]:
    """Uuids and PCI addresses of every host device that a domain's XML names, and of our stand-ins."""
    domain = ET.fromstring(xml)
    found = {_address(address) for address in domain.iterfind("devices/hostdev/source/address")}
    found |= {_address(address) for address in domain.iterfind("devices/interface/source/address")}
    found |= {alias[len(ALIAS) :] for alias in _aliases(domain) if alias.startswith(ALIAS)}
    return frozenset(claim for claim in found if claim)


def _aliases(domain: ET.Element) -> Iterable[str]:
    return (element.get("name", "") for element in domain.iterfind("devices/*/alias"))


def _address(element: ET.Element) -> str:
    uuid = element.get("uuid")
    if uuid is not None:
        return uuid.lower()
    parts = [element.get(part) for part in ("domain", "bus", "slot", "function")]
    if None in parts:
        return ""  # a USB or SCSI device: no share of a GPU
    domain, bus, slot, function = (int(part or "0", 0) for part in parts)
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"


def read_address(xml: str) -> str | None:
    """The IP address a domain's filter lets it use."""
    for parameter in ET.fromstring(xml).iterfind("devices/interface/filterref/parameter"):
        if parameter.get("name") == "IP" and re.fullmatch(r"[0-9.]+", parameter.get("value", "")):
            return parameter.get("value")
    return None
