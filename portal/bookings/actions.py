"""The only writer of reservations and placements: book, cancel, end, move, release.

A write that makes something scarcer locks first, then checks, plans and inserts; one that gives back locks nothing.
"""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange, NumericRange
from django.db.models import F

from portal.accounts.models import User
from portal.audit import actions as audit
from portal.bookings import announce, locks, orders, planner, rules, scene, seal, suggestions, wording
from portal.bookings.errors import Changed, NoCapacity, RuleBroken, WrongState
from portal.bookings.models import Placement, Reservation
from portal.bookings.orders import Order
from portal.bookings.plan import Cell, Period, Spot
from portal.bookings.rules import Wish
from portal.bookings.states import HOLDING, WAITING, Status, may_become
from portal.errors import Forbidden
from portal.inventory.models import GPU
from portal.machines import actions as machines

EXCLUSION_VIOLATION = "23P01"
INSTANT = timedelta(microseconds=1)  # the shortest period the database can tell from none


def book(wish: Wish, *, by: User, now: datetime) -> Reservation:
    """Promise a share of a GPU for a period, or raise a Refused that says why and what would work.

    NoCapacity names the next free start times; Busy means that the same request may work in a second.
    """
    order = orders.prepare(wish, by=by, now=now)
    try:
        return locks.twice(partial(_attempt, order), seconds=settings.LOCK_TIMEOUT_SECONDS)
    except NoCapacity as refusal:
        refusal.suggestions = suggestions.next_starts(order)
        if refusal.suggestions:
            first = wording.local(datetime.fromisoformat(refusal.suggestions[0]), by)
            refusal.detail = f"{refusal.detail} The next free start is {first}."
        raise


def _attempt(order: Order, deadline: locks.Deadline) -> Reservation:
    with transaction.atomic():
        locks.acquire(order.project.pk, order.stage.pools, deadline)
        if order.wish.machine is not None:
            rules.check_machine_free(order.wish.machine, order.period)
        reservation = _reserve(order, _plan(order))
        audit.record(order.by, "booked", reservation, now=order.now, **announce.summary(reservation))
        announce.tell(reservation, Status.BOOKED, now=order.now)
        return reservation


def _plan(order: Order) -> Spot:
    need, period = scene.need_of(order.wish.flavor), order.period
    around = scene.fill(order.stage, since=period.guard, until=period.end, now=order.now)
    spot = planner.choose(need, period, around)
    if spot is None and planner.is_loose(need, period, around):
        spot = planner.makes_way(need, period, scene.fill(order.stage, since=order.now, until=None, now=order.now))
    if spot is None:
        raise NoCapacity(f"No share for {order.wish.flavor.name} is free for the whole period.")
    scene.check_in_use(spot.card.host)
    return spot


def _reserve(order: Order, spot: Spot) -> Reservation:
    """Machine, reservation and tile, in a savepoint: a refused insert leaves the transaction able to ask more."""
    try:
        with transaction.atomic():
            reservation = _insert(order, spot.card.host)
            _place(reservation, order.period, spot)
            return reservation
    except IntegrityError as error:
        cause = error.__cause__
        if getattr(cause, "sqlstate", None) != EXCLUSION_VIOLATION:
            raise
        if getattr(getattr(cause, "diag", None), "constraint_name", "") == "one_run":
            raise RuleBroken("This machine is booked already in that time.", fields={"machine": "in use"}) from error
        raise NoCapacity("Someone was faster; that share is taken.") from error


def _insert(order: Order, host_id: int) -> Reservation:
    wish = order.wish
    machine = wish.machine or machines.make(
        owner=order.by,
        project=order.project,
        flavor=wish.flavor,
        image=order.image,
        disposable=wish.disposable,
        host_id=host_id,
        by=order.by,
        now=order.now,
    )
    password = seal.new_password()
    return Reservation.objects.create(
        machine=machine,
        project=order.project,
        owner=machine.owner,
        created_by=order.by,
        flavor=wish.flavor,
        image=order.image,
        status=Status.BOOKED,
        start=order.start,
        end=wish.end,
        disposable=machine.disposable,
        password_hash=seal.shadow_hash(password),
        password_sealed=seal.seal(password),
        created=order.now,
        updated=order.now,
    )


def _place(reservation: Reservation, period: Period, spot: Spot) -> Placement:
    """Insert the tile; those that make way for it move in the same transaction, checked when all have moved."""
    if spot.moves:
        _move_tiles(spot.moves)
    placement = Placement.objects.create(
        reservation=reservation,
        gpu_id=spot.card.id,
        vgpu_type=spot.name,
        regime=spot.regime,
        size_group=spot.size_group,
        cell=NumericRange(*spot.cell),
        cell_profile=spot.profile,
        slot=NumericRange(*spot.slot),
        handle=spot.handle,
        media=spot.media,
        iommu_group=spot.card.iommu,
        period=DateTimeTZRange(period.start, period.end),
        guard=DateTimeTZRange(period.guard, period.end),
    )
    if spot.moves:
        _check_tiles_now()
    return placement


def _move_tiles(moves: Collection[tuple[UUID, Cell, int]]) -> None:
    """Only tiles whose reservation still waits, held so until the commit: what a host has been told of stays put."""
    waiting = Reservation.objects.filter(placements__in=[tile for tile, _, _ in moves], status__in=sorted(WAITING))
    if len(waiting.order_by("start", "pk").select_for_update(of=("self",))) != len(moves):
        raise NoCapacity("Someone was faster; that share is taken.")
    with connection.cursor() as cursor:
        cursor.execute("set constraints one_cell, one_slot, one_handle deferred")
    for tile, cell, handle in moves:
        Placement.objects.filter(pk=tile, held=True).update(cell=NumericRange(*cell), handle=handle)


def _check_tiles_now() -> None:
    with connection.cursor() as cursor:
        cursor.execute("set constraints one_cell, one_slot, one_handle immediate")


def relocate(tile: UUID, *, gpu: UUID, cell: Cell, slot: Cell, handle: int, now: datetime) -> bool:
    """The host has made a share at another free place than planned: the tile goes there.

    False: somebody has booked that place meanwhile, and nothing is written. Raises Busy.
    """
    placement = Placement.objects.select_related("gpu", "reservation").get(pk=tile)
    to = GPU.objects.get(pk=gpu)
    where = {"gpu": to, "iommu_group": to.iommu_key, "cell": NumericRange(*cell), "slot": NumericRange(*slot)}
    attempt = partial(_relocate, placement, where | {"handle": handle}, now)
    return locks.twice(attempt, seconds=settings.LOCK_TIMEOUT_SECONDS)


def _relocate(placement: Placement, where: Mapping[str, Any], now: datetime, deadline: locks.Deadline) -> bool:
    reservation, pools = placement.reservation, [placement.gpu.pool_id, where["gpu"].pool_id]
    try:
        with transaction.atomic():
            locks.acquire(reservation.project_id, pools, deadline)
            Placement.objects.filter(pk=placement.pk, held=True).update(**where)
            Reservation.objects.filter(pk=reservation.pk).update(version=F("version") + 1)
            audit.record(None, "made elsewhere", reservation, now=now, old=str(placement.gpu), new=str(where["gpu"]))
    except IntegrityError as error:
        if getattr(error.__cause__, "sqlstate", None) != EXCLUSION_VIOLATION:
            raise
        return False
    return True


@transaction.atomic
def move(
    reservation: Reservation, old: Status, new: Status, *, now: datetime, by: User | None = None, **fields: Any
) -> bool:
    """Change a status once; `fields` are stored with it. False: somebody else got there first, and nothing is written.

    What no longer holds a tile gives it back here, exactly once, and a disposable machine goes with it; so
    does one that never got a disk.
    """
    if not may_become(old, new):
        raise ValueError(f"{old} never becomes {new}")
    row = Reservation.objects.filter(pk=reservation.pk, status=old)
    if row.update(status=new, updated=now, version=F("version") + 1, **fields) != 1:
        return False
    reservation.refresh_from_db()
    if new not in HOLDING:
        _give_back(reservation, old, by=by, now=now)
    audit.record(by, f"moved to {new}", reservation, now=now, old=old, reason=reservation.reason)
    announce.tell(reservation, new, now=now, wake=by is not None)
    return True


def _give_back(reservation: Reservation, old: Status, *, by: User | None, now: datetime) -> None:
    Placement.objects.filter(reservation=reservation, held=True).update(held=False)
    machine = reservation.machine
    never_was = old in WAITING and machine.disk_mib is None and not machine.reservations.holding().exists()
    if reservation.disposable or never_was:
        machines.delete(machine, by=by, now=now)


@transaction.atomic
def cancel(reservation: Reservation, *, by: User, now: datetime, version: int | None = None) -> Reservation:
    """Before its start a reservation is cancelled without a trace on any host; once running, it ends now."""
    rules.check_may_steer(reservation, by)
    status = _locked_status(reservation, version)
    if status not in WAITING:
        return _end(reservation, status, by=by, now=now)
    move(reservation, status, Status.CANCELLED, now=now, by=by)
    return reservation


@transaction.atomic
def end_now(reservation: Reservation, *, by: User, now: datetime, version: int | None = None) -> Reservation:
    """Shut a running machine down ahead of its end. The hours used stay counted; its release is the host's word."""
    rules.check_may_steer(reservation, by)
    return _end(reservation, _locked_status(reservation, version), by=by, now=now)


def _end(reservation: Reservation, status: Status, *, by: User, now: datetime) -> Reservation:
    if status not in (Status.STARTING, Status.ACTIVE):
        raise WrongState(f"The reservation is {status.replace('_', ' ')}; it cannot be ended now.")
    end = max(min(now, reservation.end), reservation.start + INSTANT)
    grace = rules.stop_grace(reservation.image)
    move(
        reservation,
        status,
        Status.ENDING,
        now=now,
        by=by,
        end=end,
        ended_by_person=True,
        stop_asked=now,
        force_at=now + grace,
    )
    _shorten(reservation, rules.stored_period(reservation.start, end, rules.policy()))
    return reservation


def _shorten(reservation: Reservation, period: Period) -> None:
    """Others may book what is left of the tile's time; they start when its release is verified."""
    for tile in Placement.objects.filter(reservation=reservation, held=True):
        upper = min(tile.period.upper, period.end)
        Placement.objects.filter(pk=tile.pk).update(
            period=DateTimeTZRange(tile.period.lower, upper), guard=DateTimeTZRange(tile.guard.lower, upper)
        )


def release(reservation: Reservation, now: datetime) -> bool:
    """The host has verified that machine and vGPU are gone: the tile is free. False: it had been free before."""
    return move(reservation, Status.ENDING, Status.ENDED, now=now)


def note(reservation: Reservation, *, reason: str, confirmed_end: datetime | None = None) -> bool:
    """Remember what a host reported: why something waits, the end it has confirmed. False: known already."""
    fields: dict[str, Any] = {"reason": reason} | ({} if confirmed_end is None else {"confirmed_end": confirmed_end})
    if all(getattr(reservation, key) == value for key, value in fields.items()):
        return False
    for key, value in fields.items():
        setattr(reservation, key, value)
    return Reservation.objects.filter(pk=reservation.pk).update(**fields) == 1


@transaction.atomic
def reveal_password(reservation: Reservation, *, by: User, now: datetime) -> str:
    """The guest's password, to its owner, once."""
    if by.pk != reservation.owner_id:
        raise Forbidden("Only its owner may see the password.")
    row = Reservation.objects.select_for_update().get(pk=reservation.pk)
    password = seal.unseal(row.password_sealed) if row.password_sealed else None
    Reservation.objects.filter(pk=reservation.pk).update(password_sealed="")
    if password is None:
        raise WrongState("The password has been shown already, or cannot be opened any more.")
    audit.record(by, "saw password", reservation, now=now)
    return password


def _locked_status(reservation: Reservation, version: int | None) -> Status:
    """The status as it is now and stays until the end of the transaction."""
    reservation.refresh_from_db(from_queryset=Reservation.objects.select_for_update())
    if version is not None and version != reservation.version:
        raise Changed("The reservation has changed since you read it.")
    return Status(reservation.status)
