"""A card's SR-IOV virtual functions, on and off (dossier 1.2).

NVIDIA's tool unbinds the card from its driver meanwhile, so GPU instances, mixed size and scheduler are lost with it:
functions first, settings afterwards. Its exit status says little; what counts is what the kernel shows then.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from vmctl.errors import Code, VmctlError
from vmctl.gpus import cards, mdev_bus, processes, vf_type
from vmctl.gpus.cards import NVIDIA, Card
from vmctl.gpus.driver import time_slices
from vmctl.host import Host

SRIOV_MANAGE = "/usr/lib/nvidia/sriov-manage"
LIMIT = 40.0  # seconds for one call; it rebinds the card and waits for its functions
USUAL = 10.0  # seconds that a call takes; with less it is not begun, for it would be ended half-way
TRIES = 5
PAUSE = 1.0  # seconds between two tries
PASSING = "unbindlock"
"""What the tool says while somebody else looks at the card; mostly that passes (dossier 9, row 15)."""


def set_count(host: Host, card: Card, wanted: int | None) -> None:
    """See to it that a card has so many virtual functions; None: as many as it can have. 0: none.

    The caller holds the cards' lock alone. Raises VmctlError: where one of them is in use, where there is no time
    left, and where the kernel shows another number afterwards. That the functions are there does not mean that the
    driver is done with them: that takes up to 30 s more.
    """
    if card.vfs is None:
        raise VmctlError(Code.FAILED, f"GPU {card.address} has no virtual functions.", "Look at vmctl check.")
    number = card.vfs.total if wanted is None else wanted
    if number == card.vfs.enabled:
        return
    if number > card.vfs.total:
        what = f"GPU {card.address} has {card.vfs.total} virtual functions at most, not {number}."
        raise VmctlError(Code.FAILED, what, "Have a smaller number set for this card.")
    users = list(in_use(host, card))
    if users:
        what = f"The virtual functions of GPU {card.address} cannot be changed: {'; '.join(users)}."
        raise VmctlError(Code.BUSY, what, "Wait until the card is empty.", retry=True)
    time_slices.forget(host, card.address)
    if card.vendor == NVIDIA and host.path(SRIOV_MANAGE).exists():
        said = _by_tool(host, card, number)
    else:
        said = _by_kernel(host, card, number)
    after = cards.find(host, card.address)
    enabled = after.vfs.enabled if after is not None and after.vfs is not None else None
    if enabled != number:
        what = f"GPU {card.address} was to have {number} virtual functions, but has {enabled}"
        raise VmctlError(
            Code.FAILED,
            f"{what}; {said}." if said else f"{what}, and nothing said why.",
            "Look at the kernel's log of this minute (dmesg) and at vmctl check.",
            retry=True,
        )


def in_use(host: Host, card: Card) -> Iterator[str]:
    """What keeps a card's functions from being changed, in words."""
    parents = {device.parent: device.uuid for device in mdev_bus.devices(host)}
    for function in card.virtual:
        if function.address in parents:
            yield f"the vGPU {parents[function.address]} is on {function.address}"
        elif vf_type.current(host, function.address) is not None:
            yield f"a vGPU is on {function.address}"
    holders = processes.holding(host, processes.function_nodes(host, *(each.address for each in card.virtual)))
    if holders:
        yield f"{processes.named(holders)} has one open"


def _by_tool(host: Host, card: Card, number: int) -> str:
    """All on or all off, by NVIDIA's tool; gives what it said."""
    command = [SRIOV_MANAGE, "-e" if number else "-d", card.address]
    said = ""
    for attempt in range(TRIES):
        if host.left(LIMIT) < USUAL:
            break
        if attempt:
            time.sleep(PAUSE)
        answer = host.driver_tool(command, limit=LIMIT, reading=_numvfs(card), changes=True)
        said = " ".join((answer.output + answer.errors).split())
        if PASSING not in said.lower():
            return said
    if not said:
        what = f"There was no time left to switch the virtual functions of GPU {card.address}."
        raise VmctlError(Code.LATER, what, "Nothing to do.", retry=True)
    holders = processes.holding(host, processes.gpu_nodes(host, card.address) | {"/dev/nvidiactl"})
    who = processes.named(holders) or "a process that this user cannot see"
    what = f"sriov-manage does not get hold of GPU {card.address} ({said}); it is held by {who}."
    raise VmctlError(Code.BUSY, what, "End them, or try again.", retry=True)


def _by_kernel(host: Host, card: Card, number: int) -> str:
    """By the kernel's own file, which takes another number only from 0 on; gives what it said."""
    path = _numvfs(card)
    try:
        if card.vfs is not None and card.vfs.enabled and number:
            host.write(path, "0", reading=path)
        host.write(path, str(number), reading=path)
    except OSError as error:
        return f"the kernel says: {error.strerror}"
    return ""


def _numvfs(card: Card) -> Path:
    return card.folder / "sriov_numvfs"
