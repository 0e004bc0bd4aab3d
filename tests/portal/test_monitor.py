"""What a monitor is told, and the headers that every answer has."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from portal import clock
from portal.enforcement.models import HostState
from tests import make


def ready(client: Client) -> tuple[int, dict[str, Any]]:
    answer = client.get("/readyz")
    return answer.status_code, answer.json()


def test_alive_and_ready(db: None, client: Client) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    assert ready(client) == (
        200,
        {"status": "ok", "database": "ok", "redis": "ok", "tick": "ok", "tick_age_seconds": None},
    )


@pytest.mark.field("E05", "E14")
def test_ready_means_that_hosts_are_looked_at(db: None, client: Client) -> None:
    now = clock.now()
    host = make.host(now=now)
    status, document = ready(client)
    assert (status, document["tick"]) == (503, "none yet")
    HostState.objects.create(host=host, last_call=now)
    assert ready(client)[0] == 200
    HostState.objects.update(last_call=now - timedelta(minutes=5))
    status, document = ready(client)
    assert (status, document["tick"]) == (503, "late")
    assert document["tick_age_seconds"] >= 300


def test_without_redis_it_is_alive_but_not_ready(db: None, client: Client, settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    status, document = ready(client)
    assert (status, document["redis"]) == (503, "unreachable")
    assert client.get("/healthz").status_code == 200


@pytest.mark.field("G06", "G12", "G13")
@pytest.mark.parametrize("path", ["/healthz", "/login", "/api/v1/openapi.json", "/api/v1/nothing", "/nothing"])
def test_security_headers(db: None, client: Client, path: str) -> None:
    headers = client.get(path).headers
    assert "default-src 'self'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "same-origin"
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_only_our_own_names_are_answered(db: None, client: Client) -> None:
    assert client.get("/healthz", headers={"Host": "evil.example"}).status_code == 400
    answer = client.get("/api/v1/flavors", headers={"Host": "evil.example"})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
