"""Everybody wants the last share: one gets it. And the control: without locks and constraints, it is sold twice."""

import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from django.contrib.postgres.constraints import ExclusionConstraint
from django.db import connection, transaction

from portal import clock
from portal.accounts import actions as accounts
from portal.accounts.models import User
from portal.audit.models import Entry
from portal.bookings import actions, locks, planner, signals
from portal.bookings.models import Placement, Reservation
from portal.bookings.plan import Spot
from portal.bookings.rules import Wish
from portal.errors import Refused
from tests import make
from tests.races.crowd import Answer, post, together

ROUNDS = 25
CROWD = 20
LIMIT_SECONDS = 3.0

pytestmark = pytest.mark.timeout(600)


def hour(now: datetime, number: int) -> datetime:
    """The start of a round: an hour of its own."""
    return now.astimezone(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(hours=1 + number)


def wish(here: make.World, start: datetime) -> Wish:
    return Wish(flavor=here.small, image=here.image, start=start, end=start + timedelta(hours=1))


def sell_all_but_one(here: make.World, start: datetime) -> None:
    """Three of the four shares go; one is left."""
    for _ in range(3):
        actions.book(wish(here, start), by=here.people.ada, now=clock.now())


def tokens(here: make.World) -> list[str]:
    """A token for each of the crowd: five people in five projects, so that no project's lock orders them."""
    people: list[User] = []
    now = clock.now()
    for number in range(5):
        person = make.user(f"racer{number}", now=now)
        accounts.make_project(f"team{number}", [person], by=None, now=now)
        people.append(person)
    made = [accounts.make_token(p, name="race", scopes=["book"], days=None, by=p, now=now)[1] for p in people]
    return made * (CROWD // len(made))


def test_twenty_requests_for_the_last_share(here: make.World, server: str, capsys: pytest.CaptureFixture[str]) -> None:
    now, crowd = clock.now(), tokens(here)
    slowest: list[float] = []
    for number in range(ROUNDS):
        start = hour(now, number)
        sell_all_but_one(here, start)
        body = {
            "flavor": "small",
            "image": "demo",
            "start": start.isoformat(),
            "end": (start + timedelta(hours=1)).isoformat(),
        }
        answers: list[Answer] = together([partial(post, server, "/api/v1/reservations", t, body) for t in crowd])
        assert Counter(answer.status for answer in answers) == {201: 1, 409: CROWD - 1}, f"round {number}"
        refused = {answer.body["code"] for answer in answers if answer.status == 409}
        assert refused == {"no_capacity"}
        slowest.append(max(answer.seconds for answer in answers))
    with capsys.disabled():
        typical = statistics.median(slowest)
        print(f"\n{ROUNDS} rounds of {CROWD}: slowest answer {max(slowest):.2f} s, typical round {typical:.2f} s")
    assert max(slowest) < LIMIT_SECONDS
    assert Placement.objects.filter(held=True).count() == 4 * ROUNDS


@contextmanager
def without_locks() -> Iterator[None]:
    """Nobody waits for anybody."""
    with patch.object(locks, "acquire", lambda *args: None):
        yield


@contextmanager
def without_constraints() -> Iterator[None]:
    """The table takes whatever comes; what overlaps is cleared away before the constraints come back."""
    exclusions = [c for c in Placement._meta.constraints if isinstance(c, ExclusionConstraint)]
    with connection.schema_editor() as editor:
        for constraint in exclusions:
            editor.remove_constraint(Placement, constraint)
    try:
        yield
    finally:
        Placement.objects.all().delete()
        with connection.schema_editor() as editor:
            for constraint in exclusions:
                editor.add_constraint(Placement, constraint)


@contextmanager
def held_between_check_and_insert(writers: int) -> Iterator[None]:
    """Whoever has found a place waits, once, until all have found theirs."""
    barrier, choose, waited = threading.Barrier(writers), planner.choose, threading.local()

    def choose_and_wait(*args: Any) -> Spot | None:
        spot = choose(*args)
        if not getattr(waited, "once", False):
            waited.once = True
            barrier.wait(timeout=60)
        return spot

    with patch.object(planner, "choose", choose_and_wait):
        yield


def attempt(here: make.World, start: datetime) -> str:
    """Book, and say in a word what became of it."""
    try:
        actions.book(wish(here, start), by=here.people.ada, now=clock.now())
    except Refused as refused:
        return refused.code
    return "booked"


def race(here: make.World, start: datetime, writers: int) -> Counter[str]:
    deeds: list[Callable[[], str]] = [partial(attempt, here, start)] * writers
    return Counter(together(deeds))


def all_rounds(here: make.World) -> list[datetime]:
    """The hours of the rounds, each with one share left."""
    starts = [hour(clock.now(), number) for number in range(ROUNDS)]
    for start in starts:
        sell_all_but_one(here, start)
    return starts


def test_the_race_is_real(here: make.World) -> None:
    """The control: without locks and constraints the share is sold twice, every time. Else the rest proves nothing."""
    starts = all_rounds(here)
    with without_constraints(), without_locks():
        for start in starts:
            with held_between_check_and_insert(2):
                assert race(here, start, writers=2) == {"booked": 2}


def test_the_constraints_alone_hold(here: make.World) -> None:
    """The last guard: without locks one wins, the other is told politely."""
    starts = all_rounds(here)
    with without_locks():
        for start in starts:
            with held_between_check_and_insert(2):
                assert race(here, start, writers=2) == {"booked": 1, "no_capacity": 1}


def test_the_locks_alone_hold(here: make.World) -> None:
    """With locks nobody even meets the constraints."""
    starts = all_rounds(here)
    with without_constraints():
        for start in starts:
            assert race(here, start, writers=8) == {"booked": 1, "no_capacity": 7}


def test_a_lock_that_stays_away_is_busy_within_its_deadline(here: make.World, settings: Any) -> None:
    settings.LOCK_TIMEOUT_SECONDS = 1
    held, done = threading.Event(), threading.Event()

    def hold() -> str:
        with transaction.atomic():
            locks.acquire(here.people.cleos.pk, [here.host.pools.get().pk], locks.Deadline(10))
            held.set()
            done.wait(timeout=60)
        return "held"

    def come_late() -> str:
        held.wait(timeout=60)
        began = time.monotonic()
        try:
            return attempt(here, hour(clock.now(), 0))
        finally:
            took.append(time.monotonic() - began)
            done.set()

    took: list[float] = []
    assert together([hold, come_late]) == ["held", "busy"]
    assert 0.9 < took[0] < 2
    assert not Reservation.objects.exists()


def test_a_project_at_work_does_not_slow_another_on_other_gpus(here: make.World) -> None:
    """Projects and pools are locked, not the table."""
    other = make.host(
        "sim-b", [make.gpu_facts("0000:5e:00.0", types=[make.type_facts("T4-2Q", "2G", 8)])], now=clock.now()
    )
    tiny = make.flavor("tiny", ("T4-2Q",), now=clock.now())
    start = hour(clock.now(), 0)
    with transaction.atomic():
        locks.acquire(here.people.project.pk, [here.host.pools.get().pk], locks.Deadline(10))
        cleos = Wish(flavor=tiny, image=here.image, start=start, end=start + timedelta(hours=1))
        deed = partial(actions.book, cleos, by=here.people.cleo, now=clock.now())
        assert make.tile(together([deed])[0]).gpu.host == other


@pytest.mark.field("D16", "D20")
def test_cancelled_by_many_is_given_back_once(here: make.World) -> None:
    starts = [hour(clock.now(), number) for number in range(ROUNDS)]
    bystander = actions.book(wish(here, starts[0]), by=here.people.cleo, now=clock.now())
    for start in starts:
        reservation = actions.book(wish(here, start), by=here.people.ada, now=clock.now())

        def cancel(pk: UUID = reservation.pk) -> str:
            try:
                actions.cancel(Reservation.objects.get(pk=pk), by=here.people.ada, now=clock.now())
            except Refused as refused:
                return refused.code
            return "cancelled"

        assert Counter(together([cancel] * 4)) == {"cancelled": 1, "state": 3}
        assert Entry.objects.filter(subject=f"reservation:{reservation.pk}", verb="moved to cancelled").count() == 1
    bystander.refresh_from_db()
    assert (bystander.status, make.tile(bystander).held) == ("booked", True)


@pytest.mark.field("E12")
def test_nobody_hears_of_a_booking_before_it_is_committed(here: make.World) -> None:
    heard: list[bool] = []

    def listen(sender: Any, host_ids: list[int], **kwargs: Any) -> None:
        heard.append(Reservation.objects.using("default").exists() and host_ids == [here.host.pk])

    signals.changed.connect(listen)
    try:
        with transaction.atomic():
            actions.book(wish(here, hour(clock.now(), 0)), by=here.people.ada, now=clock.now())
            transaction.set_rollback(True)
        assert heard == []
        actions.book(wish(here, hour(clock.now(), 0)), by=here.people.ada, now=clock.now())
    finally:
        signals.changed.disconnect(listen)
    assert heard == [True]
