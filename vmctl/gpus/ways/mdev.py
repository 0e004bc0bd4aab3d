"""Mediated devices, whatever function they are made on: list, make, take away (dossier 1.1 and 9)."""

from __future__ import annotations

import errno
from typing import NoReturn

from vmctl.card import ProvidedVGPU
from vmctl.errors import Code, VmctlError
from vmctl.gpus import processes
from vmctl.gpus.cards import MDEV_TYPES, Card
from vmctl.gpus.mdev_bus import BusDevice, bus, device
from vmctl.gpus.shares import Making, Survey
from vmctl.gpus.types import OfferedType, offered, read_type
from vmctl.host import Host
from vmctl.model import WantedVGPU

REFUSED = (errno.ENOSPC, errno.EUSERS, errno.EINVAL, errno.EIO)
"""The driver has no room although its counter may say so (field log A08); EUSERS is the mdev core's own."""


def shares(survey: Survey, card: Card) -> list[ProvidedVGPU]:
    """The mediated devices on any function of a card."""
    functions = {card.address, *(function.address for function in card.virtual)}
    return [
        survey.share(card, made.uuid, _kind_of(survey.host, made), made.parent)
        for made in survey.mediated
        if made.parent in functions
    ]


def _kind_of(host: Host, made: BusDevice) -> OfferedType:
    return read_type(host, host.pci(made.parent) / MDEV_TYPES / made.driver_id)


def make(host: Host, making: Making, parent: str) -> OfferedType:
    """See to it that the vGPU exists on `parent`, and give its type.

    A device of the same uuid is used only if it is the very one; another one is taken away first. Raises VmctlError,
    and then nothing of it is there.
    """
    wanted = making.wanted
    kind = _type(host, wanted, parent)
    found = device(host, wanted.uuid)
    if found == BusDevice(wanted.uuid, parent, kind.driver_id):
        making.note(parent)
        return kind
    if found is not None:
        take_away(host, wanted.uuid)
    making.note(parent)
    try:
        made = host.write(kind.folder / "create", wanted.uuid, reading=bus(host) / wanted.uuid / "mdev_type")
    except OSError as error:
        _refused(host, wanted, parent, error)
    if made != kind.driver_id:
        raise VmctlError(
            Code.FAILED,
            f"The driver took {wanted.type} on {parent} but made {made or 'nothing'}.",
            "Look at the kernel's log of this minute (dmesg).",
            retry=True,
        )
    return kind


def take_away(host: Host, uuid: str) -> None:
    """See to it that a mediated device is gone. Raises VmctlError (retry) when it is in use or stays."""
    if device(host, uuid) is None:
        return
    holders = processes.holding(host, processes.vfio_nodes(host, f"/sys/bus/mdev/devices/{uuid}"))
    if holders:
        # The kernel would not refuse but sleep until the holder lets go, and no signal wakes it.
        what = f"The vGPU {uuid} is in use by {processes.named(holders)}."
        raise VmctlError(Code.BUSY, what, "End that machine first.", retry=True)
    where = bus(host) / uuid
    try:
        left = host.write(where / "remove", "1", reading=where)
    except FileNotFoundError:
        return
    except OSError as error:
        raise VmctlError(
            Code.FAILED,
            f"The kernel does not remove the vGPU {uuid}: {error.strerror}.",
            "Look at what uses it.",
            retry=True,
        ) from error
    if left is not None:
        raise VmctlError(Code.FAILED, f"The vGPU {uuid} is still there.", "Look at what uses it.", retry=True)


def _type(host: Host, wanted: WantedVGPU, parent: str) -> OfferedType:
    """The wanted type by its name: ids belong to the driver release (field log A07). Never another size instead."""
    kinds, unknown = offered(host, parent)
    for kind in kinds:
        if wanted.type in (kind.name, kind.driver_id):
            return kind
    if not kinds:
        reason = "; ".join(gap.reason for gap in unknown)
        raise VmctlError(
            Code.COULD_NOT_TELL, f"{parent} offers no vGPU now: {reason}", "Wait for the driver.", retry=True
        )
    raise VmctlError(
        Code.FAILED,
        f"The driver does not offer {wanted.type} on {parent}; it offers {', '.join(kind.name for kind in kinds)}.",
        "Let an operator choose another type for this flavor: the driver's types changed.",
    )


def _refused(host: Host, wanted: WantedVGPU, parent: str, error: OSError) -> NoReturn:
    """Say what the driver's refusal means, after making sure that nothing is half made."""
    if error.errno == errno.EEXIST:
        raise VmctlError(
            Code.BUSY, f"The vGPU {wanted.uuid} came up beside this call.", "Try again.", retry=True
        ) from error
    take_away(host, wanted.uuid)
    if error.errno in REFUSED:
        raise VmctlError(
            Code.NO_CAPACITY,
            f"The driver has no room for {wanted.type} on GPU {wanted.gpu} ({error.strerror}).",
            "Free a share of another size on it, or use another GPU.",
            retry=True,
        ) from error
    raise VmctlError(
        Code.FAILED,
        f"The driver refuses {wanted.type} on {parent}: {error.strerror or error}.",
        "Look at the kernel's log of this minute (dmesg).",
        retry=error.errno in (errno.EBUSY, errno.EAGAIN),
    ) from error
