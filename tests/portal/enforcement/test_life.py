"""A reservation from its booking to the moment its share is free again, as ticks drive it."""

import pytest

from portal.audit.models import Entry
from portal.bookings import actions as bookings
from portal.bookings.models import Placement, Reservation
from portal.enforcement.models import HostState, StepLog
from portal.inventory import actions as inventory
from portal.inventory.models import Holding
from portal.machines.models import VirtualMachine
from portal.notices.models import Notice
from tests import make
from tests.fakes import BlindHost, ClingingHost, DriftingHost, FakeHost, FullHost, GarbledHost, LyingHost, StubbornHost
from tests.portal.enforcement.conftest import Stage


def told(reservation: Reservation) -> list[str]:
    return list(Notice.objects.filter(user=reservation.owner).order_by("pk").values_list("text", flat=True))


def moves(reservation: Reservation) -> list[str]:
    rows = Entry.objects.filter(subject=f"reservation:{reservation.pk}", verb__startswith="moved to")
    return [verb.removeprefix("moved to ") for verb in rows.order_by("pk").values_list("verb", flat=True)]


def host_of(stage: Stage, name: str = "sim-t4") -> FakeHost:
    return stage.hosts.hosts[name]


def test_booked_started_ended_and_the_share_is_free(stage: Stage) -> None:
    reservation = stage.world.book(1, 3)
    stage.at(0.5).tick()
    assert stage.status(reservation) == "booked"
    assert host_of(stage).started == []
    stage.at(1).tick()
    assert stage.status(reservation) == "active"
    stage.at(2.99).tick()
    assert stage.status(reservation) == "active"
    stage.at(3).tick()
    assert stage.status(reservation) == "ended"
    assert host_of(stage).stopped == [str(reservation.machine_id)]
    assert not Placement.objects.filter(held=True).exists()
    assert moves(reservation) == ["starting", "active", "ending", "ended"]
    assert len(told(reservation)) == 4  # booked, running, shutting down, ended
    machine = VirtualMachine.objects.get(pk=reservation.machine_id)
    assert (machine.state, machine.disk_mib) == ("off", 200)


@pytest.mark.field("E01")
@pytest.mark.field("E06")
def test_the_same_message_five_times_is_one_start(stage: Stage) -> None:
    reservation = stage.world.book(1, 3)
    stage.at(1).tick()
    stage.at(1.001)
    host = stage.world.host.pk
    stage.box += [(host, make.at(1.0).isoformat())] * 5
    stage.deliver()
    assert host_of(stage).started == [str(reservation.machine_id)]
    assert moves(reservation) == ["starting", "active"]
    assert sum("running" in text for text in told(reservation)) == 1


@pytest.mark.field("E06")
@pytest.mark.field("E07")
def test_many_ticks_waiting_are_one_pass(stage: Stage) -> None:
    """A second beat, or a worker that was away while ticks piled up."""
    from portal.enforcement import tasks

    stage.at(1)
    for _ in range(30):
        tasks.tick()
    assert len(stage.box) == 30
    stage.deliver()
    assert len(host_of(stage).calls) == 1


@pytest.mark.field("E14")
def test_an_end_needs_no_visitor(stage: Stage) -> None:
    reservation = stage.world.book(None, 2)
    stage.tick()
    stage.at(2).tick()
    assert stage.status(reservation) == "ended"


@pytest.mark.field("E15")
def test_two_hours_away_and_everything_is_set_right_in_one_tick(stage: Stage) -> None:
    ended, running = stage.world.book(None, 2), stage.world.book(None, 5)
    stage.tick()
    missed, late = stage.world.book(1, 2), stage.world.book(1.5, 4)
    stage.at(2.5).tick()
    assert [stage.status(one) for one in (ended, running, missed, late)] == ["ended", "active", "missed", "active"]
    assert host_of(stage).stopped == [str(ended.machine_id)]
    assert any("could not be started" in text for text in told(missed))
    assert not Placement.objects.filter(reservation=missed, held=True).exists()


def test_a_guest_that_does_not_obey_is_forced_off_after_the_grace(stage: Stage) -> None:
    stage.host(StubbornHost("sim-t4"))
    reservation = stage.world.book(None, 1)
    stage.tick()
    stage.at(1).tick()
    reservation.refresh_from_db()
    assert (reservation.status, reservation.stop_asked) == ("ending", make.at(1))
    assert reservation.force_at is not None
    stage.at(1 + 59 / 3600).tick()
    assert stage.status(reservation) == "ending"
    assert Holding.objects.get().kind == "overdue"
    stage.at(1 + 65 / 3600).tick()
    assert stage.status(reservation) == "ended"
    assert not Holding.objects.exists()


@pytest.mark.field("D26")
def test_back_to_back_the_second_waits_for_the_release_and_says_so(stage: Stage) -> None:
    stage.host(StubbornHost("sim-t4"))
    first = [stage.world.book(None, 1, flavor=stage.world.big) for _ in range(2)]
    stage.tick()
    second = stage.world.book(1, 2)
    stage.at(1).tick()
    second.refresh_from_db()
    assert second.status == "booked"
    assert "given back" in second.reason
    stage.at(1.05).tick()
    assert [stage.status(one) for one in first] == ["ended", "ended"]
    assert stage.status(second) == "active"  # in the same tick: what was given back wakes the next pass
    second.refresh_from_db()
    assert second.reason == ""


def test_a_machine_of_two_bookings_in_a_row_is_shut_down_between_them(stage: Stage) -> None:
    stage.host(StubbornHost("sim-t4"))
    first = stage.world.book(None, 1)
    second = stage.world.book(1, 2, machine=first.machine, image=None)
    stage.tick()
    stage.at(1).tick()
    assert (stage.status(first), stage.status(second)) == ("ending", "booked")
    stage.at(1.05).tick()
    assert (stage.status(first), stage.status(second)) == ("ended", "active")


def test_a_host_that_cannot_tell_ends_nothing_and_frees_nothing(stage: Stage) -> None:
    reservation = stage.world.book(None, 1)
    stage.tick()
    seeing = host_of(stage)
    blind = stage.host(BlindHost("sim-t4", guests=seeing.guests, generation=seeing.generation))
    stage.at(1).tick()
    assert blind.guests == {}
    assert stage.status(reservation) == "ending"
    assert Placement.objects.get().held
    assert VirtualMachine.objects.get().state == "unknown"
    seeing.generation = blind.generation
    stage.host(seeing)
    stage.at(1.01).tick()
    assert stage.status(reservation) == "ended"


@pytest.mark.parametrize("kind", [LyingHost, GarbledHost])
def test_an_answer_that_is_none_of_ours_changes_nothing(stage: Stage, kind: type[FakeHost]) -> None:
    reservation = stage.world.book(None, 1)
    stage.tick()
    stage.host(kind("sim-t4", generation=host_of(stage).generation))
    stage.at(1).tick()
    assert stage.status(reservation) == "ending"
    state = HostState.objects.get()
    assert (state.last_error or {})["code"] == "garbage"
    assert state.report is not None  # the last good one stays


def test_a_start_that_fails_tells_why_and_is_tried_until_the_end(stage: Stage) -> None:
    stage.host(FullHost("sim-t4"))
    reservation = stage.world.book(None, 1)
    stage.tick()
    reservation.refresh_from_db()
    assert (reservation.status, reservation.reason) == ("starting", "The GPU gives no more. Look at the host.")
    assert StepLog.objects.filter(kind="provide", done=False).exists()
    stage.host(FakeHost("sim-t4", generation=host_of(stage).generation))
    stage.at(0.5).tick()
    reservation.refresh_from_db()
    assert (reservation.status, reservation.reason) == ("active", "")


def test_a_start_that_never_worked_is_missed_and_frees_its_share(stage: Stage) -> None:
    stage.host(FullHost("sim-t4"))
    reservation = stage.world.book(None, 1)
    stage.tick()
    stage.at(1).tick()
    assert stage.status(reservation) == "missed"
    assert not Placement.objects.filter(held=True).exists()
    assert "The GPU gives no more." in told(reservation)[-1]


@pytest.mark.field("A13")
def test_a_vgpu_that_stays_keeps_its_share_taken_and_is_shown(stage: Stage) -> None:
    host = ClingingHost("sim-t4")
    stage.host(host)
    reservation = stage.world.book(None, 1)
    stage.tick()
    stage.at(1).tick()
    reservation.refresh_from_db()
    assert (reservation.status, reservation.reason) == ("ending", "The vGPU is busy. It is tried again.")
    holding = Holding.objects.get()
    assert (holding.kind, holding.vgpu) == ("stuck", Placement.objects.get().pk)
    host.lets_go = True
    host.vgpus.clear()
    stage.at(1.01).tick()
    assert stage.status(reservation) == "ended"
    assert not Holding.objects.exists()


@pytest.mark.field("E10")
def test_a_hosts_clock_decides_nothing_and_its_drift_is_known(stage: Stage) -> None:
    stage.host(DriftingHost("sim-t4"))
    reservation = stage.world.book(None, 1)
    stage.at(0.9).tick()
    assert stage.status(reservation) == "active"
    assert HostState.objects.get().drift_seconds == pytest.approx(600)


def test_ended_by_a_person_the_stop_is_confirmed_by_name(stage: Stage) -> None:
    reservation = stage.world.book(None, 3)
    stage.tick()
    bookings.end_now(reservation, by=stage.world.people.ada, now=make.at(1))
    stage.at(1).deliver()  # the signal makes it quick: no tick was needed
    assert stage.status(reservation) == "ended"
    assert host_of(stage).calls[-2]["confirmed_stops"] == [str(reservation.machine_id)]


def test_a_disposable_machine_leaves_no_disk(stage: Stage) -> None:
    reservation = stage.world.book(None, 1, disposable=True)
    stage.tick()
    stage.at(1).tick()
    assert host_of(stage).disks == set()
    assert stage.status(reservation) == "ended"
    machine = VirtualMachine.objects.get()
    assert machine.deleted is not None
    stage.at(1.1).tick()
    assert host_of(stage).calls[-1]["purge"] == []


def test_a_host_taken_out_of_use_still_stops_what_runs(stage: Stage) -> None:

    reservation = stage.world.book(None, 1)
    stage.tick()
    stage.world.host.enabled = False
    inventory.save_host(stage.world.host, by=stage.world.people.olga, now=stage.now)
    stage.deliver()
    stage.at(1).tick()
    assert stage.status(reservation) == "ended"
    calls = len(host_of(stage).calls)
    stage.at(1.1).tick()
    assert len(host_of(stage).calls) == calls


def test_a_strangers_vgpu_is_a_holding(stage: Stage) -> None:
    host_of(stage).vgpus["0e0b3aa4-3c3c-4f6f-8f4e-0d1c8e6b7a11"] = {
        "gpu": "0000:3b:00.0", "type": "T4-4Q", "machine": None, "ours": False,
    }  # fmt: skip
    stage.tick()
    assert Holding.objects.get().kind == "foreign"


def test_a_strangers_vgpu_stays_while_the_host_cannot_tell(stage: Stage) -> None:
    """An empty list with a gap beside it must not make the share bookable."""
    host = host_of(stage)
    host.vgpus["0e0b3aa4-3c3c-4f6f-8f4e-0d1c8e6b7a11"] = {
        "gpu": "0000:3b:00.0", "type": "T4-4Q", "machine": None, "ours": False,
    }  # fmt: skip
    stage.tick()
    host.vgpus.clear()
    host.unknown = [{"what": "vGPUs of this host", "reason": "The bus cannot be read."}]
    stage.at(0.01).tick()
    assert Holding.objects.get().kind == "foreign"
    host.unknown = []
    stage.at(0.02).tick()
    assert not Holding.objects.exists()


@pytest.mark.field("E12")
def test_no_message_before_the_commit_and_none_after_a_rollback(stage: Stage) -> None:
    from django.db import transaction

    stage.tick()
    with transaction.atomic():
        stage.world.book(None, 1)
        transaction.set_rollback(True)
    assert stage.box == []
    with transaction.atomic():
        reservation = stage.world.book(None, 1)
        assert stage.box == []
    stage.at(0.001).deliver()
    assert stage.status(reservation) == "active"
