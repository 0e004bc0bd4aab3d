"""Every GPU of a host, put together from what each source says of it. Raises nothing: what cannot be read is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vmctl.card import GPU, ProvidedVGPU, Regime, Unknown, VFs
from vmctl.errors import VmctlError
from vmctl.gpus import equal
from vmctl.gpus.cards import Card
from vmctl.gpus.shares import Offers, Survey
from vmctl.gpus.ways import WAYS
from vmctl.host import Host

HOLDERS = "holders"
"""What is unknown where shares may exist that no list shows; every other gap of a card is about what it offers."""


def inventory(host: Host) -> list[GPU]:
    """Every GPU of the host with what it can be cut into now."""
    survey = Survey(host)
    return [_seen(survey, card) for card in survey.cards]


def shares_on(survey: Survey, card: Card) -> list[ProvidedVGPU]:
    """Every share on a card, whoever made it. Raises VmctlError when that cannot be told."""
    way = WAYS.get(card.framework)
    return way.shares(survey, card) if way is not None else []


def _seen(survey: Survey, card: Card) -> GPU:
    try:
        return _gpu(survey, card, shares_on(survey, card))
    except VmctlError as error:
        gpu = _gpu(survey, card, [])
        return replace(gpu, unknown=(*gpu.unknown, Unknown(HOLDERS, error.what)))


def _gpu(survey: Survey, card: Card, held: Sequence[ProvidedVGPU]) -> GPU:
    host, told = survey.host, survey.of(card)
    way = WAYS.get(card.framework)
    found = way.look(survey, card) if way is not None else Offers()
    types = tuple(equal.ruled(offer, held) for offer in found.offers)
    facts = _module_facts(host, card.address)
    node = host.read_or_none(card.folder / "numa_node") or "-1"
    sizes = [kind.memory_mib for kind in types if kind.memory_mib is not None]
    return GPU(
        address=card.address,
        model=told.model or facts.get("Model", f"{card.vendor} {card.device}"),
        vendor=card.vendor,
        device=card.device,
        framework=card.framework,
        reason="; ".join(gap.reason for gap in card.reasons),
        uuid=told.uuid or facts.get("GPU UUID"),
        numa_node=int(node) if node.isdecimal() else None,
        driver=card.driver,
        iommu_group=host.link(card.folder / "iommu_group"),
        iommu_members=tuple(host.names(card.folder / "iommu_group/devices")),
        vfs=_vfs(card, held),
        memory_mib=max(sizes, default=None),  # the largest type takes the whole frame buffer
        handles=found.handles,
        regime=Regime.EQUAL if found.offers else None,
        regimes=(Regime.EQUAL,) if any(kind.cells for kind in types) else (),
        mig=told.mig,
        ecc=told.ecc,
        mixed=told.mixed,
        scheduler=told.scheduler,
        types=types,
        holders=tuple(held),
        unknown=card.reasons + found.unknown + told.unknown,
    )


def _vfs(card: Card, held: Sequence[ProvidedVGPU]) -> VFs | None:
    if card.vfs is None:
        return None
    taken = {share.parent for share in held}
    return replace(card.vfs, free=sum(function.address not in taken for function in card.virtual))


def _module_facts(host: Host, address: str) -> dict[str, str]:
    """What NVIDIA's module tells of a card: `Model: \\t\\t Tesla T4` and so on."""
    text = host.read_or_none(host.path(f"/proc/driver/nvidia/gpus/{address}/information")) or ""
    pairs = (line.partition(":") for line in text.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs if value.strip()}
