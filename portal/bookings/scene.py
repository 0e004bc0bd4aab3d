"""Reads plan and facts from the database into the planner's values."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, QuerySet
from django.db.models.functions import Lower, Upper

from portal.bookings.models import Placement, Reservation
from portal.bookings.plan import Card, Fact, Load, Need, Offer, Period, Room, Scene, Tile
from portal.bookings.states import WAITING
from portal.inventory.models import GPU, Flavor, Holding, Host
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


def candidates(flavor: Flavor, machine: VirtualMachine | None, *, now: datetime) -> QuerySet[GPU]:
    """GPUs that could carry this flavor, busy or not: enabled, seen lately, and reaching the machine's disk."""
    gpus = GPU.objects.filter(
        enabled=True, host__enabled=True, seen__gt=now - SEEN_WITHIN, regimes__contains=[flavor.regime]
    )
    if machine is not None and machine.storage_pool_id is not None:
        gpus = gpus.filter(host__storage_pools=machine.storage_pool_id)
    if flavor.regime != "whole":
        return gpus.filter(
            types__name__in=flavor.vgpu_types, types__regime=flavor.regime, types__seen__gte=F("seen")
        ).distinct()
    return gpus.filter(model__in=flavor.vgpu_types) if flavor.vgpu_types else gpus


def load(gpus: QuerySet[GPU], *, since: datetime, until: datetime | None, now: datetime) -> Scene:
    """The scene around these GPUs between two moments; `until` left out: all that is planned."""
    rows = list(gpus.select_related("host").prefetch_related("types").order_by("host__name", "address"))
    hosts = {gpu.host_id: gpu.host for gpu in rows}
    return Scene(
        cards=tuple(_card(gpu) for gpu in rows),
        tiles=tuple(_tiles(list(hosts), since, until, now)),
        facts=tuple(
            Fact(h.gpu_id, h.kind, h.vgpu, h.size_group, h.handle)
            for h in Holding.objects.filter(gpu__host__in=list(hosts))
        ),
        loads=tuple(_loads(list(hosts), since, until)),
        rooms=tuple((key, _room(host)) for key, host in hosts.items()),
    )


def _card(gpu: GPU) -> Card:
    offers = tuple(
        Offer(row.name, row.regime, row.size_group, tuple((low, high) for low, high in row.cells))
        for row in gpu.types.all()
        if gpu.seen is not None and row.seen >= gpu.seen
    )
    return Card(gpu.pk, gpu.host_id, gpu.model, gpu.iommu_key, gpu.handles, frozenset(gpu.regimes), offers)


def _room(host: Host) -> Room:
    cpus = host.facts.get("vcpus")
    return Room(None if cpus is None else cpus * VCPUS_PER_CPU, host.facts.get("memory_mib"))


def _tiles(hosts: Sequence[int], since: datetime, until: datetime | None, now: datetime) -> list[Tile]:
    """All tiles of the hosts, because an IOMMU group reaches over the GPUs asked for."""
    rows = Placement.objects.filter(held=True, gpu__host__in=hosts, guard__overlap=(since, until))
    return [
        Tile(
            row.pk,
            row.gpu_id,
            row.iommu_group,
            row.regime,
            row.size_group,
            (row.cell.lower, row.cell.upper),
            row.handle,
            Period(row.period.lower, row.period.upper, row.guard.lower),
            movable=row.reservation.status in WAITING and row.period.lower > now + SETTLED_BEFORE_START,
        )
        for row in rows.select_related("reservation")
    ]


def _loads(hosts: Sequence[int], since: datetime, until: datetime | None) -> list[Load]:
    """What reservations take of the hosts, as their flavor says."""
    rows: QuerySet[Reservation, dict[str, Any]] = (
        Reservation.objects.holding()
        .filter(placements__held=True, placements__gpu__host__in=hosts, placements__period__overlap=(since, until))
        .annotate(low=Lower("placements__period"), high=Upper("placements__period"), host=F("placements__gpu__host"))
        .distinct()
        .values("pk", "host", "low", "high", "flavor__vcpus", "flavor__memory_mib")
    )
    return [
        Load(row["host"], Period(row["low"], row["high"], row["low"]), row["flavor__vcpus"], row["flavor__memory_mib"])
        for row in rows
    ]
