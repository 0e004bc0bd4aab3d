"""Which processes hold a GPU or a share of one open, as far as this user can see (dossier 1.2 and 1.4)."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from vmctl.host import Host


@dataclass(frozen=True)
class Holder:
    """A process that has a device node open."""

    process: str
    command: str
    node: str

    def __str__(self) -> str:
        return f"process {self.process}" + (f" ({self.command})" if self.command else "")


def holding(host: Host, nodes: Collection[str]) -> list[Holder]:
    """Who has one of these nodes open: one pass over all processes."""
    return [holder for holder in everyone(host) if holder.node in nodes] if nodes else []


def named(holders: Collection[Holder]) -> str:
    """All of them in one line, each process once."""
    return ", ".join(dict.fromkeys(str(holder) for holder in holders))


def vfio_nodes(host: Host, device: str) -> set[str]:
    """The nodes by which user space drives a function or a mediated device: its group's, and (iommufd) its own.

    `device` is its folder in sysfs, as a path of the machine.
    """
    folder = host.path(device)
    nodes = {f"/dev/vfio/devices/{name}" for name in host.names(folder / "vfio-dev")}
    group = host.link(folder / "iommu_group")
    return nodes | ({f"/dev/vfio/{group}"} if group else set())


def function_nodes(host: Host, *addresses: str) -> set[str]:
    """The same of PCI functions."""
    return {node for address in addresses for node in vfio_nodes(host, f"/sys/bus/pci/devices/{address}")}


def gpu_nodes(host: Host, address: str) -> set[str]:
    """The node of a GPU that NVIDIA's driver drives; nothing elsewhere."""
    text = host.read_or_none(host.path(f"/proc/driver/nvidia/gpus/{address}/information")) or ""
    found = re.search(r"^Device Minor:\s*(\d+)", text, re.MULTILINE)
    return {f"/dev/nvidia{found[1]}"} if found else set()


def everyone(host: Host) -> Iterator[Holder]:
    """Whoever has a node of a GPU or of VFIO open."""
    for process in host.names(host.path("/proc")):
        if not process.isdecimal():
            continue
        folder = host.path(f"/proc/{process}/fd")
        for handle in host.names(folder):
            try:
                node = os.readlink(folder / handle)
            except OSError:
                continue  # closed meanwhile
            if node.startswith(("/dev/nvidia", "/dev/vfio/")):
                command = (host.read_or_none(host.path(f"/proc/{process}/comm")) or "").strip()
                yield Holder(process, command, node)
