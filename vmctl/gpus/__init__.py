"""The GPUs of a host and the shares on them: one file per way of sharing, the same few functions in each.

Callers use only what stands here; which way a card is shared is decided card by card (cards.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from vmctl.errors import Code, VmctlError
from vmctl.gpus import cards, mdev, mdev_pf, mdev_vf
from vmctl.gpus.address import normalise
from vmctl.gpus.cards import Card
from vmctl.gpus.shares import Shares
from vmctl.gpus.shares import provided as seen
from vmctl.gpus.types import read_type
from vmctl.host import Host
from vmctl.model import (
    GPU,
    Framework,
    MediatedDevice,
    PCIFunction,
    ProvidedVGPU,
    Regime,
    Unknown,
    WantedVGPU,
)

__all__ = ["device", "inventory", "normalise", "provide", "provided", "release"]


class Way(Protocol):
    """What a file for one way of sharing has."""

    def look(self, host: Host, card: Card, held: Sequence[ProvidedVGPU]) -> Shares: ...
    def provide(self, host: Host, card: Card, wanted: WantedVGPU) -> ProvidedVGPU: ...
    def release(self, host: Host, share: ProvidedVGPU) -> None: ...
    def device(self, share: ProvidedVGPU) -> MediatedDevice | PCIFunction: ...


VGPUS = "vGPUs of this host"
"""What is unknown where shares may exist that no list shows; every other gap of a card is about what it offers."""

WAYS: Mapping[Framework, Way] = {Framework.MDEV_PF: mdev_pf, Framework.MDEV_VF: mdev_vf}


def inventory(host: Host) -> list[GPU]:
    """Every GPU of the host with what it can be cut into now. Raises nothing: what cannot be read is `unknown`."""
    shares: list[ProvidedVGPU] = []
    gaps: tuple[Unknown, ...] = ()
    try:
        shares = provided(host)
    except VmctlError as error:
        gaps = (Unknown(VGPUS, error.what),)
    found = [_gpu(host, card, [share for share in shares if share.gpu == card.address]) for card in cards.cards(host)]
    return [replace(gpu, unknown=gpu.unknown + gaps) for gpu in found]


def provided(host: Host) -> list[ProvidedVGPU]:
    """Every share that exists on the host, whoever made it. Raises VmctlError when that cannot be told."""
    found = []
    for made in mdev.devices(host):
        card = _card_of(host, made.parent)
        if card is not None:
            kind = read_type(host, host.pci(made.parent) / cards.MDEV_TYPES / made.driver_id)
            found.append(seen(card, made.uuid, kind, made.parent))
    return found


def provide(host: Host, wanted: WantedVGPU) -> ProvidedVGPU:
    """See to it that a wanted share exists; twice is as good as once.

    Raises VmctlError, and then nothing of it is there.
    """
    card = cards.find(host, wanted.gpu)
    if card is None:
        raise VmctlError(Code.FAILED, f"There is no GPU {wanted.gpu} on {host.name}.", "Look at vmctl gpus.")
    way = WAYS.get(card.framework)
    if way is None:
        reason = "; ".join(gap.reason for gap in card.reasons)
        raise VmctlError(
            Code.COULD_NOT_TELL,
            f"GPU {card.address} cannot be shared now: {reason}",
            "Run vmctl check on the host.",
            retry=True,
        )
    return way.provide(host, card, wanted)


def release(host: Host, share: ProvidedVGPU) -> None:
    """See to it that a share is gone; one that is gone already is fine.

    The caller has ended the machine that had it. Raises VmctlError when it is in use or stays: keep the handle then.
    """
    present = next((each for each in provided(host) if each.uuid == share.uuid), None)
    if present is None:
        return
    if (present.parent, present.type) != (share.parent, share.type):
        raise VmctlError(
            Code.NOT_OURS,
            f"The vGPU {share.uuid} is {present.type} on {present.parent}, not {share.type} on {share.parent}.",
            "Find out who made it; nothing was removed.",
        )
    _way_of(present).release(host, present)


def device(share: ProvidedVGPU) -> MediatedDevice | PCIFunction:
    """What libvirt attaches for a share."""
    return _way_of(share).device(share)


def _way_of(share: ProvidedVGPU) -> Way:
    way = WAYS.get(share.framework)
    if way is None:  # its card has changed its interface since: another driver, other functions
        what = f"The vGPU {share.uuid} is on a card whose interface ({share.framework}) this version cannot use."
        raise VmctlError(Code.COULD_NOT_TELL, what, "Run vmctl check on the host.", retry=True)
    return way


def _card_of(host: Host, parent: str) -> Card | None:
    """The GPU whose function `parent` is; None when it is no PCI function of a GPU."""
    try:
        return cards.find(host, host.link(host.pci(parent) / "physfn") or parent)
    except ValueError:
        return None


def _gpu(host: Host, card: Card, held: Sequence[ProvidedVGPU]) -> GPU:
    way = WAYS.get(card.framework)
    shares = way.look(host, card, held) if way is not None else Shares()
    facts = _driver_facts(host, card.address)
    node = host.read_or_none(card.folder / "numa_node") or "-1"
    sizes = [kind.memory_mib for kind in shares.types if kind.memory_mib is not None]
    return GPU(
        address=card.address,
        model=facts.get("Model", f"{card.vendor} {card.device}"),
        vendor=card.vendor,
        device=card.device,
        framework=card.framework,
        uuid=facts.get("GPU UUID"),
        numa_node=int(node) if node.isdecimal() else None,
        driver=card.driver,
        iommu_group=host.link(card.folder / "iommu_group"),
        iommu_members=tuple(host.names(card.folder / "iommu_group/devices")),
        sriov=card.sriov,
        memory_mib=max(sizes, default=None),  # the largest type takes the whole frame buffer
        handles=shares.handles,
        regimes=(Regime.EQUAL,) if any(kind.cells for kind in shares.types) else (),
        types=shares.types,
        holders=tuple(held),
        unknown=card.reasons + shares.unknown,
    )


def _driver_facts(host: Host, address: str) -> dict[str, str]:
    """What NVIDIA's module tells of a card: `Model: \\t\\t Tesla T4` and so on."""
    text = host.read_or_none(host.path(f"/proc/driver/nvidia/gpus/{address}/information")) or ""
    pairs = (line.partition(":") for line in text.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs if value.strip()}
