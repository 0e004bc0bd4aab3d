"""Who talks to a host: one at a time, never two under one number; the killed and the frozen lose their turn."""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from pytest_django import Settings

from portal.bookings.models import Placement
from portal.enforcement import actions, reconciling, tasks
from portal.enforcement.actions import StopNotAsked, Superseded
from portal.enforcement.models import HostState
from portal.enforcement.report import parse
from portal.errors import Forbidden
from portal.inventory.models import Host
from portal.notices.models import Notice
from tests.fakes import DeafHost, FakeHost, SlowHost, TimidHost
from tests.portal.enforcement.conftest import Stage

T = TypeVar("T")


def elsewhere(work: Callable[[], T]) -> T:
    """As another worker would: in a thread with its own connection, which ends with it, as a killed worker's does."""

    def with_own_connection() -> T:
        try:
            return work()
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(with_own_connection).result()


def take(stage: Stage) -> actions.Turn | None:
    return actions.take_turn(stage.world.host, asked=stage.now, now=stage.now)


def test_a_number_is_used_up_before_the_call_and_never_again(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*args: object) -> None:
        raise MemoryError

    monkeypatch.setattr("portal.gateway.apply", dies)
    stage.tick()
    assert HostState.objects.get().generation == 1
    monkeypatch.setattr("portal.gateway.apply", stage.hosts.apply)
    stage.at(0.1).tick()
    assert stage.hosts.hosts["sim-t4"].calls[0]["generation"] == 2


@pytest.mark.field("E08")
def test_a_killed_holder_frees_the_host_at_once(stage: Stage) -> None:
    first = elsewhere(lambda: take(stage))
    assert first is not None
    stage.at(0.0001).tick()  # its lease still runs, its connection is gone
    assert stage.hosts.hosts["sim-t4"].calls[0]["generation"] == first.generation + 1


@pytest.mark.field("E08")
def test_a_living_holder_is_not_disturbed_and_the_skip_is_told(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    assert take(stage) is not None
    for second in range(1, 4):
        stage.at(second / 3600)
        elsewhere(lambda: tasks.enforce(stage.world.host.pk, stage.now.isoformat()))
    assert stage.hosts.hosts["sim-t4"].calls == []
    levels = [record.levelname for record in caplog.records if "skipped" in record.message]
    assert levels == ["INFO", "INFO", "ERROR"][-len(levels) :]
    assert levels[-1] == "ERROR"


def test_a_frozen_holder_loses_its_turn_and_its_late_answer_is_dropped(stage: Stage) -> None:
    reservation = stage.world.book(None, 2)
    host = stage.hosts.hosts["sim-t4"]
    old = take(stage)
    assert old is not None
    question = reconciling.prepare(old, now=stage.now)
    answer = host.apply(question.document)
    notices = Notice.objects.count()

    stage.now += actions.lease_length() + timedelta(seconds=1)
    elsewhere(lambda: tasks.enforce(stage.world.host.pk, stage.now.isoformat()))
    assert stage.status(reservation) == "active"
    assert Notice.objects.count() == notices + 1

    with pytest.raises(Superseded):
        reconciling.record(old, question, answer, parse(answer), now=stage.now)
    with pytest.raises(Superseded):
        actions.renew_turn(old, now=stage.now)
    with pytest.raises(Superseded):
        actions.record_failure(old, {"code": "late"}, now=stage.now)
    actions.end_turn(old)
    state = HostState.objects.get()
    assert (state.generation, state.last_error) == (old.generation + 1, None)
    assert Notice.objects.count() == notices + 1


def test_a_host_that_knows_a_higher_number_refuses_and_the_refusal_is_shown(stage: Stage) -> None:
    """The database was restored from last night, or a copy of it calls."""
    reservation = stage.world.book(None, 1)
    stage.tick()
    stage.hosts.hosts["sim-t4"].generation = 999
    stage.at(1).tick()
    assert (HostState.objects.get().last_error or {})["code"] == "stale_generation"
    assert stage.hosts.hosts["sim-t4"].stopped == []
    assert stage.status(reservation) == "ending"


def test_an_operator_lets_a_restored_portal_go_on(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    reservation = stage.world.book(None, 1)
    stage.tick()
    host = stage.hosts.hosts["sim-t4"]
    host.generation = 999
    answer = {"portal": settings.PORTAL_ID, "generation": 999}
    monkeypatch.setattr("portal.gateway.observe", lambda address: answer)
    call_command("adopt_host", "sim-t4")
    assert "999" in capsys.readouterr().out
    stage.at(1).tick()
    assert stage.status(reservation) == "ended"
    assert host.generation > 999
    answer["portal"] = str(reservation.pk)
    with pytest.raises(CommandError, match="another portal"):
        call_command("adopt_host", "sim-t4")
    with pytest.raises(CommandError, match="no host"):
        call_command("adopt_host", "elsewhere")


def test_a_slow_host_keeps_its_turn_while_it_works(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = stage.host(SlowHost("sim-t4"))
    monkeypatch.setattr(actions, "lease_length", lambda: timedelta(seconds=0.4))
    worker = threading.Thread(
        target=lambda: elsewhere(lambda: tasks.enforce(stage.world.host.pk, stage.now.isoformat()))
    )
    worker.start()
    leases = set()
    while worker.is_alive():
        stage.now += timedelta(seconds=0.05)
        leases.add(HostState.objects.filter(generation=1).values_list("lease_until", flat=True).first())
        time.sleep(0.05)
    worker.join()
    assert len(leases - {None}) >= 3  # renewed
    assert len(slow.calls) == 1
    assert HostState.objects.get().lease_until is None


@pytest.mark.field("C04")
@pytest.mark.field("E07")
def test_a_deaf_host_delays_no_other(stage: Stage) -> None:
    deaf = stage.host(DeafHost("sim-deaf"))
    quick = stage.host(FakeHost("sim-quick"))
    began = time.monotonic()
    answered: dict[str, float] = {}

    def enforce(name: str) -> None:
        elsewhere(lambda: tasks.enforce(Host.objects.get(name=name).pk, stage.now.isoformat()))
        answered[name] = time.monotonic() - began

    workers = [threading.Thread(target=enforce, args=(name,)) for name in ("sim-deaf", "sim-quick")]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert answered["sim-quick"] < DeafHost.seconds <= answered["sim-deaf"]
    errors = dict(HostState.objects.values_list("host__name", "last_error__code"))
    assert (errors["sim-deaf"], errors["sim-quick"]) == ("timeout", None)
    assert (len(deaf.calls), len(quick.calls)) == (1, 1)


def test_an_early_stop_of_many_waits_for_an_operators_word_and_for_exactly_those(stage: Stage) -> None:
    people = stage.world.people
    timid = stage.host(TimidHost("sim-t4"))
    first, second = stage.world.book(None, 1), stage.world.book(None, 1)
    stage.tick()
    stage.at(1).tick()
    asked = {str(first.machine_id), str(second.machine_id)}
    assert set(HostState.objects.get().needs_confirmation) == asked
    assert timid.stopped == []

    with pytest.raises(Forbidden):
        actions.confirm_stops(stage.world.host, [first.machine_id], by=people.ada, now=stage.now)
    with pytest.raises(StopNotAsked):
        actions.confirm_stops(stage.world.host, [first.machine_id, first.pk], by=people.olga, now=stage.now)
    actions.confirm_stops(stage.world.host, [first.machine_id], by=people.olga, now=stage.now)
    stage.at(1.01).deliver()
    assert timid.stopped == [str(first.machine_id)]
    assert (stage.status(first), stage.status(second)) == ("ended", "ending")
    assert HostState.objects.get().needs_confirmation == [str(second.machine_id)]
    assert HostState.objects.get().confirmed == []
    assert Placement.objects.get(held=True).reservation_id == second.pk


@dataclass
class VisitedHost(FakeHost):
    """Somebody books while it works, once."""

    visit: Callable[[], object] = lambda: None

    def apply(self, desired: Mapping[str, Any]) -> dict[str, Any]:
        visit, self.visit = self.visit, lambda: None
        visit()
        return super().apply(desired)


def test_who_knocks_during_a_pass_is_heard_right_after_it(stage: Stage) -> None:
    """Not a tick later: somebody waits in front of the screen."""
    host = VisitedHost("sim-t4")
    stage.host(host, stage.world.host)
    knock = partial(tasks.enforce, stage.world.host.pk, stage.now.isoformat())
    host.visit = lambda: elsewhere(knock)
    tasks.enforce(stage.world.host.pk, stage.now.isoformat())
    assert len(stage.box) == 1
    stage.at(0.0001).deliver()
    assert len(host.calls) == 2
