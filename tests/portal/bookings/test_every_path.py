"""Whatever is asked in whatever order: the planner never meets the constraints, and limits hold."""

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from portal.bookings import actions
from portal.bookings.models import Placement
from portal.errors import Refused
from tests.make import NOW, World

deeds = st.one_of(
    st.tuples(st.just("book"), st.sampled_from(["small", "big"]), st.integers(0, 8), st.integers(1, 4)),
    st.tuples(st.just("cancel"), st.just(""), st.integers(0, 20), st.just(0)),
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(deeds, min_size=5, max_size=14))
def test_the_planner_never_meets_the_constraints(world: World, asked: list[tuple[str, str, int, int]]) -> None:
    made, refusals = [], []
    with transaction.atomic():
        for verb, flavor, number, length in asked:
            try:
                if verb == "book":
                    made.append(world.book(number, number + length, flavor=getattr(world, flavor)))
                elif number < len(made):
                    actions.cancel(made[number], by=world.people.ada, now=NOW)
            except Refused as refused:
                refusals.append(refused.detail)
        assert "faster" not in " ".join(refusals)  # said only where the table refused what the planner allowed
        held = Placement.objects.filter(held=True)
        assert held.count() == sum(one.status == "booked" for one in made)
        transaction.set_rollback(True)


@pytest.mark.field("A15")
def test_memory_is_never_oversold(world: World) -> None:
    world.host.facts = {"memory_mib": 700}
    type(world.host).objects.filter(pk=world.host.pk).update(facts=world.host.facts)
    results = []
    for start in (0, 1, 2, 1, 0, 2):
        try:
            world.book(start, start + 2)
            results.append(True)
        except Refused:
            results.append(False)
    # two at a time fit: [0,2) and [1,3), then the moments 1 to 2 are full; from 2 on one more
    assert results == [True, True, True, False, False, False]
