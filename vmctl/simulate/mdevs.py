"""Draws mediated devices and the types of their parents (dossier 1.1, 1.2), from a card's state."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from vmctl.simulate import rules
from vmctl.simulate.kinds import NVIDIA
from vmctl.simulate.layouts import Card
from vmctl.simulate.state import CardState
from vmctl.simulate.tree import Tree

TYPES = "mdev_supported_types"
BUS = "sys/bus/mdev/devices"
PARENTS = "sys/class/mdev_bus"
GROUPS = "sys/kernel/iommu_groups"

# All free VFs of a card show the same types with the same counters, so they share one folder: 32 VFs of 29 types would
# be 13,000 files otherwise. A VF that holds a vGPU has its own.
FREE_FUNCTIONS = ".types/free"
OWN_TYPES = ".types/own"


@dataclass(frozen=True)
class Mdevs:
    """The mediated devices of one card; `base` is the folder that its functions lie in."""

    tree: Tree
    card: Card
    own: CardState
    base: str
    changed: str | None = None  # the one parent whose vGPUs are others than when they were drawn; None: any

    @property
    def parents(self) -> list[str]:
        return self.card.functions[: self.own.vfs] if self.card.board.vfs else [self.card.address]

    def draw(self, live: bool) -> None:
        """Make folders, links of types, counters and groups agree with the vGPUs that exist."""
        free = f"{FREE_FUNCTIONS}/{self.card.address}"
        if self.card.board.vfs:
            self._types(free, None)
        occupied = {vgpu.function for vgpu in self.own.vgpus.values()}
        for parent in self.parents:
            if self.changed not in (None, parent) and parent not in occupied:
                continue
            folder = f"{self.base}/{parent}"
            if self.card.board.vfs:
                self._virtual(parent, free)
            elif live:
                self._types(f"{folder}/{TYPES}", parent)
            else:
                self.tree.gone(f"{folder}/{TYPES}")
            if live:
                self.tree.link(f"{PARENTS}/{parent}", folder)
            else:
                self.tree.gone(f"{PARENTS}/{parent}")
        for uuid in self.own.vgpus:
            self._device(uuid)

    def stale(self) -> None:
        """Take away devices that are no more: first off the bus, then their groups and folders."""
        for parent in [*self.card.functions, self.card.address] if self.changed is None else [self.changed]:
            folder = f"{self.base}/{parent}"
            if parent not in self.parents:
                self.tree.gone(f"{OWN_TYPES}/{parent}")
            for name in self.tree.names(folder):
                if is_uuid(name) and (name not in self.own.vgpus or self.own.vgpus[name].function != parent):
                    group = self.tree.target(f"{folder}/{name}/iommu_group")
                    self.tree.gone(f"{BUS}/{name}")
                    if group is not None:
                        self.tree.gone(f"{GROUPS}/{group}")
                        self.tree.gone(f"dev/vfio/{group}")
                    self.tree.gone(f"{folder}/{name}")  # last: it tells the group to whoever has to go on here

    def _device(self, uuid: str) -> None:
        vgpu = self.own.vgpus[uuid]
        device, group = f"{self.base}/{vgpu.function}/{uuid}", f"{GROUPS}/{vgpu.group}"
        if not os.path.lexists(self.tree.path(f"{BUS}/{uuid}")):
            self.tree.folder(device)
            self.tree.path(f"{device}/mdev_type").unlink(missing_ok=True)
            self.tree.path(f"{device}/mdev_type").symlink_to(f"../{TYPES}/{vgpu.kind}")
            self.tree.file(f"{device}/remove", "", 0o200)
            self.tree.link(f"{group}/devices/{uuid}", device)
            self.tree.link(f"{device}/iommu_group", group)
            self.tree.file(f"dev/vfio/{vgpu.group}", "", 0o600)
        if self.card.board.vendor == NVIDIA:
            self.tree.show(f"{device}/nvidia/vgpu_params", self.own.params.get(uuid, ""))
        self.tree.link(f"{BUS}/{uuid}", device)  # from here on it exists

    def _virtual(self, function: str, free: str) -> None:
        """A VF with a vGPU shows types of its own, a free one those of all free ones."""
        own = f"{OWN_TYPES}/{function}"
        here, draft = self.tree.path(own), self.tree.path(f"{own}.draft")
        occupied = any(vgpu.function == function for vgpu in self.own.vgpus.values())
        if draft.exists():
            shutil.rmtree(draft)  # half made or half removed when a process died
        if occupied and not here.exists():
            shutil.copytree(self.tree.path(free), draft, copy_function=os.link, symlinks=True)
            draft.rename(here)
        if occupied:
            self._types(own, function)
        self.tree.link(f"{self.base}/{function}/{TYPES}", own if occupied else free)
        if not occupied and here.exists():
            here.rename(draft)
            shutil.rmtree(draft)

    def _types(self, folder: str, function: str | None) -> None:
        """Links and counters of the types that a function shows; None: a free VF."""
        for kind in self.card.board.types():
            where = f"{folder}/{kind.driver_id}"
            if not self.tree.path(f"{where}/create").exists():
                self._kind(kind.driver_id, where)
            self._links(f"{where}/devices", function, kind.driver_id)
            left = rules.counter(self.card.board, self.own, kind, function)
            self.tree.show(f"{where}/available_instances", str(left), 0o444)

    def _kind(self, driver_id: str, where: str) -> None:
        """One type. Intel's has no name, and five lines of description (1.1)."""
        kind = self.card.board.by_id[driver_id]
        self.tree.folder(f"{where}/devices")
        if kind.name:
            self.tree.file(f"{where}/name", kind.name)
        self.tree.file(f"{where}/description", kind.description)
        self.tree.file(f"{where}/device_api", "vfio-pci")
        self.tree.file(f"{where}/create", "", 0o200)

    def _links(self, folder: str, function: str | None, driver_id: str) -> None:
        wanted = {
            uuid
            for uuid, vgpu in self.own.vgpus.items()
            if vgpu.function == function and vgpu.kind == driver_id and function is not None
        }
        here: Path = self.tree.path(folder)
        for name in set(os.listdir(here)) ^ wanted:
            if name in wanted:
                self.tree.link(f"{folder}/{name}", f"{self.base}/{function}/{name}")
            else:
                (here / name).unlink()


def is_uuid(name: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", name) is not None
