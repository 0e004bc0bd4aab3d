"""Reads plan and facts from the database into the planner's values."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet
from psycopg.types.range import Range

from portal.bookings.errors import Busy
from portal.bookings.models import Placement
from portal.bookings.plan import Card, Fact, Load, Need, Offer, Period, Room, Scene, Tile
from portal.bookings.states import WAITING
from portal.inventory.models import GPU, Flavor, Holding, Host, VGPUType
from portal.machines.models import VirtualMachine

# A GPU that no host has reported for this long is not booked on; a day of repair must not lose it its later bookings
SEEN_WITHIN = timedelta(hours=1)
# A tile about to start stays where it is: its order may be on the way to the host already
SETTLED_BEFORE_START = timedelta(minutes=5)
# Virtual processors share real ones; memory is never shared
VCPUS_PER_CPU = 4


def need_of(flavor: Flavor) -> Need:
    """What a flavor asks the planner for."""
    return Need(flavor.regime, tuple(flavor.vgpu_types), flavor.vcpus, flavor.memory_mib)


@dataclass(frozen=True)
class Stage:
    """What a wish could be booked on, as far as no other booking changes it: read before any lock."""

    cards: tuple[Card, ...]
    facts: tuple[Fact, ...]
    rooms: tuple[tuple[int, Room], ...]
    pools: frozenset[int]


def stage(flavor: Flavor, machine: VirtualMachine | None, *, now: datetime) -> Stage:
    """GPUs that could carry this flavor, busy or not: enabled, seen lately, and reaching the machine's disk."""
    rows = list(_candidates(flavor, machine, now=now).select_related("host").prefetch_related("types"))
    rows.sort(key=lambda gpu: (gpu.host.name, gpu.address))
    hosts = {gpu.host_id: gpu.host for gpu in rows}
    holdings = Holding.objects.filter(gpu__host__in=list(hosts))
    return Stage(
        cards=tuple(_card(gpu) for gpu in rows),
        facts=tuple(_fact(holding) for holding in holdings),
        rooms=tuple((key, _room(host)) for key, host in hosts.items()),
        pools=frozenset(gpu.pool_id for gpu in rows),
    )


def _fact(row: Holding) -> Fact:
    cell, slot = ((span.lower, span.upper) if span is not None else None for span in (row.cell, row.slot))
    return Fact(row.gpu_id, row.kind, row.vgpu, row.size_group, row.handle, row.regime, cell, slot)


def _candidates(flavor: Flavor, machine: VirtualMachine | None, *, now: datetime) -> QuerySet[GPU]:
    gpus = GPU.objects.filter(
        enabled=True, host__enabled=True, seen__gt=now - SEEN_WITHIN, regimes__contains=[flavor.regime]
    )
    if machine is not None and machine.storage_pool_id is not None:
        gpus = gpus.filter(host__storage_pools=machine.storage_pool_id)
    if flavor.regime == "whole":
        return gpus.filter(model__in=flavor.vgpu_types) if flavor.vgpu_types else gpus
    offered = VGPUType.objects.filter(
        gpu=OuterRef("pk"), name__in=flavor.vgpu_types, regime=flavor.regime, seen__gte=OuterRef("seen")
    )
    allowed = Q(offered_types=[]) | Q(offered_types__overlap=flavor.vgpu_types)
    return gpus.filter(allowed, Exists(offered))


def _card(gpu: GPU) -> Card:
    offers = tuple(
        _offer(row)
        for row in gpu.types.all()
        if gpu.seen is not None and row.seen >= gpu.seen and row.name in (gpu.offered_types or [row.name])
    )
    return Card(gpu.pk, gpu.host_id, gpu.model, gpu.iommu_key, gpu.handles or 0, frozenset(gpu.regimes), offers)


def _offer(row: VGPUType) -> Offer:
    cells = tuple((low, high) for low, high in row.cells)
    slot = tuple(row.slots[0]) if row.slots else (0, 1)
    return Offer(row.name, row.regime, row.size_group, cells, row.gi_profile, row.media, (slot[0], slot[1]))


def _room(host: Host) -> Room:
    cpus = host.facts.get("vcpus")
    return Room(None if cpus is None else cpus * VCPUS_PER_CPU, host.facts.get("memory_mib"))


def check_in_use(host_id: int) -> None:
    """Once the locks are held: the stage was read before, and the host may have been removed meanwhile."""
    if not Host.objects.filter(pk=host_id, enabled=True).exists():
        raise Busy("The host of that share has just been taken out of use: try again.")


def on_host(whole: Stage, host: int, model: str) -> Stage:
    """The part of a stage that is on one host, on cards of one model."""
    cards = tuple(card for card in whole.cards if (card.host, card.model) == (host, model))
    return replace(whole, cards=cards, rooms=tuple(room for room in whole.rooms if room[0] == host))


PLANNED = (
    "pk", "gpu", "iommu_group", "regime", "size_group", "cell", "handle", "period", "guard",
    "reservation", "reservation__status", "gpu__host", "reservation__flavor__vcpus", "reservation__flavor__memory_mib",
    "media",
)  # fmt: skip


def fill(empty: Stage, *, since: datetime, until: datetime | None, now: datetime) -> Scene:
    """The scene on a stage between two moments; `until` left out: all that is planned. One query, as locks are held.

    All tiles of the hosts, because processors and memory, and an IOMMU group, reach over the GPUs asked for.
    """
    hosts = [host for host, _ in empty.rooms]
    rows = Placement.objects.filter(held=True, gpu__host__in=hosts, guard__overlap=(since, until))
    planned = [_Planned(*row) for row in rows.values_list(*PLANNED)]
    return Scene(
        cards=empty.cards,
        tiles=tuple(row.tile(now) for row in planned),
        facts=empty.facts,
        loads=tuple({(row.reservation, row.host): row.load() for row in planned}.values()),
        rooms=empty.rooms,
    )


class _Planned(NamedTuple):
    """One row of PLANNED."""

    id: UUID
    gpu: UUID
    iommu: str
    regime: str
    size_group: str
    cell: Range[int]
    handle: int
    period: Range[datetime]
    guard: Range[datetime]
    reservation: UUID
    status: str
    host: int
    vcpus: int
    memory_mib: int
    media: bool

    def spans(self) -> Period:
        """A placement's ranges are never open."""
        start, end, guard = self.period.lower, self.period.upper, self.guard.lower
        if start is None or end is None or guard is None:
            raise ValueError(f"placement {self.id} has no bounds")
        return Period(start, end, guard)

    def tile(self, now: datetime) -> Tile:
        period = self.spans()
        movable = self.status in WAITING and period.start > now + SETTLED_BEFORE_START
        cell = (self.cell.lower, self.cell.upper)
        where = (self.id, self.gpu, self.iommu, self.regime, self.size_group, cell, self.handle)
        return Tile(*where, period, movable, self.media)

    def load(self) -> Load:
        return Load(self.host, self.spans(), self.vcpus, self.memory_mib)
