"""The simulated kernel: its lock, its state, and what each attribute does when somebody writes to it.

One write at a time, each whole: the state file is replaced, then the tree is drawn from it. A process that dies between
the two leaves a mark, and the next one draws again.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NoReturn
from uuid import UUID

from vmctl.simulate import rules
from vmctl.simulate.drawing import DEVICES, Drawing
from vmctl.simulate.layouts import LAYOUTS, Card
from vmctl.simulate.machine import BOOT_ID
from vmctl.simulate.mdevs import BUS, TYPES
from vmctl.simulate.state import VGPU, State
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

    def settle(self, state: State, *cards: Card) -> None:
        """Keep a state, and make the tree agree with it."""
        (self.root / UNSETTLED).touch()
        state.write(self.root)
        for card in cards or self.cards:
            Drawing(self.tree, card, state).draw()
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
        """Whether a process has a device node open: nobody can take a lease on a file that others have open."""
        try:
            handle = os.open(self.root / node, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError as error:
            return error.errno == errno.EAGAIN
        finally:
            os.close(handle)
        return False

    def group_in_use(self, function: str) -> bool:
        group = self.tree.target(f"{DEVICES}/{function}/iommu_group")
        return group is not None and self.in_use(f"dev/vfio/{group}")

    # -- writes

    def write(self, path: Path, value: str) -> None:
        """Answer a write to an attribute. Raises OSError with the kernel's number, Busy where it would sleep."""
        with self.alone() as state:
            match path.parts[-4:]:
                case (_, folder, kind, "create") if folder == TYPES:
                    self._create(state, path.parents[2].name, kind, value)
                case (*_, uuid, "remove") if self._mdev(state, uuid) is not None:
                    self._remove(state, uuid, value)
                case (_, function, "nvidia", "current_vgpu_type") if self.exists(function):
                    self._set_type(state, function, value)
                case (_, key, "nvidia", "vgpu_params") if path.exists():
                    self._set_params(state, key, value)
                case _:
                    refuse(errno.EACCES if path.exists() else errno.ENOENT, path)

    def _mdev(self, state: State, uuid: str) -> Card | None:
        return next((card for card in self.cards if uuid in state.cards[card.address].vgpus), None)

    def _create(self, state: State, parent: str, kind: str, value: str) -> None:
        """Make an mdev of a type (1.1). Refusals: no uuid EINVAL, taken EEXIST, none left ENOSPC (9, row 11)."""
        where = self.root / DEVICES / parent / TYPES / kind
        card = self.card_of(parent)
        if card is None or not where.is_dir():
            refuse(errno.ENOENT, where)
        try:
            uuid = str(UUID(value))
        except ValueError:
            refuse(errno.EINVAL, where)
        if self._mdev(state, uuid) is not None:
            refuse(errno.EEXIST, where)
        own = state.cards[card.address]
        found = rules.place(card.board, own, card.board.by_id[kind], parent)
        if found is None:
            refuse(errno.ENOSPC, where)
        groups = [int(name) for name in self.tree.names("sys/kernel/iommu_groups")]
        own.vgpus[uuid] = VGPU(parent, kind, found.placement, found.instance, max(groups, default=0) + 1)
        self.settle(state, card)

    def _remove(self, state: State, uuid: str, value: str) -> None:
        """Take an mdev away (1.1). Nothing but 1 is an order; one that is open lets the writer sleep."""
        card = self._mdev(state, uuid)
        if value != "1" or card is None:
            refuse(errno.EINVAL, self.root / BUS / uuid)
        own = state.cards[card.address]
        node = f"dev/vfio/{own.vgpus[uuid].group}"
        if self.in_use(node):
            raise Busy(node)
        del own.vgpus[uuid]
        own.params.pop(uuid, None)
        self.settle(state, card)

    def _set_type(self, state: State, function: str, value: str) -> None:
        """Make or take away the vGPU of a VF (1.3): EIO when the driver does not, EBUSY while a machine has it."""
        where = self.root / DEVICES / function / "nvidia/current_vgpu_type"
        card = self.card_of(function)
        if card is None or not value.isdecimal():
            refuse(errno.EINVAL, where)
        own = state.cards[card.address]
        if self.group_in_use(function):
            refuse(errno.EBUSY, where)
        if value == "0":
            own.vgpus.pop(function, None)
            own.params.pop(function, None)
            self.settle(state, card)
            return
        kind = card.board.by_id.get(f"nvidia-{value}")
        found = rules.place(card.board, own, kind, function) if kind is not None else None
        if kind is None or found is None:
            self.log("NVRM: Failed to add vgpu create request: 0x38")
            refuse(errno.EIO, where)
        own.vgpus[function] = VGPU(function, kind.driver_id, found.placement, found.instance)
        self.settle(state, card)

    def _set_params(self, state: State, key: str, value: str) -> None:
        """Plugin parameters of a VF or a mediated device (4.3).

        One that asks for a place the driver can give moves the vGPU there; an impossible one is taken all the same,
        and only the start of the machine shows it (3.2): the place read back is another one.
        """
        card = self.card_of(key) or self._mdev(state, key)
        if card is None:
            refuse(errno.ENODEV, self.root / key)
        own = state.cards[card.address]
        own.params[key] = value
        if not value:
            del own.params[key]
        vgpu = own.vgpus.get(key)
        if vgpu is not None and own.mixed and rules.wish(value) is not None:
            del own.vgpus[key]
            free = rules.places(card.board, own, card.board.by_id[vgpu.kind])
            if any(each.placement == rules.wish(value) for each in free):
                vgpu.placement = rules.wish(value)
            own.vgpus[key] = vgpu
        self.settle(state, card)


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
