"""The mark: what vmctl writes into a domain's metadata. Without it a domain is foreign and left alone. Pure."""

import xml.etree.ElementTree as ET
from datetime import datetime

from vmctl.documents import parse_time
from vmctl.observation import Mark, MarkedVGPU

NAMESPACE = "https://tessera.invalid/mark/1"
PREFIX = "tessera"

ET.register_namespace(PREFIX, NAMESPACE)


def element_of(mark: Mark, space: str = f"{{{NAMESPACE}}}") -> ET.Element:
    """The mark as it stands in a domain's metadata; `space` is the qualifier of its elements' names."""
    fields = {
        "portal": mark.portal,
        "host": mark.host,
        "machine": mark.machine,
        "reservation": mark.reservation,
    }
    times = {"end": mark.end, "promised": mark.promised, "asked": mark.asked}
    element = ET.Element(
        f"{space}mark",
        fields | {name: time.isoformat() for name, time in times.items() if time is not None},
    )
    for vgpu in mark.vgpus:
        ET.SubElement(element, f"{space}vgpu", uuid=vgpu.uuid, gpu=vgpu.gpu, type=vgpu.type)
    return element


def to_xml(mark: Mark) -> str:
    """The mark for virDomainSetMetadata, which puts the namespace on by itself and refuses one that is there."""
    return ET.tostring(element_of(mark, space=""), encoding="unicode")


def read(xml: str) -> Mark | None:
    """The mark of a domain; None where there is none.  Raises ValueError when there is one that makes no sense."""
    element = ET.fromstring(xml).find(f"metadata/{{{NAMESPACE}}}mark")
    if element is None:
        return None
    try:
        return Mark(
            portal=element.attrib["portal"],
            host=element.attrib["host"],
            machine=element.attrib["machine"],
            reservation=element.attrib["reservation"],
            end=_time(element.attrib["end"]),
            promised=_maybe_time(element.get("promised")),
            asked=_maybe_time(element.get("asked")),
            vgpus=tuple(_marked(vgpu) for vgpu in element.iterfind(f"{{{NAMESPACE}}}vgpu")),
        )
    except KeyError as error:
        raise ValueError(f"the mark has no {error}") from error


def _marked(element: ET.Element) -> MarkedVGPU:
    return MarkedVGPU(element.attrib["uuid"], element.attrib["gpu"], element.attrib["type"])


def _time(text: str) -> datetime:
    found = parse_time(text)
    if found is None:
        raise ValueError(f"the mark has the time {text!r}")
    return found


def _maybe_time(text: str | None) -> datetime | None:
    return None if text is None else _time(text)
