"""A portal whose hosts are fakes, whose clock is turned by hand, and whose messages lie in a box until delivered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest

from portal import clock, gateway
from portal.bookings.models import Reservation
from portal.enforcement import tasks
from portal.inventory.models import Host
from tests import make
from tests.fakes import FakeGateway, FakeHost

Message = tuple[int, str] | tuple[int, str, bool]


@dataclass
class Stage:
    """World, hosts, clock and post box of one test."""

    world: make.World
    hosts: FakeGateway
    now: datetime = make.NOW
    box: list[Message] = field(default_factory=list)

    def at(self, hours: float) -> Stage:
        """Turn the clock to so many hours after NOW."""
        self.now = make.at(hours)
        return self

    def tick(self) -> None:
        """One tick of beat, with all it brings about."""
        tasks.tick()
        self.deliver()

    def deliver(self) -> None:
        """Hand out what lies in the box, and what that puts in, until it is empty."""
        for _ in range(50):
            if not self.box:
                return
            tasks.enforce(*self.box.pop(0))
        pytest.fail("enforcement wakes itself for ever")

    def host(self, fake: FakeHost, made: Host | None = None) -> FakeHost:
        """Let a fake answer for a host of the portal; its clock is the test's."""
        if made is None and fake.name != self.world.host.name:
            make.host(fake.name)
        fake.clock = lambda: self.now
        return self.hosts.add(fake)

    def status(self, reservation: Reservation) -> str:
        """As the database has it now."""
        return str(Reservation.objects.values_list("status", flat=True).get(pk=reservation.pk))


@pytest.fixture
def stage(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """Commits are real here: signals, nudges and tasks leave only after them."""
    made = Stage(make.world(), FakeGateway())
    made.host(FakeHost(made.world.host.name))
    monkeypatch.setattr(clock, "now", lambda: made.now)
    monkeypatch.setattr(gateway, "apply", made.hosts.apply)
    monkeypatch.setattr(tasks.enforce, "apply_async", _into(made.box))
    return made


def _into(box: list[Message]) -> Callable[..., None]:
    def post(args: Message, **options: Any) -> None:
        assert options["expires"] > 0
        box.append(args)

    return post
