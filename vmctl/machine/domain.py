"""Domain XML: built from values, read back into values.  Pure."""

import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from vmctl import mark as marks
from vmctl.machine import board
from vmctl.machine.board import Pinning
from vmctl.model import Attachment, DesiredMachine, MediatedDevice, PCIFunction, StandInVideo
from vmctl.observation import Mark, Screen

ALIAS = "ua-tessera-"
UUID_LENGTH = 36
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
    """Everything a domain is made of.  `shows`: the device whose picture the console shows; None: the boot console."""

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
    nvram: Path = Path()  # UEFI's variables; without UEFI there are none
    shows: Attachment | None = None
    pinning: Pinning | None = None


def render(plan: Blueprint) -> str:
    """The XML for virDomainCreateXML."""
    domain = ET.Element("domain", type=plan.domain_type)
    _text(domain, "name", plan.machine.name)
    _text(domain, "uuid", plan.machine.machine)
    ET.SubElement(domain, "metadata").append(marks.element_of(plan.mark))
    _text(domain, "memory", str(plan.machine.memory_mib), unit="MiB")
    board.processors(domain, plan.machine.vcpus, plan.pinning)
    domain.append(board.system(plan.machine.firmware, plan.nvram))
    features = ET.SubElement(domain, "features")
    ET.SubElement(features, "acpi")
    ET.SubElement(features, "apic")
    domain.append(board.cpu(plan.domain_type, plan.machine.firmware))
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
    devices.append(_video(plan.shows))
    devices.extend(_attachments(plan))
    if plan.machine.tpm:
        devices.append(board.tpm())
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


def _video(shows: Attachment | None) -> ET.Element:
    """The boot console's card; none where a vGPU shows the boot too, or a screen would have two pictures."""
    video = ET.Element("video")
    if shows is None:
        ET.SubElement(video, "model", type="vga", vram="16384", heads="1", primary="yes")
    else:
        ET.SubElement(video, "model", type="none")
    return video


def _attachments(plan: Blueprint) -> Iterable[ET.Element]:
    """The element each vGPU becomes.  Its alias names the vGPU, so that a claim can be read from any domain's XML.

    An alias is there once: further functions of one share have theirs with a number.
    """
    seen: Counter[str] = Counter()
    for attachment in plan.attachments:
        element = _attachment(attachment, on="on" if attachment is plan.shows else "off")
        number = seen[attachment.uuid]
        ET.SubElement(element, "alias", name=f"{ALIAS}{attachment.uuid}" + (f"-{number}" if number else ""))
        seen[attachment.uuid] += 1
        yield element


def _attachment(attachment: Attachment, on: str) -> ET.Element:
    host, shown = {"mode": "subsystem", "managed": "no"}, {"display": on} | ({"ramfb": on} if on == "on" else {})
    match attachment:
        case MediatedDevice(uuid):
            element = ET.Element("hostdev", host | {"type": "mdev", "model": "vfio-pci"} | shown)
            ET.SubElement(ET.SubElement(element, "source"), "address", uuid=uuid)
        case PCIFunction(_, address):
            element = ET.Element("hostdev", host | {"type": "pci"} | (shown if on == "on" else {}))
            ET.SubElement(ET.SubElement(element, "source"), "address", _pci_parts(address))
        case StandInVideo():
            element = ET.Element("video")
            ET.SubElement(element, "model", type="virtio", heads="1")
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
    found |= {alias[len(ALIAS) :][:UUID_LENGTH] for alias in _aliases(domain) if alias.startswith(ALIAS)}
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


def read_screen(xml: str) -> Screen:
    """What a machine's console goes on showing once its vGPU has taken over."""
    devices = ET.fromstring(xml).findall("devices/hostdev")
    vgpus = [device for device in devices if device.get("type") in ("mdev", "pci")]
    shown = any(device.get("display") == "on" for device in vgpus)
    return Screen.BOOT if vgpus and not shown else Screen.VGPU
