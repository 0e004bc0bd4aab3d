"""Booking: what fits, what is refused, what is written."""

from datetime import timedelta

import pytest

from portal.accounts import actions as accounts
from portal.accounts.models import Membership
from portal.audit.models import Entry
from portal.bookings import actions
from portal.bookings.errors import NoCapacity, RuleBroken
from portal.bookings.models import Placement, Reservation
from portal.bookings.states import Status
from portal.errors import WrongInput
from portal.inventory import actions as inventory
from portal.notices.models import Notice
from tests import make
from tests.make import NOW, World, at


def test_a_booking_has_machine_tile_audit_and_notice(world: World) -> None:
    reservation = world.book(1, 3)
    tile = make.tile(reservation)
    assert (reservation.status, reservation.version, reservation.owner) == (Status.BOOKED, 1, world.people.ada)
    assert (tile.vgpu_type, tile.regime, tile.size_group, tile.held) == ("T4-4Q", "equal", "4G", True)
    assert (tile.period.lower, tile.period.upper) == (at(1), at(3))
    assert reservation.machine.host == world.host
    assert (
        Entry.objects.filter(verb="booked", subject=f"reservation:{reservation.pk}", actor=world.people.ada).count()
        == 1
    )
    assert Notice.objects.get(user=world.people.ada).text.endswith("2027-03-01 12:00 UTC.")


def test_four_small_shares_and_no_fifth(world: World) -> None:
    cells = {make.tile(world.book()).cell.lower for _ in range(4)}
    handles = set(Placement.objects.values_list("handle", flat=True))
    assert cells == {0, 1, 2, 3} == handles
    with pytest.raises(NoCapacity) as refused:
        world.book()
    assert refused.value.suggestions[0] == at(3).isoformat()
    assert "next free start is 2027-03-01 12:00" in refused.value.detail


def test_other_series_of_the_same_size_is_welcome_and_another_size_is_not(world: World) -> None:
    world.book()
    compute = make.flavor("compute", ("T4-4C",))
    assert make.tile(world.book(flavor=compute)).vgpu_type == "T4-4C"
    with pytest.raises(NoCapacity):
        world.book(flavor=world.big)


# The thirteen relations of [a, b) to the booked [4, 8)
RELATIONS = {
    "before": (1, 3),
    "meets": (2, 4),
    "overlaps": (3, 5),
    "starts": (4, 6),
    "during": (5, 7),
    "finishes": (6, 8),
    "equal": (4, 8),
    "finished by": (2, 8),
    "contains": (3, 9),
    "started by": (4, 9),
    "overlapped by": (7, 9),
    "met by": (8, 10),
    "after": (9, 11),
}
APART = {"before", "meets", "met by", "after"}


@pytest.mark.field("D05", "D06")
@pytest.mark.parametrize("name", RELATIONS)
def test_only_periods_that_do_not_meet_share_a_gpu_of_another_size(world: World, name: str) -> None:
    world.book(4, 8)
    start, end = RELATIONS[name]
    if name in APART:
        tile = make.tile(world.book(start, end, flavor=world.big))
        assert (tile.period.lower, tile.period.upper) == (at(start), at(end))  # no second is cut off
    else:
        with pytest.raises(NoCapacity):
            world.book(start, end, flavor=world.big)


@pytest.mark.field("D06")
def test_turnaround_is_part_of_the_stored_period(world: World, settings: object) -> None:
    settings.TURNAROUND_SECONDS = 900  # type: ignore[attr-defined]
    tile = make.tile(world.book(1, 2))
    assert tile.period.upper == at(2.25)
    with pytest.raises(NoCapacity):
        world.book(2, 3, flavor=world.big)
    assert make.tile(world.book(2.25, 3, flavor=world.big)).period.lower == at(2.25)


def test_a_change_of_regime_takes_its_time(world: World, settings: object) -> None:
    settings.REGIME_CHANGE_SECONDS = 1800  # type: ignore[attr-defined]
    world.book(1, 2)
    with pytest.raises(NoCapacity) as refused:
        world.book(2.25, 3, flavor=world.big)
    assert refused.value.suggestions[0] == at(2.5).isoformat()
    world.book(2.5, 3, flavor=world.big)
    world.book(1.5, 2)  # the same size needs no change


@pytest.mark.field("D11")
def test_the_past_is_refused_but_for_two_minutes(world: World) -> None:
    late = NOW + timedelta(seconds=119)
    assert world.book(0, 1, now=late).start == NOW
    with pytest.raises(RuleBroken, match="past"):
        world.book(0, 1, now=NOW + timedelta(seconds=121))
    with pytest.raises(RuleBroken, match="past"):
        world.book(-24, -23)


@pytest.mark.field("D32")
def test_length_and_horizon_hold_for_the_whole_booking(world: World, settings: object) -> None:
    settings.MAX_BOOKING_HOURS = 24 * 14  # type: ignore[attr-defined]
    settings.BOOKING_HORIZON_DAYS = 14  # type: ignore[attr-defined]
    with pytest.raises(RuleBroken, match="14 days ahead"):
        world.book(24 * 13, 24 * 26)
    with pytest.raises(RuleBroken, match="at most 336 hours"):
        world.book(1, 24 * 15)
    world.book(24 * 13, 24 * 14)


@pytest.mark.field("D24")
@pytest.mark.parametrize(("start", "end"), [(3, 1), (1, 1), (1.1, 3), (1, 3.1), (24 * 365 * 80, 24 * 365 * 80 + 1)])
def test_impossible_periods_change_nothing(world: World, start: float, end: float) -> None:
    with pytest.raises(WrongInput) as refused:
        world.book(start, end)
    assert refused.value.fields
    assert not Reservation.objects.exists()


def test_start_left_out_is_now_and_need_not_be_on_a_step(world: World) -> None:
    moment = NOW + timedelta(minutes=7, seconds=3)
    assert world.book(None, 1, now=moment).start == moment


def test_steps_are_counted_in_the_sites_zone(world: World, settings: object) -> None:
    settings.SLOT_MINUTES, settings.TIME_ZONE = 60, "Asia/Kolkata"  # type: ignore[attr-defined]  # UTC+05:30
    world.book(1.5, 2.5)
    with pytest.raises(WrongInput, match="step of 60 minutes"):
        world.book(1, 2)


def test_a_gpu_out_of_service_or_not_seen_lately_is_not_booked(world: World) -> None:
    gpu = world.host.gpus.get()
    with pytest.raises(NoCapacity, match="No GPU in service"):
        world.book(24, 25, now=at(2))
    gpu.enabled = False
    inventory.save_gpu(gpu, by=world.people.olga, now=NOW)
    with pytest.raises(NoCapacity, match="No GPU in service"):
        world.book()


@pytest.mark.field("A07")
def test_a_type_that_the_driver_no_longer_offers_is_not_booked(world: World) -> None:
    inventory.record_inventory(
        world.host, {"gpus": [make.gpu_facts(types=[make.type_facts("T4-8Q", "8G", 2)])]}, at(0.1)
    )
    with pytest.raises(NoCapacity, match="No GPU in service"):
        world.book()


@pytest.mark.parametrize(("kind", "left"), [("foreign", 3), ("stuck", 3), ("overdue", 4), ("quarantine", 0)])
def test_what_stands_on_a_gpu_takes_its_share(world: World, kind: str, left: int) -> None:
    gpu = world.host.gpus.get()
    inventory.set_holdings(world.host, [inventory.Fact(gpu.pk, kind, size_group="4G", handle=0)], now=NOW)
    for _ in range(left):
        world.book()
    with pytest.raises(NoCapacity):
        world.book()


def test_a_foreign_vgpu_of_another_size_closes_the_gpu(world: World) -> None:
    gpu = world.host.gpus.get()
    inventory.set_holdings(world.host, [inventory.Fact(gpu.pk, "foreign", size_group="8G", handle=0)], now=NOW)
    with pytest.raises(NoCapacity):
        world.book()


@pytest.mark.field("A15")
def test_memory_of_the_host_is_counted_at_its_fullest_moment(world: World) -> None:
    inventory.record_capacity(world.host, {"memory_mib": 512}, now=NOW)
    world.book(1, 3)
    world.book(4, 6)
    world.book(2.5, 4.5)
    with pytest.raises(NoCapacity):
        world.book(2, 3)
    world.book(3, 4)


def test_waiting_tiles_make_way_when_colours_are_used_up(world: World) -> None:
    for start, end in [(1, 2), (1, 3), (1, 3), (1, 3)]:
        world.book(start, end)
    for start, end in [(3, 5), (3, 5), (3, 5), (4, 5)]:
        world.book(start, end)
    reservation = world.book(2, 4)  # three run before it, three after it: a fourth colour is there if one tile moves
    assert make.tile(reservation).held
    spans = [(t.cell.lower, t.handle, t.period.lower, t.period.upper) for t in Placement.objects.all()]
    for i, one in enumerate(spans):
        for two in spans[i + 1 :]:
            if one[2] < two[3] and two[2] < one[3]:
                assert one[0] != two[0]
                assert one[1] != two[1]


def test_a_tile_whose_machine_is_being_started_is_not_moved(world: World) -> None:
    """The planner may have read it before enforcement took it: whoever looked too early is refused, nothing moves."""
    reservation = world.book(1, 2)
    tile = make.tile(reservation)
    actions.move(reservation, Status.BOOKED, Status.STARTING, now=at(1))
    with pytest.raises(NoCapacity, match="faster"):
        actions._move_tiles([(tile.pk, (3, 4), 3)])
    assert make.tile(reservation).cell == tile.cell


def test_a_machine_is_not_booked_for_a_project_that_its_owner_has_left(world: World) -> None:
    machine = world.book(1, 2).machine
    accounts.delete_membership(Membership.objects.get(user=world.people.ada), by=world.people.olga, now=NOW)
    with pytest.raises(RuleBroken, match="which you have left"):
        world.book(3, 4, image=None, machine=machine)
    world.book(3, 4, image=None, machine=machine, by=world.people.olga)


def test_a_kept_machine_runs_once_at_a_time(world: World) -> None:
    machine = world.book(1, 3).machine
    with pytest.raises(RuleBroken, match="booked already"):
        world.book(2, 4, image=None, machine=machine)
    again = world.book(3, 4, image=None, machine=machine)
    assert again.machine == machine
    assert again.password_hash != machine.reservations.get(start=at(1)).password_hash


def test_refusals_leave_nothing_behind(world: World) -> None:
    for _ in range(4):
        world.book()
    machines, entries = world.people.ada.machines.count(), Entry.objects.count()
    with pytest.raises(NoCapacity):
        actions.book(world.wish(), by=world.people.ada, now=NOW)
    assert (world.people.ada.machines.count(), Entry.objects.count()) == (machines, entries)
