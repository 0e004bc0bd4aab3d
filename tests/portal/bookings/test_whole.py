"""Whole cards: they take their IOMMU group with them, and keep shares away as shares keep them away."""

import pytest

from portal.bookings.errors import NoCapacity
from portal.inventory.models import Flavor
from tests import make
from tests.make import World

BOTH = ["equal", "whole"]


@pytest.fixture
def whole(world: World) -> Flavor:
    """Two more T4 in one IOMMU group, on a host that also passes cards through; and a flavor for such a card."""
    pair = [make.gpu_facts(f"0000:{bus}:00.0", regimes=BOTH, iommu_group="77") for bus in ("5e", "86")]
    make.host("whole-host", pair)
    return make.flavor("whole", ("Tesla T4",), regime="whole")


def test_a_whole_card_is_everything_and_keeps_its_group(world: World, whole: Flavor) -> None:
    tile = make.tile(world.book(1, 3, flavor=whole))
    assert (tile.regime, tile.vgpu_type, tile.cell.lower, tile.cell.upper) == ("whole", "Tesla T4", None, None)
    with pytest.raises(NoCapacity):
        world.book(2, 4, flavor=whole)  # the other card is of the same group
    assert make.tile(world.book(3, 4, flavor=whole)).held
    for _ in range(4):
        assert make.tile(world.book(1, 2)).gpu.host == world.host
    with pytest.raises(NoCapacity):
        world.book(1, 2)


def test_a_share_keeps_the_whole_group_from_being_passed_through(world: World, whole: Flavor) -> None:
    for _ in range(5):
        world.book(1, 2)  # the fifth lands in the group
    with pytest.raises(NoCapacity) as refused:
        world.book(1, 2, flavor=whole)
    assert len(refused.value.suggestions) == 1
    world.book(2, 3, flavor=whole)


def test_the_time_for_a_change_of_regime_lies_before_the_whole_card(
    world: World, whole: Flavor, settings: object
) -> None:
    settings.REGIME_CHANGE_SECONDS = 900  # type: ignore[attr-defined]
    for _ in range(12):
        world.book(1, 2)
    with pytest.raises(NoCapacity):
        world.book(2, 3, flavor=whole)
    assert make.tile(world.book(2.25, 3, flavor=whole)).guard.lower == make.at(2)
