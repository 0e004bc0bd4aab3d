"""Draws a card's files from its state: functions, drivers, vGPUs. Whatever was drawn before ends up the same."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from vmctl.simulate import rules
from vmctl.simulate.kinds import NVIDIA, Kind
from vmctl.simulate.layouts import Card
from vmctl.simulate.mdevs import Mdevs
from vmctl.simulate.state import CardState, State
from vmctl.simulate.tree import Tree

HEADER = "ID    : vGPU Name"
SHOWN = ".types"  # what all free VFs of a card show alike, once
DEVICES = "sys/bus/pci/devices"
DRIVERS = "sys/bus/pci/drivers"
GROUPS = "sys/kernel/iommu_groups"


@dataclass(frozen=True)
class Drawing:
    """One card of a machine. `changed`: the one function whose vGPU is another than drawn before; None: anything is."""

    tree: Tree
    card: Card
    state: State
    changed: str | None = None

    @property
    def own(self) -> CardState:
        return self.state.cards[self.card.address]

    @property
    def base(self) -> str:
        """The folder of the bridge that the card hangs on."""
        root = self.card.root_port or self.card.address
        below = f"/{self.card.root_port}" if self.card.root_port else ""
        return f"sys/devices/pci{root[:7]}{below}"

    def device(self, function: str) -> str:
        """Where a function lies: the card's own below its bridge, the bridge itself, or another slot of the machine."""
        if function == self.card.root_port:
            return self.base
        if function.rsplit(":", 1)[0] == self.card.address.rsplit(":", 1)[0]:
            return f"{self.base}/{function}"
        return f"sys/devices/pci0000:00/{function}"

    def driver(self, function: str, default: str | None) -> str | None:
        return self.state.drivers.get(function, default)

    def ready(self) -> bool:
        """Whether the GPU's own driver has it, so that it can be shared at all."""
        board = self.card.board
        return self.driver(self.card.address, board.driver) == board.driver and board.framework != "none"

    def draw(self) -> None:
        board, live = self.card.board, self.ready()
        mdevs = Mdevs(self.tree, self.card, self.own, self.base, self.changed)
        if board.framework in ("mdev-pf", "mdev-vf", "gvtg"):
            mdevs.stale()
        if self.changed is None:
            self._functions()
            self._drivers()
        if board.framework == "vendor-vfio":
            self._vendor()
        elif board.framework in ("mdev-pf", "mdev-vf", "gvtg"):
            mdevs.draw(live)
        if board.vendor == NVIDIA and self.changed is None:
            self._module(self.driver(self.card.address, board.driver) == board.driver)

    # -- functions

    def _functions(self) -> None:
        """The VFs that are on, and no others."""
        address, physical = self.card.address, self.device(self.card.address)
        if not self.card.board.vfs:
            return
        wanted = self.card.functions[: self.own.vfs]
        have = [name for name in self.tree.names(physical) if re.fullmatch(r"virtfn\d+", name)]
        for name in have:
            if int(name[6:]) >= len(wanted):
                self._without(self.card.functions[int(name[6:])], name)
        for number, function in enumerate(wanted):
            if not os.path.lexists(self.tree.path(f"{DEVICES}/{function}")):
                self._with(function, number)
        self.tree.show(f"{physical}/sriov_numvfs", str(len(wanted)))
        self.tree.show(f"{physical}/sriov_drivers_autoprobe", str(int(self.own.autoprobe)))
        self.tree.file(f"{SHOWN}/{address}/none", HEADER)

    def _with(self, function: str, number: int) -> None:
        physical, device = self.device(self.card.address), self.device(function)
        self.function(function, self.card.group + 1 + number)
        self.tree.link(f"{device}/physfn", physical)
        if self.card.board.framework == "vendor-vfio":
            self.tree.folder(f"{device}/nvidia")
            self.tree.file(f"{device}/nvidia/warm_update", "", 0o644)
        self.tree.link(f"{physical}/virtfn{number}", device)
        self.tree.link(f"{DEVICES}/{function}", device)  # from here on it exists

    def _without(self, function: str, link: str) -> None:
        device = self.device(function)
        group = self.tree.target(f"{device}/iommu_group")
        driver = self.tree.target(f"{device}/driver")
        self.tree.gone(f"{DEVICES}/{function}")
        self.tree.gone(f"sys/class/mdev_bus/{function}")
        if driver is not None:
            self.tree.gone(f"{DRIVERS}/{driver}/{function}")
        if group is not None:
            self.tree.gone(f"{GROUPS}/{group}")
            self.tree.gone(f"dev/vfio/{group}")
        self.tree.gone(device)
        self.tree.gone(f"{self.device(self.card.address)}/{link}")

    def function(self, function: str, group: int) -> None:
        """What every PCI function of the GPU shows (1.0): ids, class, IOMMU group, NUMA node."""
        board, device = self.card.board, self.device(function)
        self.tree.folder(device)
        for name, text in {
            "vendor": board.vendor,
            "device": board.device,
            "class": board.pci_class,
            "subsystem_vendor": board.vendor,
            "subsystem_device": board.subsystem,
            "revision": "0xa1",
            "numa_node": str(self.card.numa_node),
        }.items():
            self.tree.file(f"{device}/{name}", text)
        self.join(function, group)

    def join(self, function: str, group: int) -> None:
        device = self.device(function)
        self.tree.file(f"{device}/driver_override", "(null)", 0o644)
        self.tree.link(f"{device}/iommu_group", f"{GROUPS}/{group}")
        self.tree.link(f"{GROUPS}/{group}/devices/{function}", device)
        self.tree.file(f"{GROUPS}/{group}/type", "DMA-FQ", 0o644)

    # -- drivers

    def _drivers(self) -> None:
        board, open_groups = self.card.board, dict[str, bool]()
        functions = [(self.card.address, board.driver), *((each.address, each.driver) for each in self.card.companions)]
        for function, default in (*functions, *((each, board.driver) for each in self.card.functions[: self.own.vfs])):
            group = self.tree.target(f"{self.device(function)}/iommu_group") or ""
            open_groups[group] = self._bind(function, default, group) or open_groups.get(group, False)
        for group, is_open in open_groups.items():
            if is_open:
                self.tree.file(f"dev/vfio/{group}", "", 0o600)
            else:
                self.tree.gone(f"dev/vfio/{group}")

    def _bind(self, function: str, default: str | None, group: str) -> bool:
        """Show which driver has a function; tells whether user space gets a node for it.

        A VFIO driver shows a vfio-dev folder; of this vendor's VFs nvidia itself is one (1.3).
        """
        device, driver = self.device(function), self.driver(function, default)
        before = self.tree.target(f"{device}/driver")
        if before is not None and before != driver:
            self.tree.gone(f"{DRIVERS}/{before}/{function}")
            self.tree.gone(f"{device}/driver")
        if driver is not None and before != driver:
            self.tree.link(f"{device}/driver", f"{DRIVERS}/{driver}")
            self.tree.link(f"{DRIVERS}/{driver}/{function}", device)
            for name in ("bind", "unbind"):
                self.tree.file(f"{DRIVERS}/{driver}/{name}", "", 0o200)
        self.tree.show(f"{device}/driver_override", self.state.overrides.get(function, "(null)"))
        virtual = self.card.board.framework == "vendor-vfio" and function in self.card.functions
        vfio = driver == "vfio-pci" or (virtual and driver == "nvidia")
        if vfio:
            self.tree.folder(f"{device}/vfio-dev/vfio{int(group) * 8 + int(function[-1])}")
        else:
            self.tree.gone(f"{device}/vfio-dev")
        return vfio

    # -- what the vendor's module shows

    def _vendor(self) -> None:
        """The files of the vendor's own VFIO interface, per VF (1.3)."""
        address, own = self.card.address, self.own
        free = [kind for kind in self.card.board.types() if rules.places(self.card.board, own, kind)]
        rows = [f"{kind.number:<6}: {kind.name}" for kind in sorted(free, key=lambda kind: kind.number)]
        self.tree.show(f"{SHOWN}/{address}/free", "\n".join([HEADER, *rows]), 0o444)
        for function in self.card.functions[: own.vfs] if self.changed is None else [self.changed]:
            folder, vgpu = f"{self.device(function)}/nvidia", own.vgpus.get(function)
            which = "none" if vgpu is not None else "free"
            self.tree.link(f"{folder}/creatable_vgpu_types", f"{SHOWN}/{address}/{which}")
            self.tree.show(f"{folder}/current_vgpu_type", str(self._number(vgpu.kind) if vgpu else 0))
            self.tree.show(f"{folder}/vgpu_params", own.params.get(function, ""))
            for name, value in (
                ("placement_id", vgpu.placement if vgpu else None),
                ("gpu_instance_id", vgpu.instance if vgpu else None),
            ):
                if value is None:
                    self.tree.closed(f"{folder}/{name}")
                else:
                    self.tree.show(f"{folder}/{name}", str(value), 0o444)

    def _number(self, kind: str) -> int:
        found: Kind = self.card.board.by_id[kind]
        return found.number

    def _module(self, live: bool) -> None:
        """/proc/driver/nvidia and the nodes of the GPU (1.4)."""
        folder, minor = f"proc/driver/nvidia/gpus/{self.card.address}", self.minor
        if not live:
            self.tree.gone(folder)
            self.tree.gone(f"dev/nvidia{minor}")
            return
        self.tree.file(
            f"{folder}/information",
            f"Model: \t\t {self.card.board.model}\nIRQ:   \t\t 64\nGPU UUID: \t {gpu_uuid(self.card)}\n"
            f"Bus Type: \t PCIe\nBus Location: \t {self.card.address}\nDevice Minor: \t {minor}",
        )
        self.tree.show(f"{folder}/unbindLock", "1" if self.own.unlocked else "0")
        self.tree.file(f"dev/nvidia{minor}", "", 0o666)

    @property
    def minor(self) -> int:
        return list(self.state.cards).index(self.card.address)


def gpu_uuid(card: Card) -> str:
    return f"GPU-00000000-0000-4000-8000-{int(card.address.replace(':', '').replace('.', ''), 16):012x}"
