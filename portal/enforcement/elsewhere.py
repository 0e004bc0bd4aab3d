"""Where else a share may be made when its GPU refuses it, and where the host has made it. Pure.

A counter of free shares is only a hint: a driver may refuse what the plan holds free (display, aperture, its own
limits). The host then takes the next place of the list, and the plan follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from portal.bookings import plan, planner
from portal.enforcement.desired import Fact, Lease, Tile, in_the_way
from portal.enforcement.report import SeenVGPU

MOST = 3


def alternatives(
    tile: Tile,
    scene: plan.Scene,
    period: plan.Period,
    taken: Iterable[Tile],
    facts: Sequence[Fact],
    addresses: Mapping[UUID, str],
) -> tuple[Tile, ...]:
    """The tile at other places that are free for its whole period, best first and at most three, one on each card.

    taken: what is free by the plan, but offered to another machine, or not given back yet. The card that has refused
    comes last.
    """
    mates = tuple(_planned(other, period) for other in taken if other.uuid != tile.uuid)
    around = replace(scene, tiles=(*scene.tiles, *mates))
    need = plan.Need(tile.regime, (tile.vgpu_type,), 0, 0)
    spots = sorted(planner.on_each_card(need, period, around), key=lambda spot: spot.card.id == tile.gpu)
    places = (_at(tile, spot, addresses[spot.card.id]) for spot in spots)
    free = [place for place in places if not any(in_the_way(fact, place) for fact in facts)]
    return tuple(free[:MOST])


def _planned(tile: Tile, period: plan.Period) -> plan.Tile:
    """A tile as the planner knows it, for as long as `period`."""
    cell = tile.cell or plan.EVERYTHING
    where = (tile.uuid, tile.gpu, tile.iommu_key, tile.regime, tile.size_group, cell, tile.handle)
    return plan.Tile(*where, period, media=tile.media)


def _at(tile: Tile, spot: plan.Spot, address: str) -> Tile:
    low, high = spot.cell
    return replace(
        tile,
        gpu=spot.card.id,
        address=address,
        iommu_key=spot.card.iommu,
        cell=None if low is None or high is None else (low, high),
        handle=spot.handle,
        alternatives=(),
    )


def moved(leases: Iterable[Lease], seen: Iterable[SeenVGPU]) -> Iterator[tuple[Tile, Tile]]:
    """(tile, where it really is) for every share that was made at one of its other places."""
    found = {vgpu.uuid: vgpu for vgpu in seen}
    for tile in (tile for lease in leases for tile in lease.tiles):
        vgpu = found.get(tile.uuid)
        if vgpu is not None and not _is_at(vgpu, tile):
            yield from ((tile, place) for place in tile.alternatives if _is_at(vgpu, place))


def _is_at(vgpu: SeenVGPU, tile: Tile) -> bool:
    """On this card, at this place as far as the host tells it."""
    return stands(vgpu, tile) and vgpu.handle in (None, tile.handle)


def stands(vgpu: SeenVGPU, tile: Tile) -> bool:
    """Whether a share keeps nobody else from what is promised: on its card, and in its cell where cells differ."""
    return vgpu.gpu == tile.address and (tile.regime == "equal" or vgpu.cell in (None, tile.cell))
