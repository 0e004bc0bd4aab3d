"""A whole GPU for one machine, with all end points of its IOMMU group (dossier 1.4 and 7.2).

The group is the smallest unit that a machine can have: the card's audio and USB functions go with it. Each function is
bound by its own override; which driver it had, and how many virtual functions the card, stands in the ledger before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress

from vmctl.card import Framework, ProvidedVGPU, Regime
from vmctl.errors import Code, VmctlError
from vmctl.gpus import cards, functions, processes
from vmctl.gpus.cards import Card
from vmctl.gpus.driver import lock
from vmctl.gpus.shares import Making, Offers, Survey
from vmctl.gpus.ways import binding, groups
from vmctl.host import Host
from vmctl.ledger import Made
from vmctl.model import PCIFunction


def look(survey: Survey, card: Card) -> Offers:
    """Whole, it is cut into nothing."""
    return Offers()


def shares(survey: Survey, card: Card) -> list[ProvidedVGPU]:
    """The machine that has the card, as the ledger says; else whoever drives it from user space."""
    given = [
        made for made in survey.made_on(card) if made.regime == Regime.WHOLE and _is_there(survey.host, card, made)
    ]
    if given:
        return [_share(card, given[-1].uuid, given[-1].type)]
    if cards.is_vfio(card.driver) and survey.driven(card.address):
        return [_share(card, None, f"{card.vendor} {card.device}")]
    return []


def provide(host: Host, card: Card, making: Making) -> ProvidedVGPU:
    """See to it that a card and its group are ready for a machine. Raises VmctlError, and then all is as it was."""
    wanted, enabled = making.wanted, card.vfs.enabled if card.vfs is not None else 0
    ends = groups.end_points(host, card)
    made = making.ledger.get(wanted.uuid)
    noted = made if made is not None and made.gpu == card.address and made.regime == Regime.WHOLE else None
    if noted is not None and not enabled and all(binding.on_vfio(host, address) for address in ends):
        return _share(card, wanted.uuid, wanted.type)
    claimed = making.taken.intersection((*ends, *(function.address for function in card.virtual)))
    if claimed:
        what = f"{', '.join(sorted(claimed))} of GPU {card.address} is named by a machine that is not vmctl's."
        raise VmctlError(Code.NO_CAPACITY, what, "Use another GPU, or take it out of that machine.", retry=True)
    with lock.alone(host):
        return _bind(host, card, making, ends, noted)


def _bind(host: Host, card: Card, making: Making, ends: Collection[str], noted: Made | None) -> ProvidedVGPU:
    """Raises VmctlError, and then every function has its driver again."""
    wanted, enabled = making.wanted, card.vfs.enabled if card.vfs is not None else 0
    processes.refuse_open(host, card.address, ends)
    known = noted.drivers if noted is not None else {}  # a run that was killed half-way may have unbound some
    before = {address: known.get(address, binding.driver_of(host, address)) for address in ends}
    vfs = enabled if noted is None or enabled else noted.vfs
    making.note(card.address, drivers=before, vfs=vfs)
    try:
        if enabled:
            functions.set_count(host, card, 0)
        for address in ends:
            binding.lock(host, address)  # all of them before the first is unbound
        for address in ends:
            binding.to_vfio(host, address)
    except binding.Stuck:
        raise  # every further write to the card would sleep as well; it stays noted
    except VmctlError:
        with suppress(VmctlError):  # the first error says more; what stays undone is noted and tried again
            _give_back(host, card, before, vfs)
        raise
    return _share(card, wanted.uuid, wanted.type)


def release(host: Host, card: Card, share: ProvidedVGPU) -> None:
    """Give every function the driver back that it had before, and the card its virtual functions."""
    made = Survey(host).ledger.get(share.uuid)
    if made is None:
        return
    holders = processes.holding(host, processes.function_nodes(host, *made.drivers))
    if holders:
        what = f"GPU {card.address} is in use by {processes.named(holders)}."
        raise VmctlError(Code.BUSY, what, "End that machine first.", retry=True)
    with lock.alone(host):
        _give_back(host, card, made.drivers, made.vfs)


def device(share: ProvidedVGPU) -> PCIFunction:
    """What a machine gets first: the GPU."""
    return PCIFunction(share.uuid or "", share.parent)


def companions(host: Host, share: ProvidedVGPU) -> tuple[PCIFunction, ...]:
    """What goes with it: the card's other functions. Other cards of its group only stand by, given to nobody."""
    made = Survey(host).ledger.get(share.uuid)
    slot = share.parent.rpartition(".")[0]
    own = sorted(address for address in (made.drivers if made is not None else {}) if address.startswith(f"{slot}."))
    return tuple(PCIFunction(share.uuid or "", address) for address in own if address != share.parent)


def _share(card: Card, uuid: str | None, kind: str) -> ProvidedVGPU:
    framework = Framework.PASSTHROUGH
    return ProvidedVGPU(uuid, card.address, kind, framework, card.address, "whole", regime=Regime.WHOLE)


def _is_there(host: Host, card: Card, made: Made) -> bool:
    """A card that was given away, until all of it is back where it was; one that was on VFIO, until crossed out."""
    if cards.is_vfio(card.driver):
        return True
    if any(not binding.is_back(host, address, driver) for address, driver in made.drivers.items()):
        return True
    return made.vfs > 0 and card.vfs is not None and card.vfs.enabled == 0


def _give_back(host: Host, card: Card, before: Mapping[str, str], vfs: int) -> None:
    for address, driver in before.items():
        if host.pci(address).exists():  # a card that was taken out of the machine is back enough
            binding.give_back(host, address, driver)
    now = cards.find(host, card.address)
    if now is not None and now.vfs is not None and vfs and not now.vfs.enabled:
        functions.set_count(host, now, vfs)
