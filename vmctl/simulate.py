"""A machine whose kernel interface and GPU driver are simulated on a folder; nothing else in vmctl knows about it.

The folder is the file-system root and also the whole state, so it survives between short-lived processes. It answers
kernel writes by the rules of the vGPU dossier (its sections are cited below). What is not simulated, /dev/kvm and
some of /proc, is a link to the real thing: machines of a simulated host run on a real QEMU.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn
from uuid import UUID

from vmctl.errors import Code, VmctlError, bad_input
from vmctl.host import Host
from vmctl.layouts import FREE_FUNCTIONS, LAYOUTS, OWN_TYPES, build
from vmctl.model import MediatedDevice, PCIFunction, StandInVideo
from vmctl.simulated_driver import TYPES, Card, Held

LAYOUT_FILE = ".layout"
BOOTED = ".booted"  # the boot of the machine that the state belongs to
UNSETTLED = ".unsettled"  # there while a kernel write is being answered: a process died inside it if it stays


def prepare(root: Path, layout: str) -> None:
    """Make the tree of a simulated machine at `root` unless it is there. Two at once: one makes it, both use it."""
    if layout not in LAYOUTS:
        raise bad_input(f"There is no simulated layout {layout!r}.", f"Choose one of {', '.join(sorted(LAYOUTS))}.")
    if not (root / LAYOUT_FILE).exists():
        try:
            _make(root, layout)
        except OSError as error:
            raise VmctlError(
                Code.FAILED, f"No simulated host can be made at {root}: {error.strerror}.", "Choose another root."
            ) from error
    found = (root / LAYOUT_FILE).read_text() if (root / LAYOUT_FILE).exists() else "something else"
    if found != layout:
        raise bad_input(f"{root} holds {found}, not the layout {layout}.", "Give each simulated host its own root.")


def _make(root: Path, layout: str) -> None:
    root.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{root.name}-", dir=root.parent) as folder:
        draft = Path(folder) / "root"
        build(draft, layout)
        (draft / OWN_TYPES).mkdir(parents=True, exist_ok=True)
        (draft / LAYOUT_FILE).write_text(layout)
        try:
            draft.rename(root)  # whole or not at all; an empty folder gives way
        except OSError:
            pass  # somebody else was faster, or something else lies there: seen by its layout


@dataclass(frozen=True)
class SimulatedHost(Host):
    """A host on such a tree."""

    def __post_init__(self) -> None:
        kernel = _Kernel(self.root.resolve())
        if not kernel.is_settled():
            with kernel.alone():
                pass  # a process died while the kernel was answering, or the machine was booted anew

    @property
    def simulated(self) -> bool:
        return True

    def attachment(self, device: MediatedDevice | PCIFunction) -> StandInVideo:
        """No GPU is behind the share: a plain video device stands in for it, and says so on the screen."""
        return StandInVideo(device.uuid, "simulated vGPU")

    def _store(self, path: Path, value: str) -> None:
        kernel = _Kernel(self.root.resolve())
        with kernel.alone():
            kernel.write(path, value.strip())


@dataclass(frozen=True)
class _Kernel:
    """The simulated kernel and driver: one write at a time, each whole.

    Which vGPUs exist is told by one thing only, the links in /sys/bus/mdev/devices; all else is put right after them.
    """

    root: Path

    @property
    def bus(self) -> Path:
        return self.root / "sys/bus/mdev/devices"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the kernel's lock; first put the tree right if a process died while it held it."""
        with (self.root / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not self.is_settled():
                self.boot()
                self.settle(self.cards())
            yield

    def is_settled(self) -> bool:
        return not (self.root / UNSETTLED).exists() and self._booted() == self._boot_id()

    def boot(self) -> None:
        """mdevs do not survive a reboot (1.1); the VFs are on again, as by the unit that hosts have for it (1.2)."""
        if self._booted() != self._boot_id():
            (self.root / UNSETTLED).touch()
            for name in os.listdir(self.bus):
                (self.bus / name).unlink()
            (self.root / BOOTED).write_text(self._boot_id())

    def _booted(self) -> str:
        file = self.root / BOOTED
        return file.read_text() if file.exists() else ""

    def _boot_id(self) -> str:
        return (self.root / "proc/sys/kernel/random/boot_id").read_text()

    def write(self, path: Path, value: str) -> None:
        if path.name == "create" and path.parents[1].name == TYPES:
            self.create(path.parents[2].resolve(), path.parent.name, value)
        elif path.name == "remove" and (self.bus / path.parent.name).is_symlink():
            self.remove(path.parent.resolve(), value)
        else:
            _refuse(errno.EACCES if path.exists() else errno.ENOENT, path)

    def create(self, parent: Path, kind: str, value: str) -> None:
        """Make an mdev of a type (1.1). Refusals: no uuid EINVAL, taken EEXIST, none left ENOSPC (9, row 11)."""
        where = parent / TYPES / kind
        if not where.is_dir():
            _refuse(errno.ENOENT, where)
        try:
            uuid = str(UUID(value))
        except ValueError:
            _refuse(errno.EINVAL, where)
        if (self.bus / uuid).is_symlink():
            _refuse(errno.EEXIST, where)
        card = Card.of(parent)
        if card.left(self._held(card), parent, kind) == 0:
            _refuse(errno.ENOSPC, where)
        with self._changing(card):
            device = parent / uuid
            device.mkdir()
            (device / "mdev_type").symlink_to(f"../{TYPES}/{kind}")
            (device / "remove").touch(0o200)
            self._join_group(device)
            (self.bus / uuid).symlink_to(os.path.relpath(device, self.bus))  # from here on it exists

    def remove(self, device: Path, value: str) -> None:
        """Take an mdev away (1.1). Nothing but 1 is an order."""
        if value != "1":
            _refuse(errno.EINVAL, device)
        with self._changing(Card.of(device.parent)):
            (self.bus / device.name).unlink()  # from here on it does not exist

    @contextmanager
    def _changing(self, card: Card) -> Iterator[None]:
        (self.root / UNSETTLED).touch()
        yield
        self.settle([card])

    def cards(self) -> list[Card]:
        parents = self.root / "sys/class/mdev_bus"
        found = {card.physical: card for name in os.listdir(parents) for card in [Card.of((parents / name).resolve())]}
        return list(found.values())

    def settle(self, cards: list[Card]) -> None:
        """Make folders, links of types, counters and groups agree with the vGPUs that exist."""
        for card in cards:
            held = self._held(card)
            if card.has_functions:
                self._settle_types(self.root / FREE_FUNCTIONS / card.physical.name, card, held, None)
            for parent in card.parents:
                if card.has_functions:
                    self._settle_function(card, held, parent)
                else:
                    self._settle_types(parent / TYPES, card, held, parent)
                mine = {uuid for uuid, (where, _) in held.items() if where == parent}
                for stale in [name for name in os.listdir(parent) if _is_uuid(name) and name not in mine]:
                    shutil.rmtree(parent / stale)
        self._leave_groups()
        (self.root / UNSETTLED).unlink(missing_ok=True)

    def _settle_function(self, card: Card, held: Held, parent: Path) -> None:
        """A VF with a vGPU shows types of its own, a free one those of all free ones."""
        free = self.root / FREE_FUNCTIONS / card.physical.name
        own = self.root / OWN_TYPES / parent.name
        occupied = any(where == parent for where, _ in held.values())
        draft = own.with_name(f"{own.name}.draft")  # half made or half removed when a process died
        shutil.rmtree(draft, ignore_errors=True)
        if occupied and not own.exists():
            shutil.copytree(free, draft, copy_function=os.link)
            draft.rename(own)
        if occupied:
            self._settle_types(own, card, held, parent)
        self._point(parent / TYPES, own if occupied else free)
        if not occupied and own.exists():
            own.rename(draft)
            shutil.rmtree(draft)

    def _point(self, link: Path, target: Path) -> None:
        text = os.path.relpath(target, link.parent)
        if os.readlink(link) != text:
            draft = self.root / ".draft"
            draft.unlink(missing_ok=True)
            draft.symlink_to(text)
            draft.rename(link)

    def _settle_types(self, folder: Path, card: Card, held: Held, parent: Path | None) -> None:
        """Links and counters of the types that `parent` shows; None: a free VF."""
        for kind in card.types:
            devices = {uuid: where / uuid for uuid, (where, made) in held.items() if (where, made) == (parent, kind)}
            links = folder / kind / "devices"
            for name in set(os.listdir(links)) ^ set(devices):
                if name in devices:
                    (links / name).symlink_to(os.path.relpath(devices[name], links))
                else:
                    (links / name).unlink()
            self._settle_counter(folder / kind / "available_instances", f"{card.left(held, parent, kind)}\n")

    def _settle_counter(self, path: Path, text: str) -> None:
        if path.read_text() == text:
            return
        draft = self.root / ".draft"
        draft.unlink(missing_ok=True)
        draft.write_text(text)
        draft.replace(path)  # a reader sees the old number or the new one

    def _held(self, card: Card) -> Held:
        devices = {name: (self.bus / name).resolve() for name in os.listdir(self.bus)}
        return {
            uuid: (device.parent, os.path.basename(os.readlink(device / "mdev_type")))
            for uuid, device in devices.items()
            if device.parent in card.parents
        }

    def _join_group(self, device: Path) -> None:
        """Every mdev has an IOMMU group of its own (7.2)."""
        groups = self.root / "sys/kernel/iommu_groups"
        number = max((int(name) for name in os.listdir(groups)), default=0) + 1
        members = groups / str(number) / "devices"
        members.mkdir(parents=True)
        (members / device.name).symlink_to(os.path.relpath(device, members))
        (device / "iommu_group").symlink_to(os.path.relpath(groups / str(number), device))

    def _leave_groups(self) -> None:
        groups = self.root / "sys/kernel/iommu_groups"
        for name in os.listdir(groups):
            devices = groups / name / "devices"
            members = os.listdir(devices) if devices.exists() else []
            if all(_is_uuid(member) and not (self.bus / member).is_symlink() for member in members):
                shutil.rmtree(groups / name)


def _is_uuid(name: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", name) is not None


def _refuse(number: int, path: Path) -> NoReturn:
    raise OSError(number, os.strerror(number), str(path))
