"""The planner as pure geometry: never an overlap, never a refusal where a place can be made."""

from dataclasses import replace
from itertools import combinations
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from portal.bookings import planner
from portal.bookings.plan import Card, Cell, Fact, Load, Need, Offer, Period, Room, Scene, Spot, Tile
from tests.make import at

SMALL = Offer("T4-4Q", "equal", "4G", tuple((k, k + 1) for k in range(4)))
BIG = Offer("T4-8Q", "equal", "8G", ((0, 1), (1, 2)))
NEEDS = {
    "small": Need("equal", ("T4-4Q",), 1, 256),
    "big": Need("equal", ("T4-8Q",), 2, 512),
    "whole": Need("whole", (), 4, 1024),
}


def card(number: int, *, iommu: str = "", handles: int = 16) -> Card:
    """A T4 of host 1 that can also be passed through whole."""
    return Card(
        UUID(int=number), 1, "Tesla T4", iommu or f"h:{number}", handles, frozenset({"equal", "whole"}), (SMALL, BIG)
    )


def period(start: float, end: float, change: float = 0) -> Period:
    return Period(at(start), at(end), at(start - change))


def tile(number: int, spot: Spot, when: Period) -> Tile:
    """What stands in the table after a spot was taken."""
    where = (spot.regime, spot.size_group, spot.cell, spot.handle)
    return Tile(UUID(int=1000 + number), spot.card.id, spot.card.iommu, *where, when, movable=True)


def clash(one: Tile, two: Tile) -> bool:
    """The exclusion constraints of the table, for the regimes used here."""
    meet = one.period.meets(two.period)
    whole = "whole" in (one.regime, two.regime)
    if one.iommu == two.iommu and meet and whole:
        return True
    if one.card != two.card:
        return False
    if (one.regime, one.size_group) != (two.regime, two.size_group) or whole:
        return one.period.guards(two.period)
    return meet and (one.cell == two.cell or one.handle == two.handle)


def take(scene: Scene, number: int, spot: Spot, when: Period) -> Scene:
    """The scene after a booking, with the tiles that made way where they are now."""
    moved = {pk: (cell, handle) for pk, cell, handle in spot.moves}
    stay = [
        Tile(t.id, t.card, t.iommu, t.regime, t.size_group, *moved.get(t.id, (t.cell, t.handle)), t.period, t.movable)
        for t in scene.tiles
    ]
    need_loads = (*scene.loads, Load(1, when, 1, 256))
    return Scene(scene.cards, (*stay, tile(number, spot, when)), scene.facts, need_loads, scene.rooms)


hours = st.integers(0, 24)
wishes = st.tuples(st.sampled_from(sorted(NEEDS)), hours, st.integers(1, 6))


@given(st.lists(wishes, max_size=40), st.booleans(), st.sampled_from([0, 0.5]), st.integers(2, 16))
def test_tiles_never_clash(asked: list[tuple[str, int, int]], one_group: bool, change: float, handles: int) -> None:
    group = "h:shared" if one_group else ""
    scene = Scene((card(1, iommu=group, handles=handles), card(2, iommu=group, handles=handles)))
    for number, (name, start, length) in enumerate(asked):
        when = period(start, start + length, change)
        spot = planner.choose(NEEDS[name], when, scene) or planner.makes_way(NEEDS[name], when, scene)
        if spot is not None:
            scene = take(scene, number, spot, when)
            assert spot.handle < handles
            assert spot.regime == "whole" or spot.cell in {c for o in spot.card.offers for c in o.cells}
    assert not [pair for pair in combinations(scene.tiles, 2) if clash(*pair)]


@given(st.lists(st.tuples(hours, st.integers(1, 6)), max_size=40))
def test_equal_shares_are_refused_only_where_all_are_taken(asked: list[tuple[int, int]]) -> None:
    """Recolouring is exact: four shares hold whatever never needs five at once."""
    scene = Scene((card(1),))
    for number, (start, length) in enumerate(asked):
        when = period(start, start + length)
        spot = planner.choose(NEEDS["small"], when, scene) or planner.makes_way(NEEDS["small"], when, scene)
        there = [t.period for t in scene.tiles if t.period.meets(when)]
        moments = [when.start, *(p.start for p in there if p.start > when.start)]
        fullest = max(sum(p.start <= moment < p.end for p in there) for moment in moments)
        assert (spot is not None) == (fullest < 4)
        assert planner.is_loose(NEEDS["small"], when, scene) == (fullest < 4)
        if spot is not None:
            scene = take(scene, number, spot, when)


@given(st.lists(st.tuples(hours, st.integers(1, 6)), max_size=20))
def test_tiles_that_have_begun_stay_where_they_are(asked: list[tuple[int, int]]) -> None:
    scene = Scene((card(1),))
    for number, (start, length) in enumerate(asked):
        when = period(start, start + length)
        spot = planner.choose(NEEDS["small"], when, scene)
        if spot is not None:
            scene = take(scene, number, spot, when)
    fixed = Scene(
        scene.cards,
        tuple(
            Tile(t.id, t.card, t.iommu, t.regime, t.size_group, t.cell, t.handle, t.period, t.period.start > at(3))
            for t in scene.tiles
        ),
    )
    spot = planner.makes_way(NEEDS["small"], period(4, 12), fixed)
    begun = {t.id for t in fixed.tiles if not t.movable}
    assert spot is None or not begun & {pk for pk, _, _ in spot.moves}


def test_sizes_keep_together_and_empty_cards_stay_whole() -> None:
    scene, when = Scene((card(1), card(2))), period(1, 3)
    cards = []
    for number in range(5):
        spot = planner.choose(NEEDS["small"], when, scene)
        assert spot is not None
        cards.append(spot.card.id.int)
        scene = take(scene, number, spot, when)
    assert cards == [1, 1, 1, 1, 2]


def test_the_cell_with_the_smallest_gap_is_taken() -> None:
    scene = Scene((card(1),))
    for number, (start, end) in enumerate([(0, 2), (0, 4)]):
        spot = planner.choose(NEEDS["small"], period(start, end), scene)
        assert spot is not None
        scene = take(scene, number, spot, period(start, end))
    later = planner.choose(NEEDS["small"], period(4, 6), scene)
    assert later is not None
    assert later.cell == scene.tiles[1].cell  # back to back with the one that ends at 4


def test_the_type_named_first_comes_first() -> None:
    need = Need("equal", ("T4-8Q", "T4-4Q"), 1, 256)
    spot = planner.choose(need, period(1, 2), Scene((card(1),)))
    assert spot is not None
    assert spot.name == "T4-8Q"


def test_a_whole_card_takes_its_group_with_it() -> None:
    scene = Scene((card(1, iommu="h:40"), card(2, iommu="h:40"), card(3)))
    small = planner.choose(NEEDS["small"], period(1, 3), scene)
    assert small is not None
    taken = take(scene, 0, small, period(1, 3))
    whole = planner.choose(NEEDS["whole"], period(2, 4), taken)
    assert whole is not None
    assert (whole.card.id.int, whole.cell, whole.name) == (3, (None, None), "Tesla T4")
    assert planner.choose(NEEDS["whole"], period(3, 4), taken) is not None
    seen = Scene(scene.cards[:2], facts=(Fact(UUID(int=2), "foreign", None, "4G", 0),))
    assert planner.choose(NEEDS["whole"], period(1, 3), seen) is None


def test_our_own_vgpu_counts_once() -> None:
    scene, when = Scene((card(1),)), period(1, 3)
    for number in range(3):
        spot = planner.choose(NEEDS["small"], when, scene)
        assert spot is not None
        scene = take(scene, number, spot, when)
    stuck = Fact(UUID(int=1), "stuck", scene.tiles[0].id, "4G", 0)
    assert planner.choose(NEEDS["small"], when, Scene(scene.cards, scene.tiles, (stuck,))) is not None
    stranger = Fact(UUID(int=1), "stuck", UUID(int=77), "4G", 3)
    assert planner.choose(NEEDS["small"], when, Scene(scene.cards, scene.tiles, (stranger,))) is None


def test_processors_and_memory_are_counted_moment_by_moment() -> None:
    rooms = ((1, Room(2, 600)),)
    loads = (Load(1, period(1, 2), 1, 256), Load(1, period(3, 4), 1, 256))
    scene = Scene((card(1),), loads=loads, rooms=rooms)
    assert planner.choose(NEEDS["small"], period(0, 5), scene) is not None
    assert planner.choose(NEEDS["big"], period(0, 5), scene) is None
    assert planner.choose(NEEDS["big"], period(2, 3), scene) is not None


# GPU instances --------------------------------------------------------------------------------------

ONE = Offer("A100-1-5C", "mig", "A100-1-5C", tuple((k, k + 1) for k in range(7)), "1g.5gb")
ONE_ME = Offer("A100-1-5CME", "mig", "A100-1-5CME", tuple((k, k + 1) for k in range(7)), "1g.5gb+me", media=True)
THREE = Offer("A100-3-20C", "mig", "A100-3-20C", ((0, 4), (4, 8)), "3g.20gb")
A100 = Card(UUID(int=7), 1, "A100", "h:7", 16, frozenset({"mig"}), (ONE, ONE_ME, THREE))


def placed(*names: str, facts: tuple[Fact, ...] = ()) -> list[Spot | None]:
    """Where bookings of these types go, one after the other, all for the same hours."""
    scene, when, found = Scene((A100,), facts=facts), period(1, 3), []
    for number, name in enumerate(names):
        spot = planner.choose(Need("mig", (name,), 1, 256), when, scene)
        found.append(spot)
        if spot is not None:
            kept = tile(number, spot, when)
            scene = Scene((A100,), (*scene.tiles, replace(kept, media=spot.media)), facts)
    return found


def test_gpu_instances_of_several_profiles_stand_side_by_side_and_never_overlap() -> None:
    three, one, none = placed("A100-3-20C", "A100-1-5C", "A100-3-20C")[:3]
    assert three is not None
    assert one is not None
    assert (three.cell, three.profile) == ((0, 4), "3g.20gb")
    assert (one.cell, one.profile, none) == ((4, 5), "1g.5gb", None)


def test_a_gpu_has_one_instance_with_media_engines() -> None:
    first, second, plain = placed("A100-1-5CME", "A100-1-5CME", "A100-1-5C")
    assert first is not None
    assert (first.cell, first.media, second) == ((0, 1), True, None)
    assert plain is not None
    assert (plain.cell, plain.media) == ((1, 2), False)


def foreign(size: str = "", cell: tuple[int, int] | None = None, handle: int | None = None, **changes: Any) -> Fact:
    return Fact(A100.id, "foreign", None, size, handle, **{"regime": "mig", "cell": cell} | changes)


def cells(*names: str, facts: tuple[Fact, ...]) -> list[Cell | None]:
    return [spot.cell if spot else None for spot in placed(*names, facts=facts)]


def test_what_is_somebody_elses_takes_its_own_cells_and_no_others() -> None:
    instance = foreign(cell=(0, 4))  # without a share on it
    assert cells("A100-3-20C", "A100-3-20C", facts=(instance,)) == [(4, 8), None]
    share = foreign("A100-1-5C", (0, 1), 3)
    ones = placed("A100-1-5C", "A100-3-20C", facts=(share,))
    assert [spot and (spot.cell, spot.handle) for spot in ones] == [((1, 2), 0), ((4, 8), 1)]


def test_beside_somebody_elses_share_a_slot_of_the_same_instance_is_free() -> None:
    assert cells("A100-1-5C", facts=(foreign("A100-1-5C", (0, 1), slot=(1, 2)),)) == [(0, 1)]
    assert cells("A100-1-5C", facts=(foreign("A100-1-5C", (0, 1), slot=(0, 1)),)) == [(1, 2)]


def test_a_share_whose_cell_nobody_could_tell_closes_the_card() -> None:
    assert cells("A100-1-5C", facts=(foreign("A100-1-5C"),)) == [None]


def test_a_domain_that_only_names_a_function_closes_that_function() -> None:
    claim = foreign(handle=0, regime="mig")
    assert [spot and (spot.cell, spot.handle) for spot in placed("A100-1-5C", facts=(claim,))] == [((0, 1), 1)]
    t4 = Scene((card(1, handles=4),), facts=(Fact(UUID(int=1), "foreign", None, "", 1, "equal"),))
    spot = planner.choose(NEEDS["small"], period(1, 3), t4)
    assert spot is not None
    assert planner.choose(NEEDS["big"], period(1, 3), t4) is not None  # it says nothing of a size


def test_a_gpu_instance_closes_the_card_for_equal_shares() -> None:
    facts = (Fact(UUID(int=1), "foreign", None, "", None, "mig", (0, 4)),)
    assert planner.choose(NEEDS["small"], period(1, 3), Scene((card(1),), facts=facts)) is None
