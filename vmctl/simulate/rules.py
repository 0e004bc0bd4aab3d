"""What the simulated GPU driver allows: which vGPUs may stand beside which on a GPU (vGPU dossier, 1 and 3). Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from vmctl.simulate.kinds import Board, Kind, Profile
from vmctl.simulate.state import CardState, Instance

MOST_VGPUS = 32  # on a GPU without MIG (3.1)
MOST_BACKED = 48
APERTURE = 512  # GVT-g: MiB of low graphics memory for all vGPUs, less than the counters promise (1.6)


@dataclass(frozen=True)
class Place:
    """Where one more vGPU goes: a start in units of the region, or a GPU instance."""

    placement: int | None = None
    instance: int | None = None


def places(board: Board, card: CardState, kind: Kind) -> list[Place]:
    """Every place where one more of a type goes now, the one that the driver takes first."""
    if card.mig:
        return _in_instances(board, card, kind) if kind.profile else []
    if kind.profile or len(card.vgpus) >= MOST_VGPUS:
        return []
    return _mixed(board, card, kind) if card.mixed else _equal(board, card, kind)


def _equal(board: Board, card: CardState, kind: Kind) -> list[Place]:
    """All vGPUs of one GPU have one frame buffer size, of any series; the first decides, the last one gone frees it."""
    held = [board.by_id[vgpu.kind].mib for vgpu in card.vgpus.values()]
    if any(mib != kind.mib for mib in held):
        return []
    taken = {vgpu.placement for vgpu in card.vgpus.values()}
    size = _units(board, kind)
    return [Place(number * size) for number in range(kind.most) if number * size not in taken]


def _units(board: Board, kind: Kind) -> int:
    return board.places(kind)[0] if board.region else max(kind.size, 1)


def _mixed(board: Board, card: CardState, kind: Kind) -> list[Place]:
    """Several sizes at fixed starts, none over another (3.2)."""
    taken = {unit for start, size in _ranges(board, card) for unit in range(start, start + size)}
    size, starts = board.places(kind)
    return [Place(start) for start in starts if taken.isdisjoint(range(start, start + size))]


def _ranges(board: Board, card: CardState) -> Iterator[tuple[int, int]]:
    for vgpu in card.vgpus.values():
        yield vgpu.placement or 0, board.places(board.by_id[vgpu.kind])[0]


def _in_instances(board: Board, card: CardState, kind: Kind) -> list[Place]:
    """One vGPU fills a GPU instance of exactly its profile; on some cards several of one size share it (3.1)."""
    if len(card.vgpus) >= MOST_BACKED:
        return []
    found = []
    for number, instance in sorted(card.instances.items(), key=lambda each: int(each[0])):
        if instance.profile != kind.profile:
            continue
        inside = [vgpu for vgpu in card.vgpus.values() if vgpu.instance == int(number)]
        if all(board.by_id[vgpu.kind].mib == kind.mib for vgpu in inside):
            taken = {vgpu.placement for vgpu in inside}
            free = (slot * kind.size for slot in range(kind.per_instance))
            found += [Place(start, int(number)) for start in free if start not in taken]
    return found


def counter(board: Board, card: CardState, kind: Kind, function: str | None) -> int:
    """What available_instances says on a function; None: on a VF without a vGPU.

    A VF holds one at most, whatever the GPU still has (1.2). GVT-g counts each type by itself, and may promise too
    much.
    """
    if board.framework == "gvtg":
        return kind.most - Counter(vgpu.kind for vgpu in card.vgpus.values())[kind.driver_id]
    left = len(places(board, card, kind))
    if not board.vfs:
        return left
    return 0 if any(vgpu.function == function for vgpu in card.vgpus.values()) else min(left, 1)


def place(board: Board, card: CardState, kind: Kind, function: str) -> Place | None:
    """Where the driver puts one more on a function, None when it has no room."""
    if board.framework == "gvtg":
        used = sum(board.by_id[vgpu.kind].mib for vgpu in card.vgpus.values())
        return Place() if used + kind.mib <= APERTURE else None
    if counter(board, card, kind, function) == 0:
        return None
    free = places(board, card, kind)
    return next((each for each in free if each.placement == wish(card.params.get(function, ""))), free[0])


def wish(params: str) -> int | None:
    """The start that the plugin parameters ask for (3.2)."""
    for part in params.split(","):
        key, _, value = part.strip().partition("=")
        if key == "vgpu-placement-id" and value.isdecimal():
            return int(value)
    return None


# MIG ----------------------------------------------------------------------------------------------


def starts(board: Board, card: CardState, profile: Profile) -> list[int]:
    """Where a GPU instance of a profile may start now (3.3)."""
    held = [(board.profile(each.profile), each) for each in card.instances.values()]
    if sum(other.compute for other, _ in held) + profile.compute > max(each.compute for each in board.profiles):
        return []
    if profile.media and any(other.media for other, _ in held):
        return []
    taken = {unit for other, each in held for unit in range(each.start, each.start + other.size)}
    return [start for start in profile.starts if taken.isdisjoint(range(start, start + profile.size))]


def total(board: Board, profile: Profile) -> int:
    """How many of a profile an empty GPU takes."""
    return 1 if profile.media else len(profile.starts)


def remaining(board: Board, card: CardState, profile: Profile) -> int:
    """How many more of a profile the GPU takes now."""
    most = max(each.compute for each in board.profiles)
    used = sum(board.profile(each.profile).compute for each in card.instances.values())
    fit = min(len(starts(board, card, profile)), (most - used) // profile.compute)
    return min(fit, total(board, profile))


def choose(board: Board, card: CardState, profile: Profile) -> int | None:
    """The driver's own start: the one that leaves most starts for others, the lowest of these.

    So 1g goes to 6, 3g to 4 and 2g to 4, then 0, as captured drivers do.
    """
    free = starts(board, card, profile)
    return max(free, key=lambda start: (_left(board, card, profile, start), -start), default=None)


def _left(board: Board, card: CardState, profile: Profile, start: int) -> int:
    after = CardState(instances={**card.instances, "new": Instance(profile.name, start)})
    return sum(len(starts(board, after, each)) for each in board.profiles)


def instance_id(board: Board, profile: Profile, start: int) -> int:
    """The driver numbers GPU instances by their place: 7g 0, halves 1 and 2, quarters 3 to 6, eighths from 7 on."""
    whole = max(each.size for each in board.profiles)
    parts = max(whole // profile.size, 1)
    first = {1: 0, 2: 1, 4: 3, 8: 7}.get(parts, 7)
    return first + start // profile.size
