"""The simulated kernel: its lock and its state.

One write at a time, each whole: the state file is replaced, then the tree is drawn from it. A process that dies between
the two leaves a mark, and the next one draws again.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NoReturn

from vmctl.simulate import holders
from vmctl.simulate.drawing import DEVICES, Drawing
from vmctl.simulate.layouts import LAYOUTS, Card
from vmctl.simulate.machine import BOOT_ID
from vmctl.simulate.state import State
from vmctl.simulate.tree import Tree

LAYOUT_FILE = ".layout"
LOG = ".kernel-log"
UNSETTLED = ".unsettled"  # there while the tree is drawn anew: a process died inside it if it stays


class Busy(Exception):
    """The kernel sleeps until somebody lets go of a node; the path is the node's."""


@dataclass(frozen=True)
class Kernel:
    """The machine below a root."""

    root: Path

    @cached_property
    def cards(self) -> tuple[Card, ...]:
        return tuple(LAYOUTS[(self.root / LAYOUT_FILE).read_text()])

    @cached_property
    def tree(self) -> Tree:
        return Tree(self.root)

    @contextmanager
    def alone(self) -> Iterator[State]:
        """Hold the kernel's lock; first put the tree right if a process died while it held it, or after a boot."""
        with (self.root / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            state = State.read(self.root)
            if state.boot != self.boot_id():
                lose(state, self.cards, rebooted=True)
                state.boot = self.boot_id()
                self.settle(state)
            elif (self.root / UNSETTLED).exists():
                self.settle(state)
            yield state

    def is_settled(self) -> bool:
        return not (self.root / UNSETTLED).exists() and State.read(self.root).boot == self.boot_id()

    def boot_id(self) -> str:
        return (self.root / BOOT_ID).read_text()

    def settle(self, state: State, *cards: Card, changed: str | None = None) -> None:
        """Keep a state, and make the tree agree with it. `changed`: the only function whose vGPU is another one.

        A signal to the caller does not stop a kernel half-way either.
        """
        try:
            self._draw(state, cards, changed)
        except KeyboardInterrupt:
            self._draw(state, (), None)
            raise

    def _draw(self, state: State, cards: Sequence[Card], changed: str | None) -> None:
        (self.root / UNSETTLED).touch()
        state.write(self.root)
        for card in cards or self.cards:
            Drawing(self.tree, card, state, changed).draw()
        (self.root / UNSETTLED).unlink(missing_ok=True)

    def log(self, line: str) -> None:
        """Add to what dmesg shows."""
        with (self.root / LOG).open("a") as log:
            log.write(f"{line}\n")

    def card_of(self, function: str) -> Card | None:
        """The GPU that a function (PF or VF) belongs to."""
        return next((card for card in self.cards if function in (card.address, *card.functions)), None)

    def exists(self, function: str) -> bool:
        return os.path.lexists(self.root / DEVICES / function)

    def in_use(self, node: str) -> bool:
        """Whether a process has a device node open."""
        return holders.in_use(self.root, node)

    def group_in_use(self, function: str) -> bool:
        group = self.tree.target(f"{DEVICES}/{function}/iommu_group")
        return group is not None and self.in_use(f"dev/vfio/{group}")


def lose(state: State, cards: tuple[Card, ...], *, rebooted: bool) -> None:
    """What a reboot of the machine, or a reload of the driver, takes (1.2, 1.5).

    VFs, vGPUs, GPU instances, mixed sizes and scheduler go; MIG mode stays on Ampere only, where a reboot also brings
    what was pending. A driver that is loaded again takes back what it had, not what is on vfio-pci.
    """
    if rebooted:
        state.drivers, state.overrides = {}, {}
    for card in cards:
        own = state.cards[card.address]
        own.forget()
        own.vfs = 0
        if not card.board.keeps_mig:
            own.mig = own.mig_pending = False
        elif rebooted:
            own.mig = own.mig_pending
        if rebooted:
            own.ecc = own.ecc_pending


def refuse(number: int, path: Path) -> NoReturn:
    raise OSError(number, os.strerror(number), str(path))
