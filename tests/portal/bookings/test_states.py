"""The table of states, its drawing, and that a move happens once."""

from pathlib import Path

import pytest

from portal.audit.models import Entry
from portal.bookings import actions, states
from portal.bookings.states import COUNTING, HOLDING, MOVES, RUNNING, Status
from tests import make
from tests.make import NOW, World, at

DRAWING = Path(__file__).parents[3] / "docs" / "states.md"


def test_the_drawing_in_the_documents_is_the_table() -> None:
    """To renew it: python -m portal.bookings.states > docs/states.md"""
    assert DRAWING.read_text() == states.page()


def test_every_state_has_a_row_and_every_end_is_reached() -> None:
    assert set(MOVES) == set(Status)
    reached = {Status.REQUESTED, Status.BOOKED, Status.OFFERED} | {new for row in MOVES.values() for new in row}
    assert reached == set(Status)
    assert {old for old in Status if not MOVES[old]} == set(Status) - HOLDING
    assert RUNNING <= HOLDING <= COUNTING


def test_a_move_happens_once_and_only_where_the_table_knows_it(world: World) -> None:
    reservation = world.book()
    assert actions.move(reservation, Status.BOOKED, Status.STARTING, now=at(1))
    assert not actions.move(reservation, Status.BOOKED, Status.STARTING, now=at(1))
    with pytest.raises(ValueError, match="never becomes"):
        actions.move(reservation, Status.STARTING, Status.ENDED, now=at(1))
    assert reservation.version == 2
    assert Entry.objects.filter(subject=f"reservation:{reservation.pk}", verb="moved to starting").count() == 1


@pytest.mark.field("D30")
@pytest.mark.parametrize(
    "path",
    [
        [Status.CANCELLED],
        [Status.MISSED],
        [Status.DISPLACED],
        [Status.STARTING, Status.FAILED],
        [Status.STARTING, Status.ACTIVE, Status.ENDING, Status.ENDED],
        [Status.STARTING, Status.ENDING, Status.NO_SHOW],
    ],
)
def test_what_is_over_blocks_nobody_and_what_is_not_does(world: World, path: list[Status]) -> None:
    reservation, old = world.book(), Status.BOOKED
    for new in path:
        assert make.tile(reservation).held
        actions.move(reservation, old, new, now=NOW)
        old = new
    assert not make.tile(reservation).held
    world.book(flavor=world.big)  # another size fits only on an empty GPU
