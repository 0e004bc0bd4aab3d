"""Plain SR-IOV: a virtual function as it is, given to a machine as a PCI function (dossier 1.6).

Intel Flex and iGPUs, AMD, others: no table of types, the number of functions decides the size. So there is one type,
"VF-1ofN". A function bears nothing that says whose it is; that stands in the ledger alone.
"""

from __future__ import annotations

from contextlib import suppress

from vmctl.card import ProvidedVGPU
from vmctl.errors import Code, VmctlError
from vmctl.gpus import processes
from vmctl.gpus.cards import Card, VirtualFunction
from vmctl.gpus.driver import lock
from vmctl.gpus.shares import Making, Offer, Offers, Survey, first_that_takes, functions_for, provided
from vmctl.gpus.types import OfferedType
from vmctl.gpus.ways import binding
from vmctl.host import Host
from vmctl.ledger import Made
from vmctl.model import PCIFunction


def look(survey: Survey, card: Card) -> Offers:
    """As many equal parts as functions are on."""
    count = len(card.virtual)
    return Offers((Offer(_kind(card), count),) if count else (), count)


def shares(survey: Survey, card: Card) -> list[ProvidedVGPU]:
    """The functions that the ledger gives to somebody, and those that some process drives from user space."""
    found = []
    for function in card.virtual:
        made = survey.ledger.on(function.address)
        if made is not None and _is_there(survey.host, function, made):
            found.append(survey.share(card, made.uuid, _kind(card), function.address))
        elif survey.driven(function.address):
            found.append(survey.share(card, None, _kind(card), function.address))
    return found


def provide(host: Host, card: Card, making: Making) -> ProvidedVGPU:
    """See to it that a function is ready for a machine: on a driver of VFIO, by its own override."""
    wanted, kind = making.wanted, _kind(card)
    if wanted.type != kind.name:
        what = f"GPU {card.address} has {len(card.virtual)} parts now: it offers {kind.name}, not {wanted.type}."
        raise VmctlError(Code.FAILED, what, "Let an operator set the number of its virtual functions.")
    present = shares(Survey(host), card)
    there = next((share.parent for share in present if share.uuid == wanted.uuid), None)
    taken = {share.parent for share in present if share.uuid != wanted.uuid} | making.taken

    def make(function: VirtualFunction) -> ProvidedVGPU:
        _bind(host, making, function)
        return provided(card, wanted.uuid, kind, function.address, making.ledger.get(wanted.uuid))

    return first_that_takes(card, functions_for(card, wanted.handle, taken, there), make)


def release(host: Host, card: Card, share: ProvidedVGPU) -> None:
    """Give a function the driver back that it had before. Only while nobody has it open."""
    holders = processes.holding(host, processes.function_nodes(host, share.parent))
    if holders:
        what = f"The function {share.parent} is in use by {processes.named(holders)}."
        raise VmctlError(Code.BUSY, what, "End that machine first.", retry=True)
    made = Survey(host).ledger.on(share.parent)
    if made is not None:
        with lock.alone(host):
            binding.give_back(host, share.parent, made.drivers.get(share.parent, ""))


def device(share: ProvidedVGPU) -> PCIFunction:
    """What a machine gets."""
    return PCIFunction(share.uuid or "", share.parent)


def _kind(card: Card) -> OfferedType:
    """The one type of a card: an equal part of it. How much frame buffer that is, no file tells."""
    parts = len(card.virtual)
    return OfferedType(f"1of{parts}", f"VF-1of{parts}", "", None, parts, None, group=f"1of{parts}")


def _is_there(host: Host, function: VirtualFunction, made: Made) -> bool:
    """A function that was given away, until it is back where it was; one that was on VFIO anyway, until crossed out."""
    address = function.address
    return binding.on_vfio(host, address) or not binding.is_back(host, address, made.drivers.get(address, ""))


def _bind(host: Host, making: Making, function: VirtualFunction) -> None:
    """Raises VmctlError, and then the function has its driver again."""
    address = function.address
    noted = making.ledger.get(making.wanted.uuid)
    before = binding.driver_of(host, address)
    if noted is not None and noted.device == address:
        before = noted.drivers.get(address, before)  # a run that was killed half-way may have unbound it
    with lock.alone(host):
        if not binding.on_vfio(host, address):
            _refuse_users(host, address)
        making.note(address, handle=function.number, drivers={address: before})
        try:
            binding.to_vfio(host, address)
        except binding.Stuck:
            raise
        except VmctlError:
            with suppress(VmctlError):  # the first error says more; what stays undone is noted and tried again
                binding.give_back(host, address, before)
            raise


def _refuse_users(host: Host, address: str) -> None:
    """A process that has the function open makes the unbinding sleep in the kernel (field log B10)."""
    holders = processes.holding(host, processes.function_nodes(host, address))
    if holders:
        what = f"The function {address} is in use by {processes.named(holders)}."
        raise VmctlError(Code.BUSY, what, "End that, then try again.", retry=True)
