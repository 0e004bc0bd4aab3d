"""Cancelling, ending, releasing, and the password that is shown once."""

from datetime import timedelta

import pytest
from passlib.hash import sha512_crypt

from portal.accounts import actions as accounts
from portal.accounts.models import Membership
from portal.bookings import actions
from portal.bookings.errors import Changed, NoCapacity, WrongState
from portal.bookings.models import Reservation
from portal.bookings.states import Status
from portal.errors import Forbidden
from portal.machines import actions as machines
from portal.machines.models import MachineState
from tests import make
from tests.make import NOW, World, at


def running(world: World, **changes: object) -> Reservation:
    """Booked from 1 to 3, started, active."""
    reservation = world.book(1, 3, **changes)  # type: ignore[arg-type]
    assert actions.move(reservation, Status.BOOKED, Status.STARTING, now=at(1))
    assert actions.move(reservation, Status.STARTING, Status.ACTIVE, now=at(1), confirmed_end=at(3))
    return reservation


def test_before_its_start_a_booking_is_cancelled(world: World) -> None:
    reservation = actions.cancel(world.book(), by=world.people.ada, now=NOW)
    assert (reservation.status, reservation.end) == (Status.CANCELLED, at(3))
    with pytest.raises(WrongState, match="is cancelled"):
        actions.cancel(reservation, by=world.people.ada, now=NOW)


@pytest.mark.field("D18")
def test_cancelling_a_running_one_ends_it_now(world: World) -> None:
    reservation = actions.cancel(running(world), by=world.people.ada, now=at(2))
    assert (reservation.status, reservation.end, reservation.ended_by_person) == (Status.ENDING, at(2), True)
    assert (reservation.stop_asked, reservation.force_at) == (at(2), at(2) + timedelta(seconds=60))
    tile = make.tile(reservation)
    assert tile.held
    assert tile.period.upper == tile.guard.upper == at(2)
    assert actions.release(reservation, at(2.1))
    assert not actions.release(reservation, at(2.1))
    assert reservation.start == at(1)  # the used hour stays on record


@pytest.mark.field("D26")
def test_the_time_left_can_be_booked_at_once(world: World) -> None:
    first = running(world, flavor=world.big)
    with pytest.raises(NoCapacity):
        world.book(2.25, 4)
    actions.end_now(first, by=world.people.ada, now=at(2))
    assert make.tile(world.book(2.25, 4)).held  # though the first is not released yet


def test_ended_in_its_first_moment_it_still_has_a_period(world: World) -> None:
    reservation = actions.end_now(running(world), by=world.people.ada, now=at(1))
    assert reservation.end > reservation.start == at(1)


def test_the_images_own_grace_counts(world: World) -> None:
    slow = make.image("slow", stop_grace_seconds=300)
    reservation = actions.end_now(running(world, image=slow), by=world.people.ada, now=at(2))
    assert reservation.force_at == at(2) + timedelta(seconds=300)


@pytest.mark.parametrize("verb", [actions.cancel, actions.end_now])
def test_who_may_end(world: World, verb: object) -> None:
    reservation = running(world)
    for person in (world.people.ben, world.people.cleo):
        with pytest.raises(Forbidden):
            verb(reservation, by=person, now=at(2))  # type: ignore[operator]
    manager = make.user("mara")
    accounts.save_membership(Membership(project=world.people.project, user=manager, role="manager"), by=None, now=NOW)
    verb(reservation, by=manager, now=at(2))  # type: ignore[operator]
    assert Reservation.objects.get(pk=reservation.pk).status == Status.ENDING


def test_an_old_version_ends_nothing(world: World) -> None:
    reservation = running(world)
    with pytest.raises(Changed):
        actions.end_now(reservation, by=world.people.ada, now=at(2), version=1)
    assert actions.end_now(reservation, by=world.people.ada, now=at(2), version=3).version == 4


@pytest.mark.field("D20")
def test_who_may_no_longer_log_in_holds_nothing(world: World) -> None:
    booked, active = world.book(5, 6), running(world)
    accounts.deactivate_user(world.people.ada, by=world.people.olga, now=at(2))
    accounts.deactivate_user(world.people.ada, by=world.people.olga, now=at(2))
    statuses = [Reservation.objects.get(pk=one.pk).status for one in (booked, active)]
    assert statuses == [Status.CANCELLED, Status.ENDING]


def test_a_disposable_machine_goes_with_its_booking_and_a_kept_one_stays(world: World) -> None:
    disposable, kept = world.book(disposable=True), world.book()
    for reservation in (disposable, kept):
        machines.observed(reservation.machine_id, state=MachineState.OFF, disk_mib=200, now=NOW)
        actions.cancel(Reservation.objects.get(pk=reservation.pk), by=world.people.ada, now=NOW)
        reservation.machine.refresh_from_db()
    assert (disposable.machine.deleted, kept.machine.deleted) == (NOW, None)


def test_a_machine_that_never_was_goes_with_its_last_booking(world: World) -> None:
    """Nobody is left with a machine that has no disk, for each booking thought better of."""
    first = world.book(5, 6)
    second = world.book(7, 8, image=None, machine=first.machine)
    for booking, gone in ((first, None), (second, NOW)):
        actions.cancel(booking, by=world.people.ada, now=NOW)
        booking.machine.refresh_from_db()
        assert booking.machine.deleted == gone


def test_the_password_is_shown_once_to_its_owner(world: World) -> None:
    reservation = world.book()
    for person in (world.people.ben, world.people.olga):
        with pytest.raises(Forbidden):
            actions.reveal_password(reservation, by=person, now=NOW)
    password = actions.reveal_password(reservation, by=world.people.ada, now=NOW)
    assert sha512_crypt.verify(password, reservation.password_hash)
    assert password not in reservation.password_sealed
    with pytest.raises(WrongState):
        actions.reveal_password(reservation, by=world.people.ada, now=NOW)


def test_a_password_sealed_under_another_key_is_lost_politely(world: World, settings: object) -> None:
    reservation = world.book()
    settings.SECRET_KEY = "another key altogether, long enough"  # type: ignore[attr-defined]
    with pytest.raises(WrongState):
        actions.reveal_password(reservation, by=world.people.ada, now=NOW)
