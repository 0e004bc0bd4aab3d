"""A card's IOMMU group: what goes to a machine with it, and whether it may go (dossier 7.2)."""

from __future__ import annotations

from vmctl.errors import Code, VmctlError
from vmctl.gpus import cards
from vmctl.gpus.cards import Card
from vmctl.host import Host

BRIDGE = "0x06"
HARMLESS = ("", "pci-stub")
"""Drivers beside those of VFIO that do nothing for the host."""


def members(host: Host, address: str) -> tuple[str, ...]:
    """Everything in the group of a function, itself among it; none where there is no IOMMU."""
    return tuple(host.names(host.pci(address) / "iommu_group/devices"))


def refusal(host: Host, card: Card) -> str | None:
    """Why a card cannot be given away whole, if it cannot."""
    found = members(host, card.address)
    for address in {card.address: None} | dict.fromkeys(found):
        if (host.read_or_none(host.pci(address) / "boot_vga") or "").strip() == "1":
            beside = "" if address == card.address else f" and is in the IOMMU group of GPU {card.address}"
            return f"GPU {address} drives the screen of the host{beside}."
    if not found:
        return f"GPU {card.address} has no IOMMU group."
    for address in found:
        if not _may_go(host, card, address):
            driver = host.link(host.pci(address) / "driver")
            return f"{address} ({driver}) is in the IOMMU group of GPU {card.address} and is no part of a GPU."
    return None


def end_points(host: Host, card: Card) -> tuple[str, ...]:
    """What must be bound for a machine: the functions of all cards in the group. Virtual ones go, bridges stay.

    Raises VmctlError where the card cannot be given away.
    """
    why = refusal(host, card)
    if why is not None:
        raise VmctlError(Code.FAILED, why, "Use another GPU, or another slot (vmctl check).")
    found = [each for each in members(host, card.address) if not (host.pci(each) / "physfn").is_symlink()]
    return tuple(each for each in found if not _is_bridge(host, each) and _is_of_a_gpu(host, card, each))


def _may_go(host: Host, card: Card, address: str) -> bool:
    """A bridge, a function of a GPU's card, or something that the host does not use."""
    driver = host.link(host.pci(address) / "driver") or ""
    if _is_bridge(host, address) or driver in HARMLESS or cards.is_vfio(driver):
        return True
    return _is_of_a_gpu(host, card, address)


def _is_of_a_gpu(host: Host, card: Card, address: str) -> bool:
    """Whether something is a function, or a function's virtual one, of this card or of another GPU's."""
    physical = host.link(host.pci(address) / "physfn") or address
    slot = physical.rpartition(".")[0]
    if slot == card.address.rpartition(".")[0]:
        return True
    return any(cards.find(host, f"{slot}.{number}") is not None for number in range(8))


def _is_bridge(host: Host, address: str) -> bool:
    return (host.read_or_none(host.pci(address) / "class") or "").startswith(BRIDGE)
