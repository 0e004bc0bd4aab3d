"""A GPU that refuses a share which the plan holds free: the next place is taken, and the plan follows."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from portal.bookings import actions as bookings
from portal.bookings import locks
from portal.bookings.errors import Busy
from portal.bookings.models import Placement, Reservation
from portal.enforcement import elsewhere
from portal.enforcement.report import SeenVGPU
from portal.inventory import actions as inventory
from portal.inventory.models import GPU, Holding
from tests import make
from tests.fakes import FakeHost, RefusingHost
from tests.portal.enforcement.conftest import Stage
from tests.portal.enforcement.test_desired import tile
from vmctl.plan import desired as documents

FIRST, SECOND, THIRD = "0000:3b:00.0", "0000:5e:00.0", "0000:af:00.0"


@pytest.fixture
def refusing(stage: Stage) -> RefusingHost:
    """Two T4s on the host, and one of another model; the first refuses."""
    cards = [make.gpu_facts(FIRST), make.gpu_facts(SECOND), make.gpu_facts(THIRD, model="Quadro")]
    inventory.record_inventory(stage.world.host, {"gpus": cards}, make.NOW)
    host = RefusingHost("sim-t4", gpus=cards)
    stage.host(host)
    stage.at(0.5).tick()  # what nobody has seen for an hour is not offered
    return host


def where(reservation: Reservation) -> str:
    return make.tile(reservation).gpu.address


def fill(stage: Stage, address: str) -> list[Reservation]:
    """Book all that is left of one card for the hours from 1 to 3."""
    GPU.objects.exclude(address=address).update(enabled=False)
    made: list[Reservation] = []
    while len(made) < 4:
        made.append(stage.world.book(1, 3, by=stage.world.people.cleo))
    GPU.objects.update(enabled=True)
    return made


@pytest.mark.field("A08")
def test_a_share_that_one_gpu_refuses_is_made_on_the_next_and_booked_there(
    stage: Stage, refusing: RefusingHost
) -> None:
    reservation = stage.world.book(1, 3)
    version = reservation.version
    assert where(reservation) == FIRST
    stage.at(1).tick()
    asked = refusing.calls[-1]
    assert [place["gpu"] for place in asked["machines"][0]["vgpus"][0]["alternatives"]] == [SECOND, FIRST]
    assert documents.parse(json.dumps(asked)).machines[0].vgpus[0].alternatives
    assert (stage.status(reservation), where(reservation)) == ("active", SECOND)
    assert make.tile(reservation).iommu_group == "sim-t4:5e"
    stage.at(1.1).tick()
    told = refusing.calls[-1]["machines"][0]["vgpus"][0]
    assert (told["gpu"], told["alternatives"]) == (SECOND, [])
    assert not Holding.objects.exists()
    reservation.refresh_from_db()
    assert reservation.version > version + 2  # starting, active, and elsewhere
    stage.at(3).tick()
    assert stage.status(reservation) == "ended"


@pytest.mark.field("A08")
def test_two_that_are_refused_at_once_get_places_apart(stage: Stage, refusing: RefusingHost) -> None:
    both = [stage.world.book(1, 3) for _ in range(2)]
    stage.at(1).tick()
    assert {where(one) for one in both} == {SECOND}
    assert len({make.tile(one).handle for one in both}) == 2
    assert [stage.status(one) for one in both] == ["active", "active"]


def test_a_place_that_is_booked_later_is_not_offered(stage: Stage, refusing: RefusingHost) -> None:
    """It must be free for the whole of the booking, not only now."""
    reservation = stage.world.book(1, 4)
    fill(stage, SECOND)
    stage.at(1).tick()
    starting = next(m for m in refusing.calls[-1]["machines"] if m["machine"] == str(reservation.machine_id))
    assert SECOND not in [place["gpu"] for place in starting["vgpus"][0]["alternatives"]]
    assert stage.status(reservation) == "starting"


def test_a_place_that_somebody_books_meanwhile_is_his_and_operators_are_told(
    stage: Stage, refusing: RefusingHost
) -> None:
    reservation = stage.world.book(1, 3)
    others: list[Reservation] = []
    refusing.meanwhile = lambda: None if others else others.extend(fill(stage, SECOND))
    stage.at(1).tick()
    assert where(reservation) == FIRST
    holding = Holding.objects.get()
    assert (holding.kind, holding.gpu.address, holding.vgpu) == ("misplaced", SECOND, make.tile(reservation).pk)
    assert "instead of on 0000:3b:00.0" in holding.detail
    stage.at(1.01).tick()
    waiting = [one for one in others if stage.status(one) == "booked"]
    assert len(waiting) == 1  # the one whose place it is
    waiting[0].refresh_from_db()
    assert "of another booking" in waiting[0].reason


def test_without_a_lock_nothing_is_written_and_the_next_answer_is_heeded(
    stage: Stage, refusing: RefusingHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    reservation = stage.world.book(1, 3)

    def busy(*args: object) -> None:
        raise Busy("Others are booking at this moment: busy, try again.")

    with monkeypatch.context() as patched:
        patched.setattr(locks, "acquire", busy)
        stage.at(1).tick()
    assert (stage.status(reservation), where(reservation)) == ("starting", FIRST)
    stage.at(1.01).tick()
    assert (stage.status(reservation), where(reservation)) == ("active", SECOND)


def test_the_constraints_hold_the_new_place(stage: Stage, refusing: RefusingHost) -> None:
    """Whatever a host says, a tile is never moved onto another."""
    one, two = stage.world.book(1, 3), stage.world.book(1, 3)
    taken = make.tile(two)
    move: Callable[..., bool] = partial(
        bookings.relocate, make.tile(one).pk, gpu=taken.gpu_id, slot=(0, 1), now=stage.now
    )
    assert not move(cell=(taken.cell.lower, taken.cell.upper), handle=taken.handle)
    assert Placement.objects.filter(gpu=taken.gpu_id, cell=taken.cell, handle=taken.handle).count() == 1
    assert move(cell=(3, 4), handle=3)


def test_only_cards_of_the_same_host_that_are_in_service_are_offered(stage: Stage, refusing: RefusingHost) -> None:
    reservation = stage.world.book(1, 3)
    stage.host(FakeHost("sim-b"))
    stage.world.host.gpus.filter(address=SECOND).update(enabled=False)
    stage.at(1).tick()
    offered = refusing.calls[-1]["machines"][0]["vgpus"][0]["alternatives"]
    assert (stage.status(reservation), [place["gpu"] for place in offered]) == ("starting", [FIRST])


def test_a_share_in_another_cell_of_its_card_is_misplaced_only_where_cells_differ() -> None:
    mine = tile(1, 0, 1)
    seen = SeenVGPU(mine.uuid, FIRST, "T4-4Q", "4G", None, None, ours=True, cell=(3, 4))
    assert elsewhere.stands(seen, mine)
    assert not elsewhere.stands(seen, replace(mine, regime="mig"))
    assert elsewhere.stands(replace(seen, cell=None), replace(mine, regime="mig"))
    assert not elsewhere.stands(replace(seen, gpu=SECOND), mine)
