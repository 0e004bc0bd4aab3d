"""Callers of the API: a client per person, with a token of all scopes."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest
from django.test import Client

from portal import clock
from portal.accounts import actions as accounts
from portal.accounts.models import Scope, User
from tests import make

URL = "/api/v1/"


@dataclass
class Caller:
    """Speaks JSON with a bearer token."""

    client: Client
    token: str

    def get(self, path: str) -> Any:
        return self.client.get(URL + path, headers=self._headers())

    def post(self, path: str, body: Any = None) -> Any:
        return self.client.post(URL + path, body, content_type="application/json", headers=self._headers())

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


@pytest.fixture
def now(db: None) -> datetime:
    """The database's clock: the API asks no other."""
    return clock.now()


@pytest.fixture
def here(now: datetime) -> make.World:
    """The world, its GPUs seen just now."""
    return make.world(now)


@pytest.fixture
def call(now: datetime) -> Callable[..., Caller]:
    """`call(user)` is a caller with a token; `call(None)` one without."""

    def caller(user: User | None, *scopes: str) -> Caller:
        if user is None:
            return Caller(Client(), "")
        wanted = scopes or Scope.values
        _, secret = accounts.make_token(user, name="test", scopes=wanted, days=None, by=user, now=now)
        return Caller(Client(), secret)

    return caller
