"""Makes the tree of a simulated machine: what never changes, and the state just after its set-up."""

from __future__ import annotations

from pathlib import Path

from vmctl.simulate.drawing import DEVICES, Drawing
from vmctl.simulate.kinds import NVIDIA
from vmctl.simulate.layouts import LAYOUTS, Card
from vmctl.simulate.state import CardState, State
from vmctl.simulate.tree import Tree

# What a simulated machine shares with the real one under it: no GPU is behind these.
BORROWED = (
    "/dev/kvm",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/cmdline",
    "/proc/sys/kernel/random/boot_id",
    "/etc/os-release",
)
BOOT_ID = "proc/sys/kernel/random/boot_id"
MODULES = ("vfio", "vfio_iommu_type1", "vfio_pci")
NVIDIA_MODULES = ("nvidia", "nvidia_vgpu_vfio")
DRIVER_VERSION = "550.163.02"
VERSIONS = {"Blackwell": "580.105.06"}  # of the cards that older branches do not know


def driver_version(cards: tuple[Card, ...]) -> str:
    return next((VERSIONS[card.board.arch] for card in cards if card.board.arch in VERSIONS), DRIVER_VERSION)


def build(root: Path, layout: str) -> None:
    """Make the tree of a machine just after its driver came up: VFs on, as set up, no vGPU yet."""
    tree, cards = Tree(root), tuple(LAYOUTS[layout])
    for name in BORROWED:
        tree.link(name.lstrip("/"), name)
    tree.file("sys/firmware/acpi/tables/DMAR", "")
    tree.file("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0")
    tree.file("proc/interrupts", " 24:          0  IR-PCI-MSI-0000:00:1c.0    0-edge      pcieport")
    tree.file("usr/sbin/mdevctl", "")
    tree.file("proc/1/comm", "systemd")
    tree.folder("proc/1/fd")
    for folder in ("sys/bus/pci/devices", "sys/bus/pci/drivers/vfio-pci", "sys/class/iommu/dmar0", "dev/vfio"):
        tree.folder(folder)
    tree.file("sys/bus/pci/drivers_probe", "", 0o200)
    tree.file("dev/vfio/vfio", "", 0o666)
    _modules(tree, cards)
    state = State(
        tree.path(BOOT_ID).read_text(),
        {
            card.address: CardState(
                vfs=card.board.vfs if card.vfs_on else 0,
                mig=card.mig,
                mig_pending=card.mig,
                mixed=card.mixed,
            )
            for card in cards
        },
    )
    state.write(root)
    for card in cards:
        drawing = Drawing(tree, card, state)
        _physical(drawing)
        drawing.draw()


def _modules(tree: Tree, cards: tuple[Card, ...]) -> None:
    mediated = any(card.board.framework in ("mdev-pf", "mdev-vf", "gvtg") for card in cards)
    nvidia = any(card.board.vendor == NVIDIA for card in cards)
    for module in (*MODULES, *(NVIDIA_MODULES if nvidia else ()), *(("mdev",) if mediated else ())):
        tree.folder(f"sys/module/{module}")
    for name in ("bind", "unbind"):
        tree.file(f"sys/bus/pci/drivers/vfio-pci/{name}", "", 0o200)
    if mediated:
        tree.folder("sys/bus/mdev/devices")
        tree.folder("sys/class/mdev_bus")
    if not nvidia:
        return
    version = driver_version(cards)
    tree.file("sys/module/nvidia/version", version)
    tree.file(
        "proc/driver/nvidia/version",
        f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Tue Nov  5 00:21:37 UTC 2024\n"
        "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)",
    )
    tree.file("dev/nvidiactl", "", 0o666)
    for name in ("usr/bin/nvidia-vgpu-mgr", "usr/bin/nvidia-vgpud", "usr/lib/nvidia/sriov-manage"):
        tree.file(name, "", 0o755)
    tree.file(f"usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{version}", "", 0o755)


def _physical(drawing: Drawing) -> None:
    """The GPU's own function, what sits in its group, and what of its files never changes."""
    tree, card = drawing.tree, drawing.card
    address, board = card.address, card.board
    device = drawing.device(address)
    drawing.function(address, card.group)
    tree.file(f"{device}/boot_vga", "1" if card.boot_screen else "0")
    tree.file(f"{device}/reset_method", "flr bus", 0o644)
    tree.file(f"{device}/resource", _regions(board.total_mib))
    if board.vfs:
        tree.file(f"{device}/sriov_totalvfs", str(board.vfs))
    tree.link(f"{DEVICES}/{address}", device)
    for companion in card.companions:
        place = drawing.device(companion.address)
        tree.folder(place)
        for name, text in {
            "vendor": companion.vendor,
            "device": companion.device,
            "class": companion.pci_class,
            "subsystem_vendor": companion.vendor,
            "subsystem_device": companion.device,
            "numa_node": str(card.numa_node),
        }.items():
            tree.file(f"{place}/{name}", text)
        if companion.pci_class.startswith("0x03"):
            tree.file(f"{place}/boot_vga", "1" if companion.boot_screen else "0")
        drawing.join(companion.address, card.group if companion.group is None else companion.group)
        tree.link(f"{DEVICES}/{companion.address}", place)


def _regions(total_mib: int) -> str:
    """The memory windows: registers, and one that shows the whole frame buffer (7.3)."""
    size = 1 << max(total_mib - 1, 255).bit_length() + 20
    rows = ((0xE7000000, 16 << 20, 0x40200), (0x222800000000, size, 0x14220C))
    return "\n".join(f"{start:#018x} {start + length - 1:#018x} {flags:#018x}" for start, length, flags in rows)
