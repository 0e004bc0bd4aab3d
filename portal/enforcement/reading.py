"""From tables to the values that `desired` and `verdict` decide on. Reads only."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from portal.bookings import rules, scene
from portal.bookings.models import Placement, Reservation
from portal.bookings.plan import Period, Scene
from portal.bookings.states import HOLDING, RUNNING, Status
from portal.enforcement.desired import Fact, Lease, Seed, Tile
from portal.enforcement.models import HostState
from portal.inventory import card_settings
from portal.inventory.models import GPU, Holding, Host
from portal.machines.models import VirtualMachine


def hosts_to_watch(now: datetime) -> list[int]:
    """Hosts in use, and those out of use where something is booked or runs, or a disk is to go."""
    booked = Placement.objects.filter(held=True, reservation__status__in=sorted(HOLDING)).values("gpu__host")
    needed = Q(enabled=True) | Q(pk__in=booked) | Q(pk__in=_to_purge(now).values("host"))
    return list(Host.objects.filter(needed, removed=None).order_by("pk").values_list("pk", flat=True))


def tiles(host: Host) -> list[Tile]:
    """All placements on the host that are not given back, of any reservation that holds."""
    placements = Placement.objects.filter(held=True, gpu__host=host, reservation__status__in=sorted(HOLDING))
    return [_tile(placement) for placement in placements.select_related("gpu").order_by("period", "pk")]


def _tile(placement: Placement) -> Tile:
    whole = placement.regime == "whole"
    return Tile(
        uuid=placement.pk,
        reservation=placement.reservation_id,
        gpu=placement.gpu_id,
        address=placement.gpu.address,
        iommu_key=placement.iommu_group,
        vgpu_type=placement.vgpu_type,
        regime=placement.regime,
        size_group=placement.size_group,
        cell=None if whole else (placement.cell.lower, placement.cell.upper),
        handle=placement.handle,
        slot=(placement.slot.lower, placement.slot.upper),
        media=placement.media,
        start=placement.period.lower,
        end=placement.period.upper,
    )


def due(host: Host, now: datetime) -> list[Reservation]:
    """Reservations on the host whose time has come or whose machine may exist; oldest first.

    Locked until the transaction ends: whoever extends a booking or moves its tile at the very tick waits, or is seen
    by whoever reads tiles after this.
    """
    here = Placement.objects.filter(held=True, gpu__host=host).values("reservation")
    wanted = Q(status__in=sorted(RUNNING)) | Q(status=Status.BOOKED, start__lte=now)
    found = Reservation.objects.filter(wanted, pk__in=here).select_related("machine", "owner", "flavor", "image")
    return list(found.order_by("start", "pk").select_for_update(of=("self",)))


def lease(reservation: Reservation, held: list[Tile]) -> Lease:
    """Everything a decision or a machine needs to know of one reservation."""
    machine, flavor, image = reservation.machine, reservation.flavor, reservation.image
    shortened = reservation.confirmed_end is not None and reservation.end < reservation.confirmed_end
    return Lease(
        reservation=reservation.pk,
        machine=machine.pk,
        owner=reservation.owner_id,
        status=Status(reservation.status),
        start=reservation.start,
        end=reservation.end,
        force_at=reservation.force_at,
        ordered_stop=reservation.ended_by_person or shortened,
        was_up=reservation.confirmed_end is not None,
        disposable=reservation.disposable,
        hostname=machine.hostname,
        vcpus=flavor.vcpus,
        memory_mib=flavor.memory_mib,
        disk_gib=max(flavor.disk_gib, image.min_disk_gib),
        image=image.file,
        firmware=image.firmware,
        tpm=image.tpm,
        grace=rules.stop_grace(image),
        seed=_seed(reservation),
        tiles=tuple(tile for tile in held if tile.reservation == reservation.pk),
    )


def _seed(reservation: Reservation) -> Seed:
    owner = reservation.owner
    start, end = reservation.start.astimezone(owner.zone), reservation.end.astimezone(owner.zone)
    day = "" if start.date() == end.date() else f"{end:%Y-%m-%d} "
    return Seed(
        owner=owner.get_username(),
        user=reservation.image.user,
        password_hash=reservation.password_hash,
        ssh_keys=tuple(line.strip() for line in owner.ssh_keys.splitlines() if line.strip()),
        period=f"{start:%Y-%m-%d %H:%M}-{day}{end:%H:%M} {end:%Z}",
        licence=reservation.image.licence,
    )


def around(reservation: Reservation, tile: Tile, now: datetime) -> tuple[Scene, Period]:
    """What is planned and seen on the cards of the tile's model on its host, and the period that a place must be free
    for: the whole of the tile's, so that the plan can follow."""
    period = Period(tile.start, tile.end, tile.start - rules.policy().regime_change)
    stage = scene.stage(reservation.flavor, reservation.machine, now=now)
    gpu = GPU.objects.get(pk=tile.gpu)
    here = scene.on_host(stage, gpu.host_id, gpu.model)
    return scene.fill(here, since=period.guard, until=period.end, now=now), period


def facts(host: Host) -> list[Fact]:
    """What was observed on the host's GPUs beside the plan."""
    return [_fact(row) for row in Holding.objects.filter(gpu__host=host)]


def _fact(row: Holding) -> Fact:
    cell, slot = ((span.lower, span.upper) if span is not None else None for span in (row.cell, row.slot))
    return Fact(row.gpu_id, row.vgpu, row.kind, row.size_group, row.handle, row.regime, cell, slot)


def cards(host: Host, used: Mapping[UUID, str]) -> tuple[dict[str, Any], ...]:
    """How the host's cards in service should be set; one that is not there any more is left out.

    used: the regime of the shares that should be on a GPU now.
    """
    rows = list(host.gpus.filter(enabled=True, seen__isnull=False).order_by("address"))
    latest = max((gpu.seen for gpu in rows if gpu.seen), default=None)
    return tuple(card_settings.wish(gpu, used.get(gpu.pk, "")) for gpu in rows if gpu.seen == latest)


def disks_to_purge(host: Host, now: datetime) -> frozenset[UUID]:
    """Machines whose disk on this host is to go: deleted ones, and those past their retention that are not booked."""
    return frozenset(_to_purge(now).filter(host=host).values_list("pk", flat=True))


def _to_purge(now: datetime) -> QuerySet[VirtualMachine]:
    over = Q(deleted__isnull=False) | Q(retain_until__lte=now)
    wanted = Reservation.objects.filter(status__in=sorted(HOLDING)).values("machine")
    return VirtualMachine.objects.filter(over, disk_mib__isnull=False).exclude(pk__in=wanted)


def in_the_way(host: Host, *, lost: bool = False) -> list[str]:
    """What keeps a host from being removed, a line each: bookings and machines, and disks that are to go first.

    lost: nobody waits for the disks of deleted machines, as the host will never answer again.
    """
    here = Placement.objects.filter(held=True, gpu__host=host).values("reservation")
    live = Reservation.objects.filter(status__in=sorted(HOLDING)).filter(Q(pk__in=here) | Q(machine__host=host))
    lines = [
        f"booking of {one.machine.hostname} by {one.owner}, {one.status}, from {one.start:%Y-%m-%d %H:%M} UTC"
        for one in live.select_related("machine", "owner").order_by("start", "pk")
    ]
    for machine in machines_on(host).select_related("owner"):
        if machine.deleted is None:
            lines.append(f"machine {machine.hostname} of {machine.owner}")
        elif not lost:
            lines.append(f"disk of the deleted machine {machine.hostname} of {machine.owner}")
    return lines


def machines_on(host: Host) -> QuerySet[VirtualMachine]:
    """Machines that have, or may still get, a disk on this host."""
    there = Q(deleted=None) | Q(disk_mib__isnull=False)
    return VirtualMachine.objects.filter(there, host=host).order_by("created")


def skips(host: Host) -> int:
    """How many passes in a row found the host busy."""
    return HostState.objects.filter(host=host).values_list("skipped", flat=True).first() or 0
