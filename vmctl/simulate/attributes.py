"""What each attribute of the simulated kernel does when somebody writes to it (vGPU dossier, 1 and 9)."""

from __future__ import annotations

import errno
from pathlib import Path
from uuid import UUID

from vmctl.simulate import binding, rules, sriov
from vmctl.simulate.drawing import DEVICES
from vmctl.simulate.kernel import Busy, Kernel, refuse
from vmctl.simulate.layouts import Card
from vmctl.simulate.mdevs import BUS, TYPES
from vmctl.simulate.state import VGPU, State


def write(kernel: Kernel, path: Path, value: str) -> None:
    """Answer a write to an attribute. Raises OSError with the kernel's number, Busy where it would sleep."""
    with kernel.alone() as state:
        match path.parts[-4:]:
            case (_, folder, kind, "create") if folder == TYPES:
                _create(kernel, state, path.parents[2].name, kind, value)
            case (*_, uuid, "remove") if _mdev(kernel, state, uuid) is not None:
                _remove(kernel, state, uuid, value)
            case (_, function, "nvidia", "current_vgpu_type") if kernel.exists(function):
                _set_type(kernel, state, function, value)
            case (_, key, "nvidia", "vgpu_params") if path.exists():
                _set_params(kernel, state, key, value)
            case (*_, function, "sriov_numvfs") if path.exists():
                sriov.set_count(kernel, state, function, value)
            case (*_, function, "sriov_drivers_autoprobe") if path.exists():
                sriov.set_autoprobe(kernel, state, function, value)
            case (*_, function, "unbindLock") if path.exists():
                binding.lock(kernel, state, function, value)
            case _ if path.exists():
                _driver_core(kernel, state, path, value)
            case _:
                refuse(errno.ENOENT, path)


def _driver_core(kernel: Kernel, state: State, path: Path, value: str) -> None:
    """The files by which functions change their drivers."""
    match path.parts[-3:]:
        case (*_, function, "driver_override"):
            binding.override(kernel, state, function, value)
        case (function, "driver", "unbind") if value == function:
            binding.unbind(kernel, state, function, None)
        case ("drivers", driver, "unbind"):
            binding.unbind(kernel, state, value, driver)
        case ("drivers", driver, "bind"):
            binding.bind(kernel, state, value, driver)
        case (*_, "drivers_probe"):
            binding.probe(kernel, state, value)
        case _:
            refuse(errno.EACCES, path)


def _mdev(kernel: Kernel, state: State, uuid: str) -> Card | None:
    return next((card for card in kernel.cards if uuid in state.cards[card.address].vgpus), None)


def _create(kernel: Kernel, state: State, parent: str, kind: str, value: str) -> None:
    """Make an mdev of a type (1.1). Refusals: no uuid EINVAL, taken EEXIST, none left ENOSPC (9, row 11)."""
    where = kernel.root / DEVICES / parent / TYPES / kind
    card = kernel.card_of(parent)
    if card is None or not where.is_dir():
        refuse(errno.ENOENT, where)
    try:
        uuid = str(UUID(value))
    except ValueError:
        refuse(errno.EINVAL, where)
    if _mdev(kernel, state, uuid) is not None:
        refuse(errno.EEXIST, where)
    own = state.cards[card.address]
    found = rules.place(card.board, own, card.board.by_id[kind], parent)
    if found is None:
        refuse(errno.ENOSPC, where)
    groups = [int(name) for name in kernel.tree.names("sys/kernel/iommu_groups")]
    own.vgpus[uuid] = VGPU(parent, kind, found.placement, found.instance, max(groups, default=0) + 1)
    kernel.settle(state, card, changed=parent)


def _remove(kernel: Kernel, state: State, uuid: str, value: str) -> None:
    """Take an mdev away (1.1). Nothing but 1 is an order; one that is open lets the writer sleep."""
    card = _mdev(kernel, state, uuid)
    if value != "1" or card is None:
        refuse(errno.EINVAL, kernel.root / BUS / uuid)
    own = state.cards[card.address]
    node = f"dev/vfio/{own.vgpus[uuid].group}"
    if kernel.in_use(node):
        raise Busy(node)
    function = own.vgpus.pop(uuid).function
    own.params.pop(uuid, None)
    kernel.settle(state, card, changed=function)


def _set_type(kernel: Kernel, state: State, function: str, value: str) -> None:
    """Make or take away the vGPU of a VF (1.3): EIO when the driver does not, EBUSY while a machine has it."""
    where = kernel.root / DEVICES / function / "nvidia/current_vgpu_type"
    card = kernel.card_of(function)
    if card is None or not value.isdecimal():
        refuse(errno.EINVAL, where)
    own = state.cards[card.address]
    if kernel.group_in_use(function):
        refuse(errno.EBUSY, where)
    if value == "0":
        own.vgpus.pop(function, None)
        own.params.pop(function, None)
        kernel.settle(state, card, changed=function)
        return
    kind = card.board.by_id.get(f"nvidia-{value}")
    found = rules.place(card.board, own, kind, function) if kind is not None else None
    if kind is None or found is None:
        kernel.log("NVRM: Failed to add vgpu create request: 0x38")
        refuse(errno.EIO, where)
    own.vgpus[function] = VGPU(function, kind.driver_id, found.placement, found.instance)
    kernel.settle(state, card, changed=function)


def _set_params(kernel: Kernel, state: State, key: str, value: str) -> None:
    """Plugin parameters of a VF or a mediated device (4.3).

    One that asks for a place the driver can give moves the vGPU there; an impossible one is taken all the same,
    and only the start of the machine shows it (3.2): the place read back is another one.
    """
    card = kernel.card_of(key) or _mdev(kernel, state, key)
    if card is None:
        refuse(errno.ENODEV, kernel.root / key)
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
    kernel.settle(state, card, changed=vgpu.function if vgpu is not None else key)
