"""Which machines can be simulated: their cards, and what sits beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vmctl.simulate.boards import A16, A40, A100, FLEX, H100, IGPU, L40S, RTX_4000, RTX_PRO_6000, T4, T400, V100X
from vmctl.simulate.kinds import NVIDIA, Board


@dataclass(frozen=True)
class Companion:
    """A PCI function that is no GPU but sits in a GPU's IOMMU group, or drives the machine's screen."""

    address: str
    vendor: str
    device: str
    pci_class: str
    driver: str | None
    boot_screen: bool = False
    group: int | None = None  # None: that of the GPU


@dataclass(frozen=True)
class Card:
    """One GPU of a layout: where it sits, and what shares its IOMMU group."""

    board: Board
    address: str
    root_port: str
    numa_node: int
    group: int  # first IOMMU group; VFs take the following ones
    companions: tuple[Companion, ...] = ()
    boot_screen: bool = False
    mig: bool = False  # as the machine was set up
    mixed: bool = False
    vfs_on: bool = True

    @property
    def functions(self) -> list[str]:
        return functions(self.address, self.board.vfs, first=1 if self.board.framework == "sriov" else 4)


def functions(address: str, count: int, *, first: int = 4) -> list[str]:
    """The addresses of a PF's VFs: NVIDIA's first is function 4 of the same slot, then on through the slots (1.2)."""
    bus = address.rsplit(":", 1)[0]
    return [f"{bus}:{(first + number) // 8:02x}.{(first + number) % 8}" for number in range(count)]


def _four_functions(bus: str, port: str) -> tuple[Companion, ...]:
    """Sound, USB and UCSI of a display card, and the bridge above it, which has no isolation of its own (7.2)."""
    return (
        Companion(port, INTEL_BRIDGE[0], INTEL_BRIDGE[1], "0x060400", "pcieport"),
        Companion(f"{bus}:00.1", NVIDIA, "0x10f8", "0x040300", "snd_hda_intel"),
        Companion(f"{bus}:00.2", NVIDIA, "0x1ad8", "0x0c0330", "xhci_hcd"),
        Companion(f"{bus}:00.3", NVIDIA, "0x1ad9", "0x0c8000", None),
    )


INTEL_BRIDGE = ("0x8086", "0x1901")
ASPEED = Companion("0000:03:00.0", "0x1a03", "0x2000", "0x030000", "ast", boot_screen=True, group=10)


def _row(board: Board, first_bus: int, count: int, *, nodes: int = 1, group: int = 40) -> tuple[Card, ...]:
    """Cards one bus after the other, spread over the NUMA nodes."""
    return tuple(
        Card(
            board,
            f"0000:{first_bus + number:02x}:00.0",
            f"0000:{first_bus - 1:02x}:{number:02x}.0",
            number * nodes // count,
            group + number * (board.vfs + 1),
        )
        for number in range(count)
    )


LAYOUTS: Mapping[str, Sequence[Card]] = {
    "t4": (
        Card(T4, "0000:3b:00.0", "0000:3a:00.0", 0, 40),
        Card(T4, "0000:af:00.0", "0000:ae:00.0", 1, 41),
    ),
    "a40": (
        Card(A40, "0000:41:00.0", "0000:40:01.1", 0, 40),
        Card(A40, "0000:81:00.0", "0000:80:01.1", 1, 80),
    ),
    "a40-mixed": (
        Card(A40, "0000:41:00.0", "0000:40:01.1", 0, 40, mixed=True),
        Card(RTX_4000, "0000:65:00.0", "0000:64:00.0", 0, 30, _four_functions("0000:65", "0000:64:00.0")),
        Card(
            T400,
            "0000:02:00.0",
            "0000:00:1c.0",
            0,
            20,
            (Companion("0000:02:00.1", NVIDIA, "0x10fa", "0x040300", "snd_hda_intel"),),
            boot_screen=True,
        ),
    ),
    "l40s": (
        Card(L40S, "0000:26:00.0", "0000:25:01.0", 0, 40),
        Card(L40S, "0000:a6:00.0", "0000:a5:01.0", 1, 80),
    ),
    "a100-mig": (
        Card(A100, "0000:41:00.0", "0000:40:01.1", 0, 40, mig=True),
        Card(A100, "0000:c1:00.0", "0000:c0:01.1", 1, 80, mig=True),
    ),
    "h100": (Card(H100, "0000:4e:00.0", "0000:4d:01.0", 0, 40, (ASPEED,)),),
    "v100x8": _row(V100X, 0x1A, 8, nodes=2),
    "a16": _row(A16, 0x13, 4),
    "rtx-pro-6000": (
        Card(RTX_PRO_6000, "0001:c8:00.0", "0001:c7:01.0", 0, 40),
        Card(RTX_PRO_6000, "0001:d8:00.0", "0001:d7:01.0", 1, 100),
    ),
    "gvtg": (Card(IGPU, "0000:00:02.0", "", 0, 1, boot_screen=True),),
    "flex": (Card(FLEX, "0000:6a:00.0", "0000:69:01.0", 0, 40, vfs_on=False),),
}
