"""What the calendar tells to whom, and in which time."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from portal import clock
from portal.accounts.models import User
from portal.bookings import shares
from portal.bookings.models import Reservation
from portal.bookings.shares import Card, Kind, Tile
from portal.inventory import actions as inventory
from portal.inventory.models import GPU
from tests import make
from tests.portal.pages.conftest import LogIn


def tiles_for(browser: Client, around: Reservation) -> list[dict[str, Any]]:
    """Events of a window around a reservation, without the bands."""
    window = {
        "start": (around.start - timedelta(hours=2)).isoformat(),
        "end": (around.end + timedelta(hours=2)).isoformat(),
    }
    found = browser.get(reverse("bookings:events"), window).json()
    return [event for event in found if not event["id"].startswith("load:")]


@pytest.mark.parametrize(
    ("who", "title", "css", "link"),
    [
        ("ada", "ada-demo", "whose-mine", True),
        ("ben", "ada: ada-demo", "whose-project", True),
        ("cleo", "taken", "whose-other", False),
    ],
)
def test_others_see_that_it_is_taken_not_by_whom(
    who: str, title: str, css: str, link: bool, booked: Reservation, world: make.World, logged_in: LogIn
) -> None:
    (event,) = tiles_for(logged_in(getattr(world.people, who)), booked)
    assert event["title"].startswith(title)
    assert css in event["classNames"]
    assert bool(event["extendedProps"]["url"]) is link
    if who == "cleo":
        assert not re.search(r"\bada\b", str(event))  # as a word: a UUID may hold the letters
        assert str(booked.pk) not in str(event)


@pytest.mark.field("D27")
@pytest.mark.parametrize("zone", ["", "America/New_York", "Asia/Kathmandu"])
def test_times_carry_the_offset_of_the_pages_zone(
    zone: str, booked: Reservation, world: make.World, logged_in: LogIn
) -> None:
    ada = world.people.ada
    User.objects.filter(pk=ada.pk).update(time_zone=zone)
    (event,) = tiles_for(logged_in(ada), booked)
    start = datetime.fromisoformat(event["start"])
    assert start == booked.start
    assert start.utcoffset() is not None


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"start": "x", "end": "y"},
        {"start": "2026-12-02T00:00", "end": "2026-12-01T00:00"},
        {"start": "2026-01-01T00:00", "end": "2027-01-01T00:00"},
        {"start": "9999-12-31T23:00:00-12:00", "end": "0001-01-01"},
    ],
)
def test_a_window_that_makes_no_sense_is_a_400(query: dict[str, str], world: make.World, logged_in: LogIn) -> None:
    answer = logged_in(world.people.ada).get(reverse("bookings:events"), query)
    assert answer.status_code == 400
    assert answer.json()["detail"]


def test_rows_are_hosts_gpus_and_shares(world: make.World, logged_in: LogIn) -> None:
    (host,) = logged_in(world.people.ada).get(reverse("bookings:resources")).json()
    assert host["title"] == "sim-t4"
    assert host["extendedProps"]["simulated"] is True
    (gpu,) = host["children"]
    assert gpu["title"] == "Tesla T4"
    assert [share["title"] for share in gpu["children"]] == [f"share {k} of 4" for k in (1, 2, 3, 4)]


def test_a_gpu_out_of_use_is_drawn_so(world: make.World, logged_in: LogIn, booked: Reservation) -> None:
    inventory.quarantine(GPU.objects.get(), why="fan broken", by=world.people.olga, now=clock.now())
    found = tiles_for(logged_in(world.people.cleo), booked)
    assert [event["title"] for event in found if "whose-held" in event["classNames"]] == ["Quarantine: fan broken"]


def test_the_list_shows_the_same_day(booked: Reservation, world: make.World, logged_in: LogIn) -> None:
    day = f"{timezone.localtime(booked.start):%Y-%m-%d}"
    mine = logged_in(world.people.ada).get("/", {"day": day}).content.decode()
    assert booked.machine.hostname in mine
    other = logged_in(world.people.cleo).get("/", {"day": day}).content.decode()
    assert booked.machine.hostname not in other
    assert "<span>taken<br>" in other


def test_without_gpus_the_page_says_what_to_do(db: None, logged_in: LogIn) -> None:
    people = make.cast(clock.now())
    assert "no host has reported one" in logged_in(people.ada).get("/").content.decode()
    assert "manage.py add_host" in logged_in(people.olga).get("/").content.decode()


QUARTERS, HALVES = (
    Kind("T4-4Q", "equal", "4G", ((0, 1), (1, 2), (2, 3), (3, 4))),
    Kind("T4-8Q", "equal", "8G", ((0, 1), (1, 2))),
)
CARD = Card(uuid4(), "Tesla T4", "0000:3b:00.0", "sim", True, (QUARTERS, HALVES), ("small",))


def tile(
    cell: tuple[int | None, int | None], kind: str, regime: str = "equal", hours: tuple[int, int] = (0, 1)
) -> Tile:
    start, end = (datetime(2027, 1, 1, hour, tzinfo=UTC) for hour in hours)
    return Tile(uuid4(), CARD.id, kind, regime, cell, start, end, True, "mine", "x", "", "")


@pytest.mark.parametrize(
    ("one", "rows"),
    [
        (tile((3, 4), "T4-4Q"), [3]),
        (tile((1, 2), "T4-8Q"), [2, 3]),
        (tile((None, None), "T4", "whole"), [0, 1, 2, 3]),
        (tile((2, 3), "T4-2Q"), [2]),  # a type that no flavor names any more
        (tile((9, 10), "T4-1Q"), [3]),  # smaller shares than are drawn: the last row, never none
    ],
)
def test_a_share_covers_the_rows_that_it_takes(one: Tile, rows: list[int]) -> None:
    assert list(shares.rows_of(CARD, one)) == rows


def test_bands_say_how_full_a_gpu_is() -> None:
    tiles = [
        tile((0, 1), "T4-8Q", hours=(0, 2)),
        tile((1, 2), "T4-8Q", hours=(1, 3)),
        tile((0, 1), "T4-4Q", hours=(4, 5)),
    ]
    assert [(load.start.hour, load.end.hour, load.text, load.full) for load in shares.loads(CARD, tiles)] == [
        (0, 1, "8G shares: 1 of 2 taken", False),
        (1, 2, "8G shares: 2 of 2 taken", True),
        (2, 3, "8G shares: 1 of 2 taken", False),
        (4, 5, "4G shares: 1 of 4 taken", False),
    ]
