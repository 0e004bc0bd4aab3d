"""From bookings in force to what one host should look like now. Pure: values in, values and a JSON document out.

The moment `now` is the database's; the host's own clock decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from portal.bookings.states import RUNNING, Status

WHOLE = "whole"
IN_THE_WAY = {
    "quarantine": "An operator has taken the GPU out of use.",
    "foreign": "A vGPU that is not the portal's was found in the way on the GPU; an operator has to look.",
    "overdue": "The share is still being given back by the booking before this one.",
    "misplaced": "A vGPU of another booking is in its place on the GPU; an operator has to look.",
    "stuck": "A vGPU in the way on the GPU does not go; an operator has to look.",
}


@dataclass(frozen=True)
class Tile:
    """A placement that is not given back yet, of any reservation on the host. cell: None is the whole GPU."""

    uuid: UUID
    reservation: UUID
    gpu: UUID
    address: str
    iommu_key: str
    vgpu_type: str
    regime: str
    size_group: str
    cell: tuple[int, int] | None
    handle: int
    start: datetime
    end: datetime
    slot: tuple[int, int] = (0, 1)
    media: bool = False
    alternatives: tuple[Tile, ...] = ()  # where else the share may be made if the GPU refuses it


@dataclass(frozen=True)
class Fact:
    """A holding: what was observed on a GPU beside the plan. vgpu, handle: None where it is about the whole GPU.

    cell: None for an equal share, and for what is of no size: a domain that only names a handle.
    """

    gpu: UUID
    vgpu: UUID | None
    kind: str
    size_group: str
    handle: int | None
    regime: str = ""
    cell: tuple[int, int] | None = None
    slot: tuple[int, int] | None = None


@dataclass(frozen=True)
class Seed:
    """What the guest is told about itself."""

    owner: str
    user: str
    password_hash: str
    ssh_keys: tuple[str, ...]
    period: str
    licence: int | None = None  # FeatureType of NVIDIA's guest driver; None: the image asks for no licence


@dataclass(frozen=True)
class Lease:
    """One reservation that has something to do with the host now, with all that a machine is built from."""

    reservation: UUID
    machine: UUID
    owner: int
    status: Status
    start: datetime
    end: datetime
    force_at: datetime | None
    ordered_stop: bool  # a person ended or shortened it: the stop may come before the end the host was told
    was_up: bool  # its machine ran at least once
    disposable: bool
    hostname: str
    vcpus: int
    memory_mib: int
    disk_gib: int
    image: str
    grace: timedelta
    seed: Seed
    firmware: str = "bios"
    tpm: bool = False
    tiles: tuple[Tile, ...] = field(default=())


@dataclass(frozen=True)
class Call:
    """The envelope of a desired state: who asks whom, and how things are to be stopped."""

    portal: UUID
    host: str
    generation: int
    grace: timedelta
    allowance: timedelta
    confirmed: frozenset[UUID] = frozenset()
    purge: frozenset[UUID] = frozenset()
    cards: tuple[Mapping[str, Any], ...] = ()  # how each GPU should be set, as it stands in the document


def waits_for(lease: Lease, leases: Iterable[Lease], facts: Iterable[Fact]) -> str:
    """Why a booked machine cannot be started yet, as a sentence; "" when it can.

    leases: the others on the host, of which some may not have given back yet; facts: what was observed beside the plan.
    """
    for other in leases:
        if other.reservation == lease.reservation or other.status not in RUNNING:
            continue
        if other.machine == lease.machine:
            return "The machine is still being shut down from its last booking."
        if any(conflict(mine, theirs) for mine in lease.tiles for theirs in other.tiles):
            return "The share is still being given back by the booking before this one."
    for fact in facts:
        if any(in_the_way(fact, tile) for tile in lease.tiles):
            return IN_THE_WAY.get(fact.kind, "Something else was found on the GPU; an operator has to look.")
    return ""


def in_the_way(fact: Fact, tile: Tile) -> bool:
    """Does what was observed keep this tile from being used? Its own vGPU does not: it is taken over as it is."""
    if fact.gpu != tile.gpu or fact.vgpu == tile.uuid:
        return False
    if fact.kind == "quarantine" or tile.regime == WHOLE:
        return True
    if fact.handle == tile.handle:
        return True
    if not fact.size_group and fact.cell is None:
        return False
    if fact.regime not in ("", tile.regime):
        return True
    if tile.regime == "equal":
        return fact.size_group != tile.size_group
    return _overlap(fact.cell, tile.cell) and not _beside(fact, tile)


def _beside(fact: Fact, tile: Tile) -> bool:
    """In the same GPU instance, each in a slot of its own."""
    same = (fact.cell, fact.size_group) == (tile.cell, tile.size_group)
    return same and fact.slot is not None and not _overlap(fact.slot, tile.slot)


def conflict(one: Tile, other: Tile) -> bool:
    """Could the two not exist at the same moment? The same rules as the exclusion constraints, without the periods."""
    if WHOLE in (one.regime, other.regime) and one.iommu_key == other.iommu_key:
        return True
    if one.gpu != other.gpu:
        return False
    if one.regime != other.regime or (one.regime == "equal" and one.size_group != other.size_group):
        return True
    return one.handle == other.handle or _overlap(one.cell, other.cell)


def _overlap(one: tuple[int, int] | None, other: tuple[int, int] | None) -> bool:
    if one is None or other is None:
        return True
    return one[0] < other[1] and other[0] < one[1]


def promised(lease: Lease, tiles: Iterable[Tile]) -> datetime | None:
    """When the earliest later booking gets a share that cannot exist beside this one; None: nobody waits for it."""
    later = (
        tile.start
        for tile in tiles
        if tile.reservation != lease.reservation
        and tile.start >= lease.end
        and any(conflict(tile, mine) for mine in lease.tiles)
    )
    return min(later, default=None)


def document(call: Call, leases: Sequence[Lease], tiles: Sequence[Tile], now: datetime) -> dict[str, Any]:
    """The desired state of docs/schemas/desired.schema.json. Booked leases that wait are left out by the caller."""
    ordered = frozenset(lease.machine for lease in leases if lease.ordered_stop and not is_wanted(lease, now))
    gone = frozenset(lease.machine for lease in leases if lease.disposable and not is_wanted(lease, now))
    return {
        "schema": 1,
        "portal": str(call.portal),
        "host": call.host,
        "generation": call.generation,
        "stop_grace_seconds": _seconds(call.grace),
        "expire_allowance_seconds": _seconds(call.allowance),
        "confirmed_stops": _sorted(ordered | call.confirmed),
        "purge": _sorted(gone | call.purge),
        "machines": [_machine(lease, promised(lease, tiles), now) for lease in leases],
        "cards": [dict(card) for card in call.cards],
    }


def is_wanted(lease: Lease, now: datetime) -> bool:
    """Should the machine run (again, if it shut itself down)? A clock set back behind the start stops nobody."""
    return lease.status in (Status.STARTING, Status.ACTIVE) and now < lease.end


def used(leases: Iterable[Lease], now: datetime) -> dict[UUID, str]:
    """The regime of every GPU that should bear a share now."""
    return {tile.gpu: tile.regime for lease in leases if is_wanted(lease, now) for tile in lease.tiles}


def _machine(lease: Lease, promise: datetime | None, now: datetime) -> dict[str, Any]:
    seed = lease.seed
    return {
        "machine": str(lease.machine),
        "reservation": str(lease.reservation),
        "order": "run" if is_wanted(lease, now) else "stop",
        "start": lease.start.isoformat(),
        "end": lease.end.isoformat(),
        "promised": promise.isoformat() if promise else None,
        "force_at": lease.force_at.isoformat() if lease.force_at else None,
        "hostname": lease.hostname,
        "vcpus": lease.vcpus,
        "memory_mib": lease.memory_mib,
        "disk_gib": lease.disk_gib,
        "image": lease.image,
        "vgpus": [_vgpu(tile) for tile in lease.tiles],
        "seed": {
            "owner": seed.owner,
            "user": seed.user,
            "password_hash": seed.password_hash,
            "ssh_keys": list(seed.ssh_keys),
            "period": seed.period,
            "vgpu": ", ".join(tile.vgpu_type for tile in lease.tiles),
            "licence": seed.licence,
        },
        "firmware": lease.firmware,
        "tpm": lease.tpm,
    }


def _vgpu(tile: Tile) -> dict[str, Any]:
    return {
        "uuid": str(tile.uuid),
        "gpu": tile.address,
        "type": tile.vgpu_type,
        "regime": tile.regime,
        "cell": list(tile.cell) if tile.cell else None,
        "handle": tile.handle,
        "slot": list(tile.slot),
        "alternatives": [_place(other) for other in tile.alternatives],
    }


def _place(tile: Tile) -> dict[str, Any]:
    cell = list(tile.cell) if tile.cell else None
    return {"gpu": tile.address, "cell": cell, "slot": list(tile.slot), "handle": tile.handle}


def _seconds(span: timedelta) -> int:
    return int(span.total_seconds())


def _sorted(machines: Iterable[UUID]) -> list[str]:
    return sorted(str(machine) for machine in machines)
