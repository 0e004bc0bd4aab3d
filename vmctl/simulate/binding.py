"""Which driver a function has: what the kernel does at driver_override, unbind, bind, drivers_probe (dossier 1.4)."""

from __future__ import annotations

import errno

from vmctl.simulate.drawing import DEVICES
from vmctl.simulate.kernel import Busy, Kernel, refuse
from vmctl.simulate.layouts import Card
from vmctl.simulate.state import State

VFIO = "vfio-pci"


def owner(kernel: Kernel, function: str) -> Card | None:
    """The card that a function is part of, or sits beside."""
    found = kernel.card_of(function)
    beside = (card for card in kernel.cards if any(each.address == function for each in card.companions))
    return found or next(beside, None)


def found_by(kernel: Kernel, function: str) -> str | None:
    """The driver that the kernel gives a function by itself."""
    card = kernel.card_of(function)
    if card is not None:
        return card.board.driver
    companions = (each for card in kernel.cards for each in card.companions)
    return next((each.driver for each in companions if each.address == function), None)


def override(kernel: Kernel, state: State, function: str, value: str) -> None:
    """Only this driver may have the function from now on; nothing takes it back."""
    if value:
        state.overrides[function] = value
    else:
        state.overrides.pop(function, None)
    _settle(kernel, state, function)


def unbind(kernel: Kernel, state: State, function: str, driver: str | None) -> None:
    """Take a function from its driver. The writer sleeps while somebody has the function open."""
    now = state.drivers.get(function, found_by(kernel, function))
    if now is None or (driver is not None and driver != now):
        refuse(errno.ENODEV, kernel.root / DEVICES / function / "driver/unbind")
    card = kernel.card_of(function)
    node = f"dev/vfio/{kernel.tree.target(f'{DEVICES}/{function}/iommu_group')}"
    if kernel.in_use(node):
        raise Busy(node)
    if card is not None and function == card.address:
        _let_go(kernel, state, card)
    elif card is not None and function in state.cards[card.address].vgpus:
        raise Busy(node)
    state.drivers[function] = None
    _settle(kernel, state, function)


def _let_go(kernel: Kernel, state: State, card: Card) -> None:
    """The GPU's driver leaves it: whoever uses it is waited for, and what it kept in memory goes with it."""
    own = state.cards[card.address]
    node = f"dev/nvidia{list(state.cards).index(card.address)}"
    if own.vgpus or kernel.in_use(node):
        raise Busy(node)
    own.forget()
    own.vfs = 0
    if not card.board.keeps_mig:
        own.mig = own.mig_pending = False
    for function in card.functions:
        state.drivers.pop(function, None)
        state.overrides.pop(function, None)


def bind(kernel: Kernel, state: State, function: str, driver: str) -> None:
    """Give a function to a driver by name: only where nothing else is wanted."""
    where = kernel.root / "sys/bus/pci/drivers" / driver / "bind"
    if not kernel.exists(function) or _match(kernel, state, function) != driver:
        refuse(errno.ENODEV, where)
    probe(kernel, state, function)


def probe(kernel: Kernel, state: State, function: str) -> None:
    """Look for a driver of a function that has none. NVIDIA's VFs work with no other one (1.3)."""
    where = kernel.root / "sys/bus/pci/drivers_probe"
    if not kernel.exists(function):
        refuse(errno.ENODEV, where)
    if state.drivers.get(function, found_by(kernel, function)) is not None:
        return
    driver = _match(kernel, state, function)
    card = kernel.card_of(function)
    if driver == VFIO and card is not None and card.board.driver == "nvidia" and function in card.functions:
        refuse(errno.EINVAL, where)
    if driver == found_by(kernel, function):
        state.drivers.pop(function, None)
    else:
        state.drivers[function] = driver
    _settle(kernel, state, function)


def _match(kernel: Kernel, state: State, function: str) -> str | None:
    wanted = state.overrides.get(function)
    here = [VFIO, found_by(kernel, function)]
    if wanted is not None:
        return wanted if wanted in here else None
    return found_by(kernel, function)


def lock(kernel: Kernel, state: State, function: str, value: str) -> None:
    """NVIDIA's unbindLock: stays 0 while somebody has the GPU open (1.4)."""
    card = kernel.card_of(function)
    if card is None or value not in ("0", "1"):
        refuse(errno.EINVAL, kernel.root / "proc/driver/nvidia/gpus" / function / "unbindLock")
    own = state.cards[card.address]
    held = own.vgpus or kernel.in_use(f"dev/nvidia{list(state.cards).index(card.address)}")
    own.unlocked = value == "1" and not held
    kernel.settle(state, card)


def _settle(kernel: Kernel, state: State, function: str) -> None:
    card = owner(kernel, function)
    if card is not None:
        kernel.settle(state, card)
