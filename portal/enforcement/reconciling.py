"""One pass over a host, in two transactions: what it should look like before the call, what its answer means after it.

Nothing is written here directly: moves, holdings, machines and host states each have their own app's actions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.urls import reverse

from portal import nudge
from portal.bookings import actions as bookings
from portal.bookings.models import Reservation
from portal.bookings.plan import EVERYTHING
from portal.bookings.states import Status
from portal.enforcement import actions, desired, elsewhere, locks, reading, signals, verdict
from portal.enforcement.actions import Turn
from portal.enforcement.desired import Fact, Lease, Tile
from portal.enforcement.report import Report
from portal.enforcement.verdict import Verdict
from portal.inventory import actions as inventory
from portal.inventory.models import Host
from portal.machines import actions as machines
from portal.machines.models import MachineState, VirtualMachine
from portal.notices import actions as notices
from portal.notices.models import Level


@dataclass(frozen=True)
class Question:
    """What is sent to a host, and the leases it was made from."""

    asked: datetime
    leases: tuple[Lease, ...]
    document: Mapping[str, Any]


@transaction.atomic
def miss_overdue(now: datetime) -> None:
    """Bookings whose whole period went by without a start, wherever they are: also on a host that is away."""
    overdue = Reservation.objects.filter(status=Status.BOOKED, end__lte=now).select_related("owner", "machine")
    for reservation in overdue.select_for_update(of=("self",), skip_locked=True):
        _miss(reservation, now)


def _miss(reservation: Reservation, now: datetime) -> None:
    if bookings.move(reservation, Status(reservation.status), Status.MISSED, now=now):
        why = reservation.reason or "Its host could not be reached."
        text = f"{reservation.machine.hostname} could not be started during its booking. {why}"
        notices.tell(reservation.owner, text, now=now, url=_page(reservation), level=Level.ERROR)


def _page(reservation: Reservation) -> str:
    return reverse("bookings:reservation", args=[reservation.pk])


@transaction.atomic
def prepare(turn: Turn, *, now: datetime) -> Question:
    """Move what the clock moves, decide who may start, and write the desired state down."""
    state = actions.fence(turn)
    reservations = [one for one in reading.due(turn.host, now) if not _over(one, now)]
    held = reading.tiles(turn.host)
    leases = [_stopped_at_its_end(one, held, now) for one in reservations]
    leases = _started(turn.host, reservations, leases, now)
    leases = _with_alternatives(turn.host, reservations, leases, now)
    call = desired.Call(
        portal=UUID(settings.PORTAL_ID),
        host=turn.host.name,
        generation=turn.generation,
        grace=timedelta(seconds=settings.STOP_GRACE_SECONDS),
        allowance=timedelta(seconds=settings.EXPIRE_ALLOWANCE_SECONDS),
        confirmed=frozenset(UUID(machine) for machine in state.confirmed),
        purge=reading.disks_to_purge(turn.host, now),
        cards=reading.cards(turn.host, desired.used(leases, now)),
    )
    if any(lease.status == Status.ENDING for lease in leases):
        nudge.recheck(nudge.consoles_on_host(turn.host.pk))
    return Question(now, tuple(leases), desired.document(call, leases, held, now))


def _over(reservation: Reservation, now: datetime) -> bool:
    """Booked, and its end is past: missed, without asking the host."""
    if reservation.status != Status.BOOKED or reservation.end > now:
        return False
    _miss(reservation, now)
    return True


def _stopped_at_its_end(reservation: Reservation, held: list[Tile], now: datetime) -> Lease:
    """The lease as it stands once its end has been heeded: from then on the machine is asked to shut down."""
    lease = reading.lease(reservation, held)
    if lease.status not in (Status.STARTING, Status.ACTIVE) or now < lease.end:
        return lease
    force_at = now + lease.grace
    bookings.move(reservation, lease.status, Status.ENDING, now=now, stop_asked=now, force_at=force_at)
    return replace(lease, status=Status.ENDING, force_at=force_at)


def _started(host: Host, reservations: Sequence[Reservation], leases: list[Lease], now: datetime) -> list[Lease]:
    """The leases that go to the host: booked ones become `starting`, or wait with a reason and are left out."""
    facts = reading.facts(host)
    going = [lease for lease in leases if lease.status != Status.BOOKED]
    for reservation, lease in zip(reservations, leases, strict=True):
        if lease.status != Status.BOOKED:
            continue
        why = desired.waits_for(lease, going, facts)
        if why:
            bookings.note(reservation, reason=why)
        elif bookings.move(reservation, Status.BOOKED, Status.STARTING, now=now, reason=""):
            machines.observed(lease.machine, state=MachineState.STARTING, now=now)
            going.append(replace(lease, status=Status.STARTING))
    return going


def _with_alternatives(
    host: Host, reservations: Sequence[Reservation], leases: Sequence[Lease], now: datetime
) -> list[Lease]:
    """The leases, of which those that are being started may go elsewhere when their GPU refuses them."""
    facts = reading.facts(host)
    addresses = dict(host.gpus.values_list("pk", "address"))
    asked = {reservation.pk: reservation for reservation in reservations}
    taken = [tile for lease in leases for tile in lease.tiles]
    found = []
    for lease in leases:
        tiles = lease.tiles
        if lease.status == Status.STARTING:
            tiles = tuple(_with_others(tile, asked[lease.reservation], taken, facts, addresses, now) for tile in tiles)
            taken += [place for tile in tiles for place in tile.alternatives]
        found.append(replace(lease, tiles=tiles))
    return found


def _with_others(
    tile: Tile,
    reservation: Reservation,
    taken: Sequence[Tile],
    facts: Sequence[Fact],
    addresses: Mapping[UUID, str],
    now: datetime,
) -> Tile:
    scene, period = reading.around(reservation, tile, now)
    return replace(tile, alternatives=elsewhere.alternatives(tile, scene, period, taken, facts, addresses))


@transaction.atomic
def record(turn: Turn, question: Question, document: Mapping[str, Any], report: Report, *, now: datetime) -> None:
    """Write down what the host answered. Superseded when somebody newer has talked to it: then nothing is written."""
    actions.fence(turn)
    leases = _where_they_are(question.leases, report, now)
    verdicts = verdict.judge(report, leases)
    touched = [one for one in verdicts if _record_lease(one, now)]
    _record_machines(turn.host, report, now)
    _record_gpus(turn.host, report, leases, now)
    inventory.record_capacity(turn.host, document.get("capacity", {}), now=now)
    drift = verdict.drift(report, question.asked, now)
    actions.record_answer(turn, document, report, drift_seconds=drift, now=now)
    _tell(turn.host, touched)


def _where_they_are(leases: Sequence[Lease], report: Report, now: datetime) -> list[Lease]:
    """The leases with their tiles where the host has made their shares, as far as the plan could follow."""
    places = {}
    for tile, place in elsewhere.moved(leases, report.vgpus):
        where: dict[str, Any] = {"cell": place.cell or EVERYTHING, "slot": place.slot, "handle": place.handle}
        if bookings.relocate(tile.uuid, gpu=place.gpu, **where, now=now):
            places[tile.uuid] = place
        locks.limit_transaction()  # not what is left of that write's own deadline
    return [replace(lease, tiles=tuple(places.get(tile.uuid, tile) for tile in lease.tiles)) for lease in leases]


def _record_lease(seen: Verdict, now: datetime) -> bool:
    """Move one reservation by what was seen of it. True: pages that show it are out of date."""
    lease = seen.lease
    reservation = Reservation.objects.select_related("owner", "machine").get(pk=lease.reservation)
    if reservation.status == Status.STARTING and seen.up:
        return _record_start(reservation, seen, now)
    if reservation.status == Status.ENDING and lease.status == Status.ENDING and seen.gone:
        return _record_end(reservation, lease, now)
    if reservation.status == Status.ACTIVE and seen.up:
        return bookings.note(reservation, reason="", confirmed_end=seen.confirmed_end)
    return bool(seen.error) and bookings.note(reservation, reason=seen.error)


def _record_start(reservation: Reservation, seen: Verdict, now: datetime) -> bool:
    confirmed = seen.confirmed_end or reservation.end
    if not bookings.move(reservation, Status.STARTING, Status.ACTIVE, now=now, reason="", confirmed_end=confirmed):
        return False
    notices.tell(reservation.owner, f"{reservation.machine.hostname} is running.", now=now, url=_page(reservation))
    return True


def _record_end(reservation: Reservation, lease: Lease, now: datetime) -> bool:
    """The machine is off and its share verified free: only now somebody else can have it."""
    if not lease.was_up and not reservation.ended_by_person:
        _miss(reservation, now)
    elif bookings.release(reservation, now):
        notices.tell(reservation.owner, f"{reservation.machine.hostname} has ended.", now=now, url=_page(reservation))
    return True


def _record_machines(host: Host, report: Report, now: datetime) -> None:
    """State, disk, screen and licence of every machine that lives on this host."""
    seen = {machine.machine: machine for machine in report.machines}
    disks = {disk.machine: disk for disk in report.disks}
    licences = {vgpu.machine: vgpu.licence for vgpu in report.vgpus if vgpu.licence}
    for machine in VirtualMachine.objects.filter(host=host):
        found, disk = seen.get(machine.pk), disks.get(machine.pk)
        if machine.disk_mib is not None and disk is None and report.complete:
            machines.disk_gone(machine.pk, now=now)
        elif machine.deleted is None or disk is not None or found is not None:
            machines.observed(
                machine.pk,
                state=MachineState(verdict.machine_state(report, found)),
                disk_mib=disk.mib if disk else None,
                disk_missing=disk is not None and not disk.present,
                screen=found.screen if found else "",
                licence=licences.get(machine.pk, ""),
                now=now,
            )


def _record_gpus(host: Host, report: Report, leases: Sequence[Lease], now: datetime) -> None:
    """The GPUs as they are, and what stands on them beside the plan."""
    gpus = {gpu.address: gpu for gpu in inventory.record_inventory(host, {"gpus": report.gpus}, now)}
    facts = [
        inventory.Fact(
            gpu_id=gpus[held.vgpu.gpu].pk,
            kind=held.kind,
            vgpu=held.vgpu.uuid,
            device=held.vgpu.device,
            regime=held.vgpu.regime,
            size_group=held.vgpu.size_group,
            cell=held.vgpu.cell,
            slot=held.vgpu.slot,
            handle=held.vgpu.handle,
            detail=held.detail,
        )
        for held in verdict.holdings(report, leases, now)
        if held.vgpu.gpu in gpus
    ]
    seen = {vgpu.uuid for vgpu in report.vgpus} - {None}
    inventory.set_holdings(host, facts, now=now, seen=seen, complete=report.complete)


def _tell(host: Host, touched: Sequence[Verdict]) -> None:
    """Open pages look again; so do consoles, and enforcement itself: what was given back, somebody may wait for."""
    nudge.everyone(url=reverse("enforcement:hosts"))
    for owner in {seen.lease.owner for seen in touched}:
        nudge.user(owner, url=reverse("consoles:machines"))
    if any(seen.gone for seen in touched):
        transaction.on_commit(partial(signals.wanted.send, Reservation, host_ids=[host.pk]))
