"""Every GPU of a host, put together from what each source says of it. What cannot be read is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from vmctl.card import GPU, HOLDERS, Framework, ProvidedVGPU, Regime, Unknown, VFs, VGPUType
from vmctl.errors import VmctlError
from vmctl.gpus.cards import NVIDIA, Card
from vmctl.gpus.driver import time_slices
from vmctl.gpus.driver.answers import DriverFacts
from vmctl.gpus.layers import places, rulers
from vmctl.gpus.shares import Offers, Survey
from vmctl.gpus.ways import groups
from vmctl.gpus.ways.choice import WAYS, shares_on
from vmctl.host import Host

REBIND_SECONDS = 10
"""To give a card and its group to user space or back: unbinding, probing, reading back, function by function."""
FUNCTIONS_SECONDS = 60
"""The same with virtual functions: switching them takes some ten seconds each way, and the driver needs up to 30 s
more until each is ready (dossier 1.2)."""


def inventory(host: Host, told: Mapping[str, DriverFacts] | None = None) -> list[GPU]:
    """Every GPU of the host with what it can be cut into now. Raises VmctlError where the PCI bus cannot be listed.

    `told`: what the driver told already, where somebody asked it before.
    """
    survey = Survey(host, told)
    return [_seen(survey, card) for card in survey.cards]


def _seen(survey: Survey, card: Card) -> GPU:
    """A card with whatever is on it. Where more may be there than can be seen, nothing is told to be free."""
    held: list[ProvidedVGPU] = []
    try:
        held += shares_on(survey, card)
        held += places.foreign(survey, card, held)
    except VmctlError as error:
        gpu = _gpu(survey, card, held, whole=False)
        return replace(gpu, unknown=_by_field([*gpu.unknown, Unknown(HOLDERS, error.what)]))
    return _gpu(survey, card, held)


def _gpu(survey: Survey, card: Card, held: Sequence[ProvidedVGPU], *, whole: bool = True) -> GPU:
    """`held`: the shares on the card; `whole`: those are all."""
    host, told, regime = survey.host, survey.of(card), survey.regime(card)
    way = WAYS.get(card.framework)
    found = way.look(survey, card) if way is not None else Offers()
    vfs = _vfs(card, held) if whole else card.vfs
    types = rulers.ruled(regime, found.offers, held, told, vfs.free if vfs is not None else None)
    node = host.read_or_none(card.folder / "numa_node") or "-1"
    regimes = _regimes(host, card, regime, types)
    gpu = GPU(
        address=card.address,
        model=_model(survey, card),
        vendor=card.vendor,
        device=card.device,
        framework=card.framework,
        reason=card.reason,
        uuid=told.uuid or _module_facts(host, card.address).get("GPU UUID"),
        numa_node=int(node) if node.isdecimal() else None,
        driver=card.driver,
        iommu_group=host.link(card.folder / "iommu_group"),
        iommu_members=groups.members(host, card.address),
        vfs=vfs,
        memory_mib=max((offer.kind.memory_mib or 0 for offer in found.offers), default=0) or None,
        handles=found.handles,
        regime=regime,
        regimes=regimes,
        regime_change_seconds=_change_seconds(card) if len(regimes) > 1 else None,
        mig=told.mig,
        ecc=told.ecc,
        mixed=told.mixed,
        scheduler=time_slices.scheduler(host, card.address, told),
        types=types if whole else tuple(replace(kind, free=None, free_cells=()) for kind in types),
        holders=tuple(_licensed(survey, share, told) for share in held),
    )
    gaps = [*card.unknown, *found.unknown, *rulers.untold(regime, found.offers, held, told), *_of(card, told)]
    return replace(gpu, unknown=_by_field([*gaps, *_untold(gpu)]))


def _of(card: Card, told: DriverFacts) -> list[Unknown]:
    """What the driver did not tell; of an equal-size card's mediated types the kernel tells all there is."""
    known = card.framework is Framework.MDEV_VF and not told.mixed and not told.mig
    return [gap for gap in told.unknown if not (known and gap.what == "types")]


def _untold(gpu: GPU) -> list[Unknown]:
    """What no source told of a card at all."""
    gaps = []
    if gpu.memory_mib is None:
        gaps.append(Unknown("frame_buffer_mib", "No type of the card tells how much there is."))
    if gpu.uuid is None and gpu.vendor == NVIDIA:
        gaps.append(Unknown("uuid", "NVIDIA's driver does not tell it: the card is not on it, or it is not there."))
    if gpu.handles is None:
        gaps.append(Unknown("handles", "No type of the card tells how many there can be."))
    return gaps


def _by_field(gaps: Sequence[Unknown]) -> tuple[Unknown, ...]:
    """One entry per field; a card with many functions would say the same of each."""
    reasons: dict[str, list[str]] = {}
    for gap in gaps:
        if gap.reason not in reasons.setdefault(gap.what, []):
            reasons[gap.what].append(gap.reason)
    return tuple(Unknown(what, _joined(said)) for what, said in reasons.items())


def _joined(said: Sequence[str]) -> str:
    shown = " ".join(said[:3])
    return f"{shown} And {len(said) - 3} more of this kind." if len(said) > 3 else shown


def _regimes(host: Host, card: Card, regime: Regime | None, types: Sequence[VGPUType]) -> tuple[Regime, ...]:
    """Those in which the card can be used without an operator: as it is, and whole where its group allows it."""
    now = (regime,) if regime is not None and any(kind.cells for kind in types) else ()
    return now if groups.refusal(host, card) is not None else (*now, Regime.WHOLE)


def _change_seconds(card: Card) -> int:
    return REBIND_SECONDS if card.vfs is None or card.framework is Framework.PASSTHROUGH else FUNCTIONS_SECONDS


def _vfs(card: Card, held: Sequence[ProvidedVGPU]) -> VFs | None:
    if card.vfs is None:
        return None
    taken = {share.parent for share in held}
    return replace(card.vfs, free=sum(function.address not in taken for function in card.virtual))


def _licensed(survey: Survey, share: ProvidedVGPU, told: DriverFacts) -> ProvidedVGPU:
    """A share with what the driver says of its guest's licence."""
    running = places.running(share, survey.ledger.get(share.uuid), told)
    return share if running is None else replace(share, licence=running.licence)


def _model(survey: Survey, card: Card) -> str:
    """The card's model. A card that a machine has whole is on no driver that tells it, but our notes do."""
    told = survey.of(card).model or _module_facts(survey.host, card.address).get("Model")
    if told is not None:
        return told
    try:
        given = [made.type for made in survey.made_on(card) if made.regime == Regime.WHOLE]
    except VmctlError:
        given = []  # notes that cannot be read are told elsewhere
    return given[-1] if given else f"{card.vendor} {card.device}"


def _module_facts(host: Host, address: str) -> dict[str, str]:
    """What NVIDIA's module tells of a card: `Model: \\t\\t Tesla T4` and so on."""
    text = host.read_or_none(host.path(f"/proc/driver/nvidia/gpus/{address}/information")) or ""
    pairs = (line.partition(":") for line in text.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs if value.strip()}
