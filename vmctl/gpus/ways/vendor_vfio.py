"""The vendor's own VFIO interface on virtual functions: Ampere and later on kernels without mdev (dossier 1.3).

A function's type is a number that is written to it. The number belongs to the driver release, so it is looked up by
name each time. The list that a function shows has only what can be made *now*: header only is a full GPU, no fault.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Collection
from dataclasses import dataclass

from vmctl.card import ProvidedVGPU, Regime, Unknown
from vmctl.errors import Code, VmctlError
from vmctl.gpus import processes
from vmctl.gpus.cards import VENDOR_TYPES, Card, VirtualFunction
from vmctl.gpus.driver.answers import DriverFacts
from vmctl.gpus.layers import mixed
from vmctl.gpus.shares import Making, Offer, Offers, Survey, first_that_takes, functions_for, provided, together
from vmctl.gpus.type_names import memory_of, plain, series_of
from vmctl.gpus.types import OfferedType, believable, gaps
from vmctl.gpus.vf_type import CURRENT, NOTHING, current
from vmctl.host import Host
from vmctl.model import PCIFunction, WantedVGPU

HEADER = re.compile(r"ID\s*:\s*vGPU Name\s*")
ROW = re.compile(r"\s*(\d+)\s*:\s*(\S.*?)\s*")
REFUSED = (errno.EIO, errno.ENOSPC, errno.EINVAL)
"""No room: the GPU is full, or another size is fixed on it (dossier 9, row 17)."""


def look(survey: Survey, card: Card) -> Offers:
    """What the card can be cut into now: every type that the driver knows, each as often as functions list it."""
    told, unknown = survey.of(card), []
    numbers: dict[str, str] = {}
    rooms: list[Collection[str] | None] = []
    ready = 0
    for function in card.virtual:
        if not (survey.host.pci(function.address) / VENDOR_TYPES).exists():
            unknown.append(Unknown("types", f"The driver is not ready on {function.address}: it lists no types."))
            rooms.append(None)
            continue
        ready += 1
        try:
            found = creatable(survey.host, function.address)
        except VmctlError as error:
            unknown.append(Unknown("types", error.what))
            rooms.append(None)
            continue
        numbers |= found
        rooms.append(found)
    numbers = {name: str(kind.number) for name, kind in told.types.items() if kind.number is not None} | numbers
    kinds = [_kind(name, number, told) for name, number in numbers.items()]
    unknown += [gap for kind in kinds for gap in gaps(kind)]
    if not kinds and any(found is not None for found in rooms):
        unknown.append(Unknown("types", "Nothing can be made on the GPU now, and the driver tells no more types."))
    offers = tuple(
        Offer(kind, together([None if found is None else int(kind.name in found) for found in rooms])) for kind in kinds
    )
    return Offers(offers, ready, tuple(unknown))


def shares(survey: Survey, card: Card) -> list[ProvidedVGPU]:
    """The functions with a type. One that the ledger does not have is somebody else's.

    Raises VmctlError where a function does not tell: there may be a share on it.
    """
    found = []
    for function in card.virtual:
        number = current(survey.host, function.address)
        if number is not None:
            found.append(_share(survey, card, function, number))
    return found


def provide(host: Host, card: Card, making: Making) -> ProvidedVGPU:
    """See to it that a wanted share exists, on the function of its handle or another free one."""
    survey, wanted = Survey(host), making.wanted
    present = shares(survey, card)
    there = next((share for share in present if share.uuid == wanted.uuid), None)
    if there is not None:
        _place(host, wanted, there.parent)  # a run that was cut off may have left it without
        return there
    taken = {share.parent for share in present} | making.taken
    maker = _Maker(host, card, making, survey, empty=not present)
    return first_that_takes(card, functions_for(card, wanted.handle, taken), maker.make)


def release(host: Host, card: Card, share: ProvidedVGPU) -> None:
    """See to it that a share is gone. Only while nobody has its device open (dossier 1.3)."""
    holders = processes.holding(host, processes.function_nodes(host, share.parent))
    if holders:
        what = f"The vGPU on {share.parent} is in use by {processes.named(holders)}."
        raise VmctlError(Code.BUSY, what, "End that machine first.", retry=True)
    mixed.clear(host, host.pci(share.parent))
    _set_nothing(host, share.parent)


def device(share: ProvidedVGPU) -> PCIFunction:
    """What a machine gets: the function, which stays on its driver."""
    return PCIFunction(share.uuid or "", share.parent)


def creatable(host: Host, address: str) -> dict[str, str]:
    """The types that a function takes now, name -> number: a header, then `1155  : NVIDIA L40S-24Q` per line.

    Raises VmctlError where there is no such table: garbage is no empty list (field log A01).
    """
    text = host.read_or_none(host.pci(address) / VENDOR_TYPES)
    header, *lines = (text or "").splitlines() or [""]
    rows = [ROW.fullmatch(line) for line in lines if line.strip()]
    if HEADER.fullmatch(header) is None or None in rows:
        said = "cannot be read" if text is None else f"says {text[:60]!r}"
        what = f"{VENDOR_TYPES} of {address} {said}; that is no table of types."
        raise VmctlError(Code.COULD_NOT_TELL, what, "Run vmctl check on the host.", retry=True)
    return {plain(row[2]): row[1] for row in rows if row is not None}


def _kind(name: str, number: str, told: DriverFacts) -> OfferedType:
    facts = told.types.get(name)
    memory = memory_of(name) or (facts.memory_mib if facts is not None else None)
    most = believable(facts.most) if facts is not None else None
    return OfferedType(number, name, series_of(name), memory, most, None)


def _share(survey: Survey, card: Card, function: VirtualFunction, number: str) -> ProvidedVGPU:
    """A share by its function and number: ours when the ledger gives this number of this function to somebody."""
    made = survey.ledger.on(function.address)
    if made is not None and made.driver_id == number:
        return survey.share(card, made.uuid, _kind(made.type, number, DriverFacts()), function.address)
    told = survey.of(card)
    name = next((name for name, kind in told.types.items() if str(kind.number) == number), number)
    return survey.share(card, None, _kind(name, number, told), function.address)


def _set_nothing(host: Host, address: str) -> None:
    """Take a function's type away and read that back. Raises VmctlError (retry), and then it may still be there."""
    path = host.pci(address) / CURRENT
    try:
        left = host.write(path, NOTHING, reading=path)
    except OSError as error:
        if not host.pci(address).exists():
            return  # the function is gone, and its share with it
        what = f"The driver does not take the vGPU on {address} away: {error.strerror}."
        raise VmctlError(Code.BUSY, what, "Look at what uses it.", retry=True) from error
    if (left or "").strip() != NOTHING:
        what = f"The vGPU on {address} is still there: {CURRENT} says {left!r}."
        raise VmctlError(Code.FAILED, what, "Look at what uses it.", retry=True)


def _place(host: Host, wanted: WantedVGPU, address: str) -> None:
    """Demand the share's place where sizes are mixed. Raises VmctlError, and then the share is gone again."""
    if wanted.regime is not Regime.MIXED or wanted.cell is None:
        return
    try:
        mixed.place(host, host.pci(address), wanted.cell)
    except VmctlError:
        mixed.clear(host, host.pci(address))
        _set_nothing(host, address)
        raise


@dataclass(frozen=True)
class _Maker:
    """Makes one wanted share on one function after the other, until one takes it."""

    host: Host
    card: Card
    making: Making
    survey: Survey
    empty: bool  # no share is on the card: then a function lists every type that the driver has

    def make(self, function: VirtualFunction) -> ProvidedVGPU:
        """Write the type, read it back, demand the place. Raises VmctlError, and then nothing is left."""
        wanted, address = self.making.wanted, function.address
        number = self._number(address)
        self.making.note(address, handle=function.number, driver_id=number)
        path = self.host.pci(address) / CURRENT
        try:
            got = (self.host.write(path, number, reading=path) or "").strip()
        except OSError as error:
            self._undo(address, number)
            raise self._refused(address, error) from error
        if got != number:
            what = f"The driver took {wanted.type} ({number}) on {address} but made {got or 'nothing'}."
            raise VmctlError(Code.FAILED, what, "Look at the kernel's log of this minute (dmesg).", retry=True)
        _place(self.host, wanted, address)
        kind = _kind(wanted.type, number, DriverFacts())
        return provided(self.card, wanted.uuid, kind, address, self.making.ledger.get(wanted.uuid))

    def _number(self, address: str) -> str:
        """The wanted type's number here and now. Never another size instead (field log A07)."""
        wanted = self.making.wanted
        found = creatable(self.host, address)
        if wanted.type in found:
            return found[wanted.type]
        offered = [*self.survey.of(self.card).types] or (list(found) if self.empty else [])
        if wanted.type in offered or not offered:
            raise VmctlError(
                Code.NO_CAPACITY,
                f"{address} takes no {wanted.type} now: GPU {self.card.address} is full, or has another size.",
                "Free a share of another size on it, or use another GPU.",
                retry=True,
            )
        raise VmctlError(
            Code.FAILED,
            f"The driver does not offer {wanted.type} on {address}; it offers {', '.join(offered)}.",
            "Let an operator choose another type for this flavor: the driver's types changed.",
        )

    def _undo(self, address: str, number: str) -> None:
        """After a refusal the function reads 0; where it does not, what is ours is taken back."""
        if current(self.host, address) == number:
            _set_nothing(self.host, address)

    def _refused(self, address: str, error: OSError) -> VmctlError:
        wanted = self.making.wanted
        if error.errno in REFUSED:
            return VmctlError(
                Code.NO_CAPACITY,
                f"The driver has no room for {wanted.type} on GPU {self.card.address} ({error.strerror} at {address}).",
                "Free a share of another size on it, or use another GPU.",
                retry=True,
            )
        return VmctlError(
            Code.FAILED,
            f"The driver refuses {wanted.type} on {address}: {error.strerror or error}.",
            "Look at the kernel's log of this minute (dmesg).",
            retry=error.errno in (errno.EBUSY, errno.EAGAIN),
        )
