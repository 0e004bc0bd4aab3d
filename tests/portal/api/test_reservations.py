"""Reservations through the API, as the cast sees them."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings
from django.test import Client

from portal.accounts import actions as accounts
from portal.accounts.models import User
from portal.bookings.models import Reservation
from portal.consoles.models import ConsoleTicket
from tests.make import World
from tests.portal.api.conftest import URL, Caller

Call = Callable[..., Caller]


def step(now: datetime, hours: float) -> str:
    """The next full hour plus hours, as the API takes it."""
    full = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    return (full + timedelta(hours=hours)).isoformat()


def wish(now: datetime, **changes: Any) -> dict[str, Any]:
    """A good request; None takes a field away."""
    fields = {"flavor": "small", "image": "demo", "start": step(now, 1), "end": step(now, 2)} | changes
    return {key: value for key, value in fields.items() if value is not None}


def test_book_look_cancel(here: World, call: Call, now: datetime) -> None:
    ada = call(here.people.ada)
    made = ada.post("reservations", wish(now))
    assert made.status_code == 201
    document = made.json()
    assert document["placements"] == [
        {
            "host": "sim-t4",
            "gpu": "0000:3b:00.0",
            "vgpu_type": "T4-4Q",
            "regime": "equal",
            "cell": [0, 1],
            "simulated": True,
        }
    ]
    assert (document["status"], document["version"], document["confirmed_end"]) == ("booked", 1, None)
    assert datetime.fromisoformat(document["end"]) == datetime.fromisoformat(step(now, 2))
    assert ada.get(f"reservations/{document['id']}").json() == document
    assert ada.get("reservations").json() == {"items": [document], "count": 1}
    machine = ada.get("machines").json()["items"][0]
    assert (machine["id"], machine["host"], machine["state"]) == (document["machine"], "sim-t4", "off")
    gone = ada.post(f"reservations/{document['id']}/cancel")
    assert (gone.status_code, gone.json()["status"], gone.json()["version"]) == (200, "cancelled", 2)
    again = ada.post(f"reservations/{document['id']}/cancel")
    assert (again.status_code, again.json()["code"]) == (409, "state")


def test_start_left_out_is_now(here: World, call: Call, now: datetime) -> None:
    made = call(here.people.ada).post("reservations", wish(now, start=None)).json()
    assert abs(datetime.fromisoformat(made["start"]) - now) < timedelta(seconds=10)


def test_a_kept_machine_is_booked_again(here: World, call: Call, now: datetime) -> None:
    ada = call(here.people.ada)
    first = ada.post("reservations", wish(now)).json()
    second = wish(now, image=None, machine=first["machine"], start=step(now, 2), end=step(now, 3))
    assert ada.post("reservations", second).json()["machine"] == first["machine"]
    clash = ada.post("reservations", second)
    assert (clash.status_code, clash.json()["code"]) == (409, "rule")


def test_full_is_409_with_times_that_work(here: World, call: Call, now: datetime) -> None:
    ada = call(here.people.ada)
    for _ in range(4):
        assert ada.post("reservations", wish(now)).status_code == 201
    refused = ada.post("reservations", wish(now))
    assert (refused.status_code, refused.json()["code"]) == (409, "no_capacity")
    start = datetime.fromisoformat(refused.json()["suggestions"][0])
    assert start == datetime.fromisoformat(step(now, 2))
    length = timedelta(hours=1)
    retry = wish(now, start=start.isoformat(), end=(start + length).isoformat())
    assert ada.post("reservations", retry).status_code == 201


def test_who_sees_and_who_may(here: World, call: Call, now: datetime) -> None:
    made = call(here.people.ada).post("reservations", wish(now)).json()
    path = f"reservations/{made['id']}"
    ben, cleo, olga = (call(person) for person in (here.people.ben, here.people.cleo, here.people.olga))
    assert call(None).get(path).status_code == 401
    assert ben.get(path).status_code == 200
    refused = ben.post(f"{path}/cancel")
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert cleo.get(path).status_code == 404
    assert cleo.post(f"{path}/cancel").status_code == 404
    assert cleo.get("reservations").json() == {"items": [], "count": 0}
    assert cleo.get("machines").json()["count"] == 0
    assert cleo.post("reservations", wish(now, image=None, machine=made["machine"])).status_code == 404
    assert cleo.post("reservations", wish(now, project="vision")).status_code == 404
    assert olga.post(f"{path}/cancel").status_code == 200


def test_cancel_with_an_old_version_does_nothing(here: World, call: Call, now: datetime) -> None:
    ada = call(here.people.ada)
    path = f"reservations/{ada.post('reservations', wish(now)).json()['id']}"
    refused = ada.post(f"{path}/cancel", {"version": 7})
    assert (refused.status_code, refused.json()["code"]) == (409, "changed")
    assert ada.get(path).json()["status"] == "booked"
    assert ada.post(f"{path}/cancel", {"version": 1}).json()["status"] == "cancelled"


@pytest.mark.field("D11", "D24", "D32", "G08", "G14")
@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({"flavor": None}, 422, "invalid"),
        ({"flavor": "no-such"}, 422, "invalid"),
        ({"flavor": 7}, 422, "invalid"),
        ({"flavor": "<b>&'\"]]>"}, 422, "invalid"),
        ({"image": "no-such"}, 422, "invalid"),
        ({"image": None}, 422, "invalid"),
        ({"image": "__import__('os').system('id')"}, 422, "invalid"),
        ({"machine": str(uuid4())}, 404, "not_found"),
        ({"machine": "not-a-uuid"}, 422, "invalid"),
        ({"machine": "../../etc"}, 422, "invalid"),
        ({"project": "no\0where"}, 422, "invalid"),
        ({"project": ""}, 422, "invalid"),
        ({"start": "2027-03-01T10:00:00"}, 422, "invalid"),
        ({"start": 1_800_000_000}, 422, "invalid"),
        ({"start": "1800000000"}, 422, "invalid"),
        ({"start": "2027-03-01"}, 422, "invalid"),
        ({"start": "2027-02-30T10:00:00Z"}, 422, "invalid"),
        ({"start": "2027-03-01T10:00:00+99:00"}, 422, "invalid"),
        ({"start": "1999-12-31T10:00:00Z"}, 422, "invalid"),
        ({"start": "2026-01-01T10:00:00Z"}, 409, "rule"),
        ({"end": "2101-01-01T10:00:00Z"}, 422, "invalid"),
        ({"end": "9999-12-31T23:45:00-23:00"}, 422, "invalid"),
        ({"end": "0001-01-01T00:00:00+23:00"}, 422, "invalid"),
        ({"end": None}, 422, "invalid"),
        ({"end": "2026-01-01T10:00:00Z"}, 422, "invalid"),
        ({"end": "2099-01-01T10:00:00Z"}, 409, "rule"),
        ({"disposable": "yes"}, 422, "invalid"),
        ({"colour": "red"}, 422, "invalid"),
        ({"id": str(uuid4())}, 422, "invalid"),
    ],
)
def test_bad_content_is_named_and_changes_nothing(
    here: World, call: Call, now: datetime, changes: dict[str, Any], status: int, code: str
) -> None:
    answer = call(here.people.ada).post("reservations", wish(now, **changes))
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.content
    assert answer.json()["detail"].endswith(".")
    assert not Reservation.objects.exists()


@pytest.mark.parametrize("body", ["{", "[1]", '"text"', "null", "\xff", "[" * 100_000, '{"flavor": NaN'])
def test_a_body_that_is_no_document(here: World, call: Call, body: str) -> None:
    answer = call(here.people.ada).post("reservations", body)
    assert answer.status_code in (400, 422), answer.content
    assert set(answer.json()) <= {"code", "detail", "fields"}


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("get", "reservations/not-a-uuid", 404, "not_found"),
        ("get", f"reservations/{uuid4()}", 404, "not_found"),
        ("post", f"machines/{uuid4()}/console", 404, "not_found"),
        ("get", "nothing/here", 404, "not_found"),
        ("delete", "reservations", 405, "method_not_allowed"),
        ("put", f"reservations/{uuid4()}", 405, "method_not_allowed"),
        ("get", "reservations?limit=0", 422, "invalid"),
        ("get", "reservations?limit=1000000", 422, "invalid"),
        ("get", "reservations?offset=99999999999999999999", 422, "invalid"),
        ("get", "reservations?status=happy", 422, "invalid"),
    ],
)
def test_every_refusal_has_one_shape(here: World, call: Call, method: str, path: str, status: int, code: str) -> None:
    caller = call(here.people.ada)
    answer = getattr(caller.client, method)(URL + path, headers={"Authorization": f"Bearer {caller.token}"})
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.json()["detail"].endswith(".")


def test_too_large_a_body(here: World, call: Call) -> None:
    body = json.dumps({"flavor": "x" * settings.DATA_UPLOAD_MAX_MEMORY_SIZE})
    answer = call(here.people.ada).post("reservations", body)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


def test_lists_are_paged(here: World, call: Call, now: datetime) -> None:
    ada = call(here.people.ada)
    made = {ada.post("reservations", wish(now)).json()["id"] for _ in range(3)}
    pages = [ada.get(f"reservations?limit=2&offset={offset}").json() for offset in (0, 2)]
    assert [page["count"] for page in pages] == [3, 3]
    assert {row["id"] for page in pages for row in page["items"]} == made
    assert ada.get("reservations?status=cancelled").json()["count"] == 0
    assert [row["slug"] for row in ada.get("flavors").json()["items"]] == ["big", "small"]
    assert ada.get("images").json()["items"][0]["slug"] == "demo"


def test_tokens_have_a_life_scopes_and_an_end(here: World, call: Call, now: datetime) -> None:
    ada: User = here.people.ada
    read = call(ada, "read")
    assert read.get("flavors").status_code == 200
    refused = read.post("reservations", wish(now))
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    accounts.revoke_token(ada.tokens.get(), by=ada, now=now)
    dead = read.get("flavors")
    assert (dead.status_code, dead.json()["code"]) == (401, "unauthorized")
    old, secret = accounts.make_token(ada, name="old", scopes=["read"], days=1, by=ada, now=now - timedelta(days=2))
    assert Caller(Client(), secret).get("flavors").status_code == 401
    assert secret not in (old.digest, str(old))
    for wrong in ("", "x", "Basic abc", secret[:-1]):
        assert Client().get(URL + "flavors", headers={"Authorization": f"Bearer {wrong}"}).status_code == 401


def test_a_session_may_call_with_csrf_proof_only(here: World, now: datetime) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(here.people.ada)
    assert browser.get(URL + "flavors").status_code == 200
    refused = browser.post(URL + "reservations", wish(now), content_type="application/json")
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    browser.get("/login")
    proof = browser.cookies["csrftoken"].value
    answer = browser.post(
        URL + "reservations", wish(now), content_type="application/json", headers={"X-CSRFToken": proof}
    )
    assert answer.status_code == 201
    nobody = Client(enforce_csrf_checks=True)
    assert nobody.post(URL + "reservations", wish(now), content_type="application/json").status_code == 401


@pytest.mark.field("G01")
def test_no_console_for_a_machine_that_does_not_run_or_is_not_ones_own(here: World, call: Call, now: datetime) -> None:
    made = call(here.people.ada).post("reservations", wish(now)).json()
    path = f"machines/{made['machine']}/console"
    off = call(here.people.ada).post(path)
    assert (off.status_code, off.json()["code"]) == (409, "state")
    assert call(here.people.cleo).post(path).status_code == 404
    assert not ConsoleTicket.objects.exists()


def test_the_description_names_every_address(here: World, client: Client) -> None:
    paths = client.get(URL + "openapi.json").json()["paths"]
    assert {path.removeprefix(URL) for path in paths} == {
        "flavors",
        "images",
        "machines",
        "machines/{machine_id}/console",
        "reservations",
        "reservations/{reservation_id}",
        "reservations/{reservation_id}/cancel",
    }
