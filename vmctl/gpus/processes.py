"""Which processes hold a GPU or a share of one open, as far as this user can see (dossier 1.2 and 1.4)."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import dataclass

from vmctl.errors import Code, VmctlError
from vmctl.host import Host

NODES = ("/dev/nvidia", "/dev/vfio/", "/dev/dri/", "/dev/kfd", "/dev/snd/")
"""Where the nodes of GPUs, of their audio functions and of VFIO lie, whoever made the card."""
KFD = "/dev/kfd"
"""One node for all of AMD's cards; who has it open may have any of them."""


@dataclass(frozen=True)
class Holder:
    """A process that has a device node open."""

    process: str
    command: str
    node: str

    def __str__(self) -> str:
        return f"process {self.process}" + (f" ({self.command})" if self.command else "")


@dataclass(frozen=True)
class Holders:
    """Whoever has a node of a GPU or of VFIO open. `whole`: every process of the machine could be looked at."""

    found: tuple[Holder, ...]
    whole: bool

    @property
    def nodes(self) -> frozenset[str]:
        return frozenset(holder.node for holder in self.found)

    def of(self, nodes: Collection[str]) -> list[Holder]:
        """Who has one of these nodes open."""
        return [holder for holder in self.found if holder.node in nodes]


def holding(host: Host, nodes: Collection[str]) -> list[Holder]:
    """Who has one of these nodes open: one pass over all processes."""
    return everyone(host).of(nodes) if nodes else []


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
    """Every node of PCI functions but NVIDIA's own: VFIO's, and those of the kernel's drivers for GPUs and sound."""
    return {node for address in addresses for node in _function_nodes(host, address)}


def _function_nodes(host: Host, address: str) -> set[str]:
    folder = host.pci(address)
    nodes = vfio_nodes(host, f"/sys/bus/pci/devices/{address}")
    nodes |= {f"/dev/dri/{name}" for name in host.names(folder / "drm")}
    for card in host.names(folder / "sound"):
        nodes |= {f"/dev/snd/{name}" for name in host.names(folder / "sound" / card)}
    return nodes | ({KFD} if host.link(folder / "driver") == "amdgpu" else set())


def gpu_nodes(host: Host, address: str) -> set[str]:
    """The node of a GPU that NVIDIA's driver drives; nothing elsewhere."""
    text = host.read_or_none(host.path(f"/proc/driver/nvidia/gpus/{address}/information")) or ""
    found = re.search(r"^Device Minor:\s*(\d+)", text, re.MULTILINE)
    return {f"/dev/nvidia{found[1]}"} if found else set()


def having_open(host: Host, functions: Collection[str]) -> list[Holder]:
    """Who has one of these functions open, GPUs or others."""
    nodes = {node for address in functions for node in gpu_nodes(host, address)}
    return holding(host, nodes | function_nodes(host, *functions))


def refuse_open(host: Host, gpu: str, functions: Collection[str]) -> None:
    """Raise VmctlError (busy) while a process has a GPU or one of these functions open (field log B10)."""
    holders = having_open(host, functions)
    if holders:
        what = f"GPU {gpu} is held by {named(holders)}."
        raise VmctlError(Code.BUSY, what, "End them, then try again.", retry=True)


def everyone(host: Host) -> Holders:
    """All processes of the machine; a copy of its files shows none, and then not everybody was seen."""
    processes = [name for name in host.names(host.path("/proc")) if name.isdecimal()]
    found: list[Holder] = []
    whole = bool(processes)
    for process in processes:
        nodes = _opened(host, process)
        if nodes is None:
            whole = False
            continue
        for node in nodes:
            command = (host.read_or_none(host.path(f"/proc/{process}/comm")) or "").strip()
            found.append(Holder(process, command, node))
    return Holders(tuple(found), whole)


def _opened(host: Host, process: str) -> list[str] | None:
    """The nodes that a process has open; None where this user may not look."""
    folder = host.path(f"/proc/{process}/fd")
    try:
        handles = sorted(os.listdir(folder))
    except OSError:
        return None if folder.parent.exists() else []  # it has ended
    found = []
    for handle in handles:
        try:
            node = os.readlink(folder / handle)
        except OSError:
            continue  # closed meanwhile
        if node.startswith(NODES):
            found.append(node)
    return found
