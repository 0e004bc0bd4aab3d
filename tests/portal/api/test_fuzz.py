"""Whatever JSON comes in, the answer is a refusal in the one shape, never an error of ours."""

import json
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from portal.bookings.models import Reservation
from tests.make import World
from tests.portal.api.conftest import Caller

FIELDS = ["flavor", "image", "machine", "start", "end", "project", "disposable", "version", "x"]
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=200),
    st.sampled_from(["small", "demo", "vision", "\0", "2027-03-01T10:00:00Z", "2099-12-31T23:59:60+14:00"]),
    st.datetimes().map(lambda moment: f"{moment.isoformat()}+00:00"),
    st.uuids().map(str),
)
values = st.recursive(scalars, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner)))
quick = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@quick
@given(st.dictionaries(st.sampled_from(FIELDS), values) | values)
def test_any_document_is_answered(here: World, call: Callable[..., Caller], body: Any) -> None:
    ada = call(here.people.ada)
    for path in ("reservations", "reservations/00000000-0000-0000-0000-000000000000/cancel"):
        answer = ada.post(path, json.dumps(body))
        assert 400 <= answer.status_code < 500, answer.content
        assert set(answer.json()) <= {"code", "detail", "fields", "suggestions"}
    assert not Reservation.objects.exists()


@quick
@given(st.text(max_size=80), st.text(max_size=40))
def test_any_query_is_answered(here: World, call: Callable[..., Caller], name: str, value: str) -> None:
    ada = call(here.people.ada)
    for key in (name, "limit", "offset", "status"):
        answer = ada.client.get("/api/v1/reservations", {key: value}, headers={"Authorization": f"Bearer {ada.token}"})
        assert answer.status_code in (200, 422), answer.content
