"""Where on a GPU the shares lie: as vmctl noted it, and as the driver shows it for those that run or are not ours.

Here, too, comes to light what a cut-off run left of a MIG share: a GPU instance without its vGPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vmctl.card import Framework, ProvidedVGPU, Regime
from vmctl.errors import Code, VmctlError
from vmctl.gpus.cards import Card
from vmctl.gpus.driver.answers import Active, DriverFacts, Instance
from vmctl.gpus.layers import mig, mixed
from vmctl.gpus.layers.mig_cells import cell
from vmctl.gpus.shares import Survey, provided
from vmctl.gpus.type_names import memory_of, series_of
from vmctl.gpus.types import OfferedType
from vmctl.ledger import Made

LAYERED = (Framework.MDEV_VF, Framework.VENDOR_VFIO)
"""Where vGPUs may have a place of their own; on a card without functions all are of one size (dossier 3.1)."""
INSTANCE = "gpu-instance "
"""What a bare GPU instance is called where a vGPU has its function."""


def seen(survey: Survey, card: Card, shares: Sequence[ProvidedVGPU]) -> list[ProvidedVGPU]:
    """The shares of a card with their places, and what is left of others.

    Raises VmctlError where GPU instances of ours may exist that cannot be listed.
    """
    made = {each.uuid: each for each in survey.made_on(card)}
    plain = all(share.uuid in made and share.regime is Regime.EQUAL for share in shares)
    layered = any(each.regime in (Regime.MIG, Regime.MIXED) for each in made.values())
    if card.framework not in LAYERED or (plain and not layered):
        return list(shares)  # nothing that the driver need be asked about
    told = survey.of(card)
    found = [_placed(survey, card, share, made.get(share.uuid or "")) for share in shares]
    return found + _left_over(card, list(made.values()), found, told)


def is_instance(share: ProvidedVGPU) -> bool:
    """Whether it is a bare GPU instance that somebody else made: it has no vGPU, and so no machine."""
    return share.uuid is None and share.parent.startswith(INSTANCE)


def is_left_over(share: ProvidedVGPU) -> bool:
    """Whether only the GPU instance of a share is there: it lies on no function then, but on the card itself."""
    return share.regime is Regime.MIG and share.parent == share.gpu


def foreign(survey: Survey, card: Card, shares: Sequence[ProvidedVGPU]) -> list[ProvidedVGPU]:
    """The GPU instances that are nobody's we know, as shares of the card; one with a vGPU in it shows as that.

    Raises VmctlError where there may be some that cannot be seen.
    """
    if card.framework is Framework.MDEV_PF:
        return []  # no MIG without virtual functions (dossier 3.1)
    told = survey.of(card)
    cells = {share.cell for share in shares}
    found = mig.foreign(card.address, told, survey.ledger)
    return [_instance(card, each) for each in found if cell(each) not in cells]


def _instance(card: Card, instance: Instance) -> ProvidedVGPU:
    return ProvidedVGPU(
        uuid=None,
        gpu=card.address,
        type=instance.profile,
        framework=card.framework,
        parent=f"{INSTANCE}{instance.id}",
        size_group=instance.profile,
        regime=Regime.MIG,
        cell=cell(instance),
    )


def _placed(survey: Survey, card: Card, share: ProvidedVGPU, made: Made | None) -> ProvidedVGPU:
    """A share at the place that the driver shows, else at the one that is noted."""
    host, told = survey.host, survey.of(card)
    regime = share.regime if made is not None else survey.regime(card) or Regime.EQUAL
    active = running(share, made, told)
    if regime is Regime.MIG:
        number = mig.instance_of(host, share.parent)
        if number is None and active is not None:
            number = active.instance
        instance = next((each for each in told.instances or () if each.id == number), None)
        return replace(share, regime=regime, cell=share.cell if instance is None else cell(instance))
    if regime is Regime.MIXED:
        start = mixed.start(host, host.pci(share.parent))
        if start is None and active is not None:
            start = active.placement
        place = None if start is None else mixed.cell_at(told, share.type, start)
        return replace(share, regime=regime, cell=place or share.cell)
    return replace(share, regime=regime)


def running(share: ProvidedVGPU, made: Made | None, told: DriverFacts) -> Active | None:
    """The running vGPU that is this share: by its mediated device, or the only one of its type in its machine."""
    active = told.active or ()
    named = [vgpu for vgpu in active if vgpu.mdev is not None and vgpu.mdev == share.uuid]
    if not named and made is not None:
        named = [vgpu for vgpu in active if vgpu.vm == made.machine and vgpu.type == share.type]
    return named[0] if len(named) == 1 else None


def _left_over(card: Card, made: list[Made], found: list[ProvidedVGPU], told: DriverFacts) -> list[ProvidedVGPU]:
    """Shares of ours whose vGPU is gone while their GPU instance is not: they still have to be released.

    One whose instance holds another share has nothing left of its own.
    """
    there = {share.uuid for share in found}
    gone = [each for each in made if each.regime == Regime.MIG and each.uuid not in there]
    if not gone or (told.mig is not None and not told.mig.current):
        return []
    if told.instances is None:
        raise VmctlError(
            Code.COULD_NOT_TELL,
            f"Whether GPU {card.address} still has GPU instances of released shares cannot be told.",
            "Run nvidia-smi mig -lgi as root on the host.",
            retry=True,
        )
    homes = {(cell(each), each.profile_id) for each in told.instances}
    taken = {share.cell for share in found}
    return [_remains(card, each) for each in gone if each.cell not in taken and mig.home(each, told) in homes]


def _remains(card: Card, made: Made) -> ProvidedVGPU:
    kind = OfferedType("", made.type, series_of(made.type), memory_of(made.type), None, None)
    return replace(provided(card, made.uuid, kind, card.address, made), handle=made.handle)
