"""What a booking costs beside the bare insert of its tile, and what the calendar costs beside the smallest answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import connection
from django.test import Client

from portal import clock
from portal.bookings import actions
from portal.bookings.models import Placement
from portal.bookings.rules import Wish
from tests import make
from tests.bench.result import Result, at_least, at_most, milliseconds

ROUNDS = 150
STEP = timedelta(minutes=settings.SLOT_MINUTES)


def book() -> Iterator[Result]:
    """Guarded bookings a second on one connection: locks, rules, plan, machine, tile, audit, notice."""
    world = make.world(clock.now())
    first = midnight_tomorrow()
    guarded = rate(lambda k: make_booking(world, first + k * STEP))
    Placement.objects.update(held=False)
    template = Placement.objects.latest("period")
    bare = rate(lambda k: insert_again(template, first + k * STEP))
    yield at_least("book", guarded, "bookings/s", bare, "bare inserts of the tile a second, constraints on", 0.005)


def calendar() -> Iterator[Result]:
    """A day's tiles for the calendar, with bookings in each of its steps, beside /healthz."""
    world = make.world(clock.now())
    first = midnight_tomorrow()
    steps = int(timedelta(days=1) / STEP)
    for k in range(steps):
        make_booking(world, first + k * STEP)
    client = Client(headers={"host": "127.0.0.1"})
    client.force_login(world.people.ada)
    window = {"start": first.isoformat(), "end": (first + timedelta(days=1)).isoformat()}
    assert len(client.get("/calendar/events", window).json()) >= steps
    events = milliseconds(lambda: client.get("/calendar/events", window))
    health = milliseconds(lambda: client.get("/healthz"))
    yield at_most("calendar", events, "ms", health, f"ms for /healthz; {steps} bookings in sight", 100)


def make_booking(world: make.World, start: datetime) -> None:
    wish = Wish(flavor=world.small, image=world.image, start=start, end=start + STEP)
    actions.book(wish, by=world.people.ada, now=clock.now())


def insert_again(template: Placement, start: datetime) -> None:
    """A copy of a tile at another time, in a transaction of its own; the generated columns come by themselves."""
    with connection.cursor() as cursor:
        cursor.execute(
            "insert into bookings_placement (id, reservation_id, gpu_id, vgpu_type, regime, size_group, cell,"
            " cell_profile, slot, handle, media, iommu_group, period, guard, held)"
            " select gen_random_uuid(), reservation_id, gpu_id, vgpu_type, regime, size_group, cell,"
            " cell_profile, slot, handle, media, iommu_group, tstzrange(%s, %s), tstzrange(%s, %s), true"
            " from bookings_placement where id = %s",
            [start, start + STEP, start, start + STEP, template.pk],
        )


def midnight_tomorrow() -> datetime:
    return datetime.combine(clock.now().date() + timedelta(days=1), datetime.min.time(), UTC)


def rate(deed: Callable[[int], None]) -> float:
    """How many a second, over ROUNDS."""
    began = time.monotonic()
    for k in range(ROUNDS):
        deed(k)
    return ROUNDS / (time.monotonic() - began)
