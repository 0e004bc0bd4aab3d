"""The booking form, by itself and inside the calendar's dialog."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from portal.accounts.models import User
from portal.bookings.models import Reservation
from portal.machines.models import VirtualMachine
from tests import make
from tests.portal.pages.conftest import LogIn

BOOK = "/book"


def wish(world: make.World, start: datetime | str, end: datetime | str, **changes: Any) -> dict[str, Any]:
    """What a browser sends: wall clock of the page's zone."""
    fields = {
        "flavor": "small",
        "image": "demo",
        "project": world.people.project.pk,
        "start": start,
        "end": end,
    } | changes
    return {name: wall(value) if isinstance(value, datetime) else value for name, value in fields.items()}


def wall(moment: datetime) -> str:
    return f"{timezone.localtime(moment):%Y-%m-%dT%H:%M}"


def test_without_a_script_a_booking_is_made_and_shown(world: make.World, step: datetime, logged_in: LogIn) -> None:
    browser = logged_in(world.people.ada)
    answer = browser.post(BOOK, wish(world, step, step + timedelta(hours=2)), follow=True)
    made = Reservation.objects.get()
    assert (made.start, made.end) == (step, step + timedelta(hours=2))
    assert answer.redirect_chain[-1][0] == reverse("bookings:reservation", args=[made.pk])
    page = answer.content.decode()
    assert made.machine.hostname in page
    assert "starts by itself" in page
    assert "simulated vGPU" in page


def test_the_dialog_gets_its_answer_as_a_part(world: make.World, step: datetime, logged_in: LogIn) -> None:
    browser = logged_in(world.people.ada)
    form = browser.get(BOOK, headers={"HX-Request": "true"}).content.decode()
    assert "<form" in form
    assert "<html" not in form
    answer = browser.post(BOOK, wish(world, step, step + timedelta(hours=2)), headers={"HX-Request": "true"})
    assert answer.headers["HX-Trigger"] == "booked"
    assert "Booked." in answer.content.decode()
    assert Reservation.objects.count() == 1


def test_no_start_means_now(world: make.World, step: datetime, logged_in: LogIn) -> None:
    logged_in(world.people.ada).post(BOOK, wish(world, "", step + timedelta(hours=1)))
    assert Reservation.objects.get().start < step


BAD = [
    ({"end": ""}, "This field is required."),
    ({"end": "tomorrow"}, "Write it like"),
    ({"end": "2026-02-30T10:00"}, "Write it like"),
    ({"flavor": "enormous"}, "not one of the available choices"),
    ({"flavor": "__import__('os').system('id')"}, "not one of the available choices"),
    ({"image": ""}, "Choose an image"),
    ({"project": "999999"}, "not one of the available choices"),
    ({"machine": "not-a-uuid"}, "is not a valid"),
    ({"start": "0001-01-01T00:00", "end": "0001-01-01T01:00"}, "between the years 2000 and 2100"),
    ({"start": "9999-12-31T23:45", "end": "9999-12-31T23:59"}, "between the years 2000 and 2100"),
    ({"start": "2001-01-01T00:00", "end": "2001-01-01T01:00"}, "in the past"),
]


@pytest.mark.parametrize(("changes", "sentence"), BAD)
@pytest.mark.field("G14")
def test_each_bad_input_gets_a_sentence(
    changes: dict[str, str], sentence: str, world: make.World, step: datetime, logged_in: LogIn
) -> None:
    answer = logged_in(world.people.ada).post(BOOK, wish(world, step, step + timedelta(hours=2)) | changes)
    assert answer.status_code in (409, 422)
    page = answer.content.decode().replace("&#x27;", "'").replace("“", "").replace("”", "")
    assert sentence in page
    assert not Reservation.objects.exists()


def test_an_error_stands_next_to_its_field(world: make.World, step: datetime, logged_in: LogIn) -> None:
    answer = logged_in(world.people.ada).post(BOOK, wish(world, step, step - timedelta(hours=1)))
    page = answer.content.decode()
    assert 'id="id_end_error"' in page
    assert 'aria-invalid="true"' in page
    assert "The end must lie after the start." in page


def test_when_all_is_taken_the_next_times_are_offered(world: make.World, step: datetime, logged_in: LogIn) -> None:
    browser = logged_in(world.people.ada)
    for _ in range(4):
        browser.post(BOOK, wish(world, step, step + timedelta(hours=2)))
    refused = browser.post(BOOK, wish(world, step, step + timedelta(hours=1)))
    assert refused.status_code == 409
    assert "No share for Small is free for the whole period." in refused.content.decode()
    offer = refused.context["suggestions"][0]["url"]
    form = browser.get(offer).context["form"]
    assert form.initial["start"] == step + timedelta(hours=2)
    assert form.initial["end"] == step + timedelta(hours=3)
    taken = browser.post(BOOK, wish(world, form.initial["start"], form.initial["end"]))
    assert taken.status_code == 302


def test_what_is_offered_for_a_wish_for_now_can_be_booked(world: make.World, step: datetime, logged_in: LogIn) -> None:
    browser = logged_in(world.people.ada)
    for _ in range(4):
        assert browser.post(BOOK, wish(world, "", step + timedelta(hours=2))).status_code == 302
    refused = browser.post(BOOK, wish(world, "", step + timedelta(hours=1)))
    form = browser.get(refused.context["suggestions"][0]["url"]).context["form"]
    assert browser.post(BOOK, wish(world, form.initial["start"], form.initial["end"])).status_code == 302


@pytest.mark.field("D27")
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kathmandu", "Pacific/Apia"])
def test_what_is_typed_is_meant_in_the_zone_that_the_page_names(
    zone: str, world: make.World, step: datetime, logged_in: LogIn
) -> None:
    ada = world.people.ada
    User.objects.filter(pk=ada.pk).update(time_zone=zone)
    browser = logged_in(ada)
    assert zone in browser.get(BOOK).content.decode()
    local = step.astimezone(ZoneInfo(zone))
    browser.post(BOOK, wish(world, f"{local:%Y-%m-%dT%H:%M}", f"{local + timedelta(hours=2):%Y-%m-%dT%H:%M}"))
    assert Reservation.objects.get().start == step


def test_an_hour_that_the_clocks_skip_or_repeat_is_refused(world: make.World, logged_in: LogIn) -> None:
    ada = world.people.ada
    User.objects.filter(pk=ada.pk).update(time_zone="Europe/Berlin")
    browser = logged_in(ada)
    for text in ("2027-03-28T02:30", "2027-10-31T02:30"):
        answer = browser.post(BOOK, wish(world, text, text[:-5] + "05:00"))
        assert answer.status_code == 422
        assert "couldn’t be interpreted in time zone" in answer.content.decode().replace("&#x27;", "’")


def test_iso_times_with_an_offset_are_taken_as_they_are(world: make.World, step: datetime, logged_in: LogIn) -> None:
    east = step.astimezone(ZoneInfo("Asia/Tokyo"))
    sent = wish(world, east.isoformat(), (east + timedelta(hours=1)).isoformat())
    logged_in(world.people.ada).post(BOOK, sent)
    assert Reservation.objects.get().start == step


def test_a_kept_machine_is_booked_again(running: Reservation, world: make.World, logged_in: LogIn) -> None:
    browser = logged_in(world.people.ada)
    machine, later = running.machine, running.end + timedelta(hours=1)
    form = browser.get(f"{BOOK}?machine={machine.pk}").content.decode()
    assert machine.hostname in form
    browser.post(BOOK, wish(world, later, later + timedelta(hours=1), machine=machine.pk))
    assert VirtualMachine.objects.count() == 1
    assert machine.reservations.count() == 2


def test_other_peoples_machines_are_not_on_the_list(running: Reservation, world: make.World, logged_in: LogIn) -> None:
    for other in (world.people.ben, world.people.cleo):
        page = logged_in(other).get(f"{BOOK}?machine={running.machine_id}").content.decode()
        assert running.machine.hostname not in page


def test_who_cannot_book_is_told_what_is_missing(world: make.World, logged_in: LogIn) -> None:
    page = logged_in(make.user("dora")).get(BOOK).content.decode()
    assert "You are in no project yet" in page
    assert "<select" not in page


@pytest.mark.parametrize(
    "query", ["start=never", "day=2026-99-99", "flavor=%00", "machine=1&project=x", "end=" + "9" * 500]
)
def test_a_mended_address_shows_the_form_all_the_same(query: str, world: make.World, logged_in: LogIn) -> None:
    assert logged_in(world.people.ada).get(f"{BOOK}?{query}").status_code == 200


def test_names_are_words_not_markup(world: make.World, logged_in: LogIn, client: Client) -> None:
    world.small.name = "<script>alert(1)</script>"
    world.small.save()
    page = logged_in(world.people.ada).get(BOOK).content.decode()
    assert "<script>alert" not in page
    assert "&lt;script&gt;" in page


def test_times_are_utc_in_the_database(world: make.World, step: datetime, logged_in: LogIn) -> None:
    logged_in(world.people.ada).post(BOOK, wish(world, step, step + timedelta(hours=1)))
    assert Reservation.objects.get().start.astimezone(UTC) == step.astimezone(UTC)
