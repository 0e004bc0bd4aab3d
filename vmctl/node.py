"""What libvirt shows of a host: itself and its domains. Pure values."""

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass

from vmctl.observation import MachineState


@dataclass(frozen=True)
class Domain:
    """A domain as libvirt shows it, running or defined.  `trouble`: why its state could not be told."""

    name: str
    uuid: str
    state: MachineState
    xml: str
    trouble: str | None = None


@dataclass(frozen=True)
class Node:
    """What libvirt knows of the host: CPUs, memory in MiB, the user and group that QEMU runs as."""

    vcpus: int
    memory_mib: int
    qemu_user: tuple[int, int] | None


def qemu_user(capabilities: str) -> tuple[int, int] | None:
    """User and group that QEMU runs as, from libvirt's capabilities."""
    for model in ET.fromstring(capabilities).iterfind("host/secmodel"):
        match = re.fullmatch(r"\+(\d+):\+(\d+)", model.findtext("baselabel", ""))
        if model.findtext("model") == "dac" and match:
            return int(match[1]), int(match[2])
    return None
