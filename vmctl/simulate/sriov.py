"""VFs on and off: NVIDIA's sriov-manage, and the kernel's sriov_numvfs (dossier 1.2, 1.6)."""

from __future__ import annotations

import errno

from vmctl.host import Answer
from vmctl.simulate.drawing import DEVICES
from vmctl.simulate.kernel import Busy, Kernel, refuse
from vmctl.simulate.layouts import Card
from vmctl.simulate.state import State

HELD = "Cannot obtain unbindLock for {gpu}\n"


def manage(kernel: Kernel, words: list[str]) -> Answer:
    """sriov-manage -e|-d ADDRESS|ALL. It rebinds the PF, and so wipes all but MIG mode (1.2)."""
    if len(words) != 2 or words[0] not in ("-e", "-d"):
        return Answer(1, "Usage: sriov-manage <-e|-d> <ssss:bb:dd.f | ALL>\n", "")
    with kernel.alone() as state:
        cards = [card for card in kernel.cards if card.board.driver == "nvidia" and card.board.vfs]
        chosen = [card for card in cards if words[1].lower() in ("all", card.address)]
        if not chosen:
            return Answer(1, "", f"{words[1]} is not a supported device\n")
        said = ""
        for card in chosen:
            if refused(kernel, state, card):
                return Answer(1, said, HELD.format(gpu=card.address))
            _switch(state, card, card.board.vfs if words[0] == "-e" else 0)
            said += f"{'Enabling' if words[0] == '-e' else 'Disabling'} VFs on {card.address}\n"
            kernel.settle(state, card)
        return Answer(0, said, "")


def refused(kernel: Kernel, state: State, card: Card) -> bool:
    """The GPU must be idle: no vGPU, nobody who has it open, and bound to its driver."""
    own = state.cards[card.address]
    lent = state.drivers.get(card.address, "nvidia") != "nvidia"
    return lent or bool(own.vgpus) or kernel.in_use(f"dev/nvidia{list(state.cards).index(card.address)}")


def _switch(state: State, card: Card, count: int) -> None:
    own = state.cards[card.address]
    own.forget()
    own.vfs = count
    for function in card.functions:
        state.drivers.pop(function, None)
        state.overrides.pop(function, None)


def set_count(kernel: Kernel, state: State, function: str, value: str) -> None:
    """The kernel's own switch. NVIDIA's driver has none behind it; others refuse to go from one number to another."""
    where = kernel.root / DEVICES / function / "sriov_numvfs"
    card = kernel.card_of(function)
    if card is None or not value.isdecimal():
        refuse(errno.EINVAL, where)
    if card.board.driver == "nvidia" or state.drivers.get(function, card.board.driver) != card.board.driver:
        refuse(errno.ENOENT, where)
    own, count = state.cards[function], int(value)
    if count > card.board.vfs:
        refuse(errno.ERANGE, where)
    if count and own.vfs and count != own.vfs:
        refuse(errno.EBUSY, where)
    for each in card.functions[: own.vfs]:
        if kernel.group_in_use(each):
            raise Busy(each)
    _switch(state, card, count)
    if not own.autoprobe:
        state.drivers |= dict.fromkeys(card.functions[:count])
    kernel.settle(state, card)


def set_autoprobe(kernel: Kernel, state: State, function: str, value: str) -> None:
    """Whether new VFs get a driver by themselves (1.3)."""
    card = kernel.card_of(function)
    if card is None or value not in ("0", "1"):
        refuse(errno.EINVAL, kernel.root / DEVICES / function / "sriov_drivers_autoprobe")
    state.cards[function].autoprobe = value == "1"
    kernel.settle(state, card)
