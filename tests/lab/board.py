"""What is plugged in where: QEMU's command line, and what the kernel module makes of the devices.

Every PCI device has a fixed address, so that bus numbers stay the same: root ports rp1 to rp5 are the buses 01, 02
(with 03 behind a bridge), 04, 05 and 06.
"""

from __future__ import annotations

from dataclasses import dataclass

MEMORY_MIB = 3072
GUEST_ADDRESS = "10.0.2.15"
FUNCTIONS = 8
"""Virtual functions of each SR-IOV card."""


@dataclass(frozen=True)
class Card:
    """A card as the host sees it: where, what it is dressed as, and how it is shared."""

    address: str
    model: str
    way: str


CARDS = (
    Card("0000:01:00.0", "a40", "mediated devices on virtual functions"),
    Card("0000:03:02.0", "v100", "whole only, in a group that is not viable"),
    Card("0000:04:00.0", "t4", "mediated devices on the card"),
    Card("0000:05:00.0", "t4", "mediated devices on the card, or whole"),
    Card("0000:06:00.0", "l40s", "the vendor's VFIO interface on virtual functions"),
)
ODD_NEIGHBOUR = "0000:03:01.0"
"""The network card in the V100's group, which stays on its own driver."""

HOT = ((CARDS[0], "nvme0", "rp1"), (CARDS[4], "nvme1", "rp5"))
"""Cards that are plugged in once the machine runs: QEMU cannot save the state of the devices they are made of."""


def cards_parameter() -> str:
    """What the module is told at load: which device is dressed as what."""
    return ",".join(f"{card.address}={card.model}" for card in CARDS)


def hot_card(name: str, port: str) -> str:
    """The words of QEMU's device_add for a card with virtual functions."""
    flexible = f"sriov_vq_flexible={2 * FUNCTIONS},sriov_vi_flexible={FUNCTIONS}"
    return (
        f"nvme,id={name},serial=LAB-{name},subsys=subsys-{name},bus={port},max_ioqpairs={3 * FUNCTIONS + 2},"
        f"msix_qsize={3 * FUNCTIONS + 3},sriov_max_vfs={FUNCTIONS},{flexible}"
    )


def command(port: int, kernel: str, initrd: str, words: str, *, incoming: str = "") -> list[str]:
    """QEMU's command line, run in the lab's folder. `words`: more for the guest kernel; `incoming`: a saved state."""
    line = [
        "qemu-system-x86_64", "-name", f"tessera-lab-{port}", "-nodefaults", "-no-user-config",
        "-display", "none", "-vga", "none",
        "-accel", "tcg,thread=multi", "-machine", "q35,kernel-irqchip=off,sata=off", "-cpu", "max,la57=off",
        "-smp", "2", "-m", str(MEMORY_MIB),
        "-kernel", kernel, "-initrd", initrd, "-append", f"{KERNEL_WORDS} {words}".strip(),
        "-serial", "file:serial.log", "-qmp", "unix:qmp.sock,server=on,wait=off",
        "-drive", "file=disk.qcow2,if=none,id=disk,cache=unsafe,discard=unmap",
        "-netdev", f"user,id=net,net=10.0.2.0/24,ipv6=off,restrict=on,hostfwd=tcp:127.0.0.1:{port}-{GUEST_ADDRESS}:22",
    ]  # fmt: skip
    for device in DEVICES:
        line += ["-device", device]
    return line + (["-incoming", incoming] if incoming else [])


KERNEL_WORDS = (
    "root=/dev/vda rw console=ttyS0 intel_iommu=on iommu=pt mitigations=off nmi_watchdog=0 audit=0 apparmor=0 quiet"
)
DEVICES = (
    "intel-iommu,intremap=on,caching-mode=off",
    "virtio-blk-pci,drive=disk,bus=pcie.0,addr=0x2",
    "virtio-net-pci,netdev=net,id=link,mac=52:54:00:12:34:56,romfile=,bus=pcie.0,addr=0x3",
    "virtio-balloon-pci,free-page-reporting=on,bus=pcie.0,addr=0x4",  # what is free is neither kept nor saved
    *(
        f"pcie-root-port,id=rp{number},chassis={number},slot={number},bus=pcie.0,addr={0xF + number:#x}"
        for number in range(1, 6)
    ),
    "nvme-subsys,id=subsys-nvme0",
    "nvme-subsys,id=subsys-nvme1",
    "pcie-pci-bridge,id=bridge,bus=rp2",
    "e1000,bus=bridge,addr=0x1,romfile=",
    "edu,bus=bridge,addr=0x2",
    "bochs-display,id=gpu0,bus=rp3",
    "bochs-display,id=gpu1,bus=rp4",
)
