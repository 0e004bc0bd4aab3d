"""What simulated machines have: boards, vGPU types, and the trees they show.

Ids, sizes and limits are those of the vGPU dossier, section 2 (types table); file names and text formats are those of
its section 1.1 (mdev on the PF) and 1.2 (mdev on VFs) and of the captured machines in tests/data/hosts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# What a simulated machine shares with the real one under it: no GPU is behind these.
BORROWED = (
    "/dev/kvm",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/cmdline",
    "/proc/sys/kernel/random/boot_id",
    "/etc/os-release",
)
MODULES = ("nvidia", "nvidia_vgpu_vfio", "mdev", "vfio", "vfio_iommu_type1", "vfio_pci")
DRIVER_VERSION = "550.163.02"

# All free VFs of a card show the same types with the same counters, so they share one folder: 32 VFs of 29 types would
# be 13,000 files otherwise. A VF that holds a vGPU has its own.
FREE_FUNCTIONS = ".types/free"
OWN_TYPES = ".types/own"


@dataclass(frozen=True)
class SimulatedType:
    """One vGPU type as the driver prints it. Size in GiB; `most` is how many fit on one GPU at equal size."""

    driver_id: str
    name: str
    series: str
    size: int
    most: int

    @property
    def description(self) -> str:
        """The driver's one line (dossier 1.1; display columns of section 2, C as captured hosts print it)."""
        heads, resolution = {
            "A": (1, "1280x1024"),
            "B": (4, "5120x2880"),
            "C": (1, "4096x2400"),
            "Q": (4, "5120x2880" if self.size == 1 else "7680x4320"),
        }[self.series]
        limiter = 45 if self.series == "B" else 60
        return (
            f"num_heads={heads}, frl_config={limiter}, framebuffer={self.size * 1024}M, "
            f"max_resolution={resolution}, max_instance={self.most}"
        )


@dataclass(frozen=True)
class Board:
    """A GPU model: its PCI ids, how it is cut, and how many VFs it shows (0: mdevs are made on the PF)."""

    model: str
    device: str
    subsystem: str
    prefix: str
    most: Mapping[int, int]  # size in GiB -> how many at equal size
    ids: Sequence[tuple[str, int, Sequence[int]]]  # series suffix, first id, sizes in the order of the ids
    vfs: int

    def types(self) -> Iterator[SimulatedType]:
        for suffix, first, sizes in self.ids:
            for number, size in enumerate(sizes, start=first):
                name = f"{self.prefix}-{size}{suffix}"
                yield SimulatedType(f"nvidia-{number}", name, suffix[0], size, self.most[size])


T4 = Board(
    model="Tesla T4",
    device="0x1eb8",
    subsystem="0x12a2",
    prefix="GRID T4",
    most={1: 16, 2: 8, 4: 4, 8: 2, 16: 1},
    ids=(
        ("B", 222, (1, 2)),
        ("B4", 224, (2,)),
        ("A", 225, (1, 2, 4, 8, 16)),
        ("Q", 230, (1, 2, 4, 8, 16)),
        ("B4", 252, (1,)),
        ("C", 319, (4, 8, 16)),
    ),
    vfs=0,
)
A40 = Board(
    model="NVIDIA A40",
    device="0x2235",
    subsystem="0x145a",
    prefix="NVIDIA A40",
    most={1: 32, 2: 24, 3: 16, 4: 12, 6: 8, 8: 6, 12: 4, 16: 3, 24: 2, 48: 1},
    ids=(
        ("B", 555, (1, 2)),
        ("Q", 557, (1, 2, 3, 4, 6, 8, 12, 16, 24, 48)),
        ("A", 567, (1, 2, 3, 4, 6, 8, 12, 16, 24, 48)),
        ("C", 581, (4, 6, 8, 12, 16, 24, 48)),
    ),
    vfs=32,
)


@dataclass(frozen=True)
class Card:
    """One GPU of a layout: where it sits."""

    board: Board
    address: str
    root_port: str
    numa_node: int
    group: int  # first IOMMU group; VFs take the following ones


LAYOUTS: Mapping[str, Sequence[Card]] = {
    "t4": (
        Card(T4, "0000:3b:00.0", "0000:3a:00.0", 0, 40),
        Card(T4, "0000:af:00.0", "0000:ae:00.0", 1, 41),
    ),
    "a40": (
        Card(A40, "0000:41:00.0", "0000:40:01.1", 0, 40),
        Card(A40, "0000:81:00.0", "0000:80:01.1", 1, 80),
    ),
}


def build(root: Path, layout: str) -> None:
    """Make the tree of a machine just after its driver came up: VFs on, no vGPU yet."""
    tree = Tree(root)
    for folder in (
        "sys/bus/mdev/devices",
        "sys/class/mdev_bus",
        "sys/bus/pci/devices",
        "sys/bus/pci/drivers/nvidia",
    ):
        tree.folder(folder)
    for module in MODULES:
        tree.folder(f"sys/module/{module}")
    tree.file("sys/module/nvidia/version", DRIVER_VERSION)
    tree.folder("sys/class/iommu/dmar0")
    for name in BORROWED:
        tree.link(name.lstrip("/"), name)
    for card in LAYOUTS[layout]:
        _card(tree, card)


@dataclass(frozen=True)
class Tree:
    """Makes files as sysfs shows them: one text and a line break; links relative, inside the root."""

    root: Path

    def folder(self, name: str) -> None:
        (self.root / name).mkdir(parents=True, exist_ok=True)

    def file(self, name: str, text: str, mode: int = 0o444) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n" if text else "")
        path.chmod(mode)

    def link(self, name: str, target: str) -> None:
        """A link to an absolute path (borrowed) or to a path below the root."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target if target.startswith("/") else os.path.relpath(self.root / target, path.parent))


def functions(address: str, count: int) -> list[str]:
    """The addresses of a PF's VFs: the first is function 4 of the same slot, then on through the slots (1.2)."""
    bus = address.rsplit(":", 1)[0]
    return [f"{bus}:{(4 + number) // 8:02x}.{(4 + number) % 8}" for number in range(count)]


def _card(tree: Tree, card: Card) -> None:
    board = card.board
    base = f"sys/devices/pci{card.root_port[:7]}/{card.root_port}"
    device = f"{base}/{card.address}"
    virtual = functions(card.address, board.vfs)
    _function(tree, card, device, card.group)
    tree.file(
        f"proc/driver/nvidia/gpus/{card.address}/information",
        f"Model: \t\t {board.model}\nIRQ:   \t\t 64\nGPU UUID: \t {_uuid(card)}\nBus Type: \t PCIe\n"
        f"Bus Location: \t {card.address}\nDevice Minor: \t 0",
    )
    if not virtual:
        _types(tree, board, f"{device}/mdev_supported_types")
        tree.link(f"sys/class/mdev_bus/{card.address}", device)
        return
    _types(tree, board, f"{FREE_FUNCTIONS}/{card.address}")
    tree.file(f"{device}/sriov_totalvfs", str(len(virtual)))
    tree.file(f"{device}/sriov_numvfs", str(len(virtual)), 0o644)
    tree.file(f"{device}/sriov_drivers_autoprobe", "1", 0o644)
    for number, address in enumerate(virtual):
        _function(tree, card, f"{base}/{address}", card.group + 1 + number)
        tree.link(f"{base}/{address}/physfn", device)
        tree.link(f"{device}/virtfn{number}", f"{base}/{address}")
        tree.link(f"{base}/{address}/mdev_supported_types", f"{FREE_FUNCTIONS}/{card.address}")
        tree.link(f"sys/class/mdev_bus/{address}", f"{base}/{address}")


def _uuid(card: Card) -> str:
    return f"GPU-00000000-0000-4000-8000-{int(card.address.replace(':', '').replace('.', ''), 16):012x}"


def _function(tree: Tree, card: Card, device: str, group: int) -> None:
    """What every PCI function shows (1.0): ids, class, driver, IOMMU group, NUMA node."""
    address = device.rsplit("/", 1)[1]
    for name, text in {
        "vendor": "0x10de",
        "device": card.board.device,
        "class": "0x030200",
        "subsystem_vendor": "0x10de",
        "subsystem_device": card.board.subsystem,
        "revision": "0xa1",
        "numa_node": str(card.numa_node),
    }.items():
        tree.file(f"{device}/{name}", text)
    tree.file(f"{device}/driver_override", "(null)", 0o644)
    tree.link(f"{device}/driver", "sys/bus/pci/drivers/nvidia")
    tree.link(f"sys/bus/pci/drivers/nvidia/{address}", device)
    tree.link(f"sys/bus/pci/devices/{address}", device)
    tree.link(f"{device}/iommu_group", f"sys/kernel/iommu_groups/{group}")
    tree.link(f"sys/kernel/iommu_groups/{group}/devices/{address}", device)
    tree.file(f"sys/kernel/iommu_groups/{group}/type", "DMA-FQ", 0o644)


def _types(tree: Tree, board: Board, parent: str) -> None:
    """The types of an mdev parent, all creatable as long as the GPU is empty (1.1); a VF holds one at most (1.2)."""
    for kind in board.types():
        folder = f"{parent}/{kind.driver_id}"
        tree.folder(f"{folder}/devices")
        tree.file(f"{folder}/name", kind.name)
        tree.file(f"{folder}/description", kind.description)
        tree.file(f"{folder}/device_api", "vfio-pci")
        tree.file(f"{folder}/available_instances", str(min(kind.most, 1) if board.vfs else kind.most))
        tree.file(f"{folder}/create", "", 0o200)
