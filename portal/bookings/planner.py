"""Where a wish goes: pure geometry on cards, tiles and facts. No database, no clock.

Periods are half-open. The planner keeps what the exclusion constraints of Placement keep, so that an insert is refused
only where somebody wrote past the locks.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import TypeVar
from uuid import UUID

from portal.bookings.plan import EVERYTHING, Card, Cell, Fact, Need, Offer, Period, Scene, Spot, Tile

BLOCKING = ("foreign", "stuck", "misplaced")  # facts that take a share for as long as they are seen
QUARANTINE = "quarantine"


def choose(need: Need, period: Period, scene: Scene) -> Spot | None:
    """The best free place for the whole period, with nothing moved; None: there is none.

    Best: the type named first; then the card that already has this size and the fewest shares left, so that empty cards
    stay whole for other sizes; then the cell that leaves the smallest idle gaps before and after.
    """
    hosts = {card.host for card in scene.cards}
    ranked = list(_ranked(need, period, scene, {host for host in hosts if has_room(host, need, period, scene)}))
    return min(ranked, key=lambda pair: pair[0])[1] if ranked else None


def on_each_card(need: Need, period: Period, scene: Scene) -> list[Spot]:
    """The best free place of every card, best first, whatever processors and memory are left."""
    best: dict[UUID, Spot] = {}
    hosts = {card.host for card in scene.cards}
    for _, spot in sorted(_ranked(need, period, scene, hosts), key=lambda pair: pair[0]):
        best.setdefault(spot.card.id, spot)
    return list(best.values())


def makes_way(need: Need, period: Period, scene: Scene) -> Spot | None:
    """A place that comes free when waiting tiles take other, equal shares; `scene` must hold all later tiles.

    Left-edge colouring of intervals: exact, because tiles that must stay have begun and so stand at the left.
    """
    for card in scene.cards:
        if need.regime != "equal" or "equal" not in card.regimes or not has_room(card.host, need, period, scene):
            continue
        for offer in _offers(need, card):
            spot = _recolour(offer, period, card, scene)
            if spot is not None:
                return spot
    return None


def is_loose(need: Need, period: Period, scene: Scene) -> bool:
    """Whether moving tiles can help at all: some card of this size is not full at any moment of the period."""
    for card in scene.cards:
        tiles = [tile for tile in scene.tiles if tile.card == card.id and tile.period.meets(period)]
        moments = {period.start} | {tile.period.start for tile in tiles if tile.period.start > period.start}
        fullest = max(sum(t.period.start <= moment < t.period.end for t in tiles) for moment in moments)
        if any(fullest < min(len(offer.cells), card.handles) for offer in _offers(need, card)):
            return True
    return False


def has_room(host: int, need: Need, period: Period, scene: Scene) -> bool:
    """Processors and memory suffice at the fullest moment of the period."""
    room = scene.room(host)
    loads = [load for load in scene.loads if load.host == host and load.period.meets(period)]
    moments = {period.start} | {load.period.start for load in loads if load.period.start > period.start}
    for moment in moments:
        now = [load for load in loads if load.period.start <= moment < load.period.end]
        if room.vcpus is not None and sum(load.vcpus for load in now) + need.vcpus > room.vcpus:
            return False
        if room.memory_mib is not None and sum(load.memory_mib for load in now) + need.memory_mib > room.memory_mib:
            return False
    return True


C = TypeVar("C")
Score = tuple[int, int, int, float, int, int]


def _ranked(need: Need, period: Period, scene: Scene, hosts: Collection[int]) -> Iterator[tuple[Score, Spot]]:
    """Every free place on these hosts, with what is to be least in the best one."""
    for order, card in enumerate(scene.cards):
        if need.regime in card.regimes and card.host in hosts:
            yield from _spots(need, period, card, scene, order)


def _spots(need: Need, period: Period, card: Card, scene: Scene, order: int) -> Iterator[tuple[Score, Spot]]:
    if need.regime == "whole":
        if (not need.types or card.model in need.types) and _all_free(period, card, scene):
            rank = need.types.index(card.model) if need.types else 0
            yield (rank, 0, 0, 0.0, order, 0), Spot(card, card.model, "whole", "whole", EVERYTHING, 0)
        return
    for rank, offer in enumerate(_offers(need, card)):
        if not _regime_open(offer, period, card, scene):
            continue
        tiles = [tile for tile in scene.tiles if tile.card == card.id and tile.period.meets(period)]
        cells, handles = _free(offer, tiles, card, scene)
        for index, cell in enumerate(cells if handles else ()):
            idle = _idle(cell, period, card, scene)
            yield (
                (rank, len(cells) if tiles else len(offer.cells) + 1, _overdue(card, scene), idle, order, index),
                _spot(card, offer, cell, handles[0]),
            )


def _spot(card: Card, offer: Offer, cell: Cell, handle: int, moves: tuple[tuple[UUID, Cell, int], ...] = ()) -> Spot:
    return Spot(
        card,
        offer.name,
        offer.regime,
        offer.size_group,
        cell,
        handle,
        moves,
        profile=offer.profile,
        media=offer.media,
        slot=offer.slot,
    )


def _offers(need: Need, card: Card) -> list[Offer]:
    """The card's types that will do, best first."""
    return [offer for name in need.types for offer in card.offers if offer.name == name and offer.regime == need.regime]


def _all_free(period: Period, card: Card, scene: Scene) -> bool:
    """A whole card takes its IOMMU group with it: nothing planned and nothing seen on any card of the group."""
    group = {other.id for other in scene.cards if other.iommu == card.iommu} | {card.id}
    if any(fact.card in group and fact.kind in (*BLOCKING, QUARANTINE) for fact in scene.facts):
        return False
    return not any(
        (tile.iommu == card.iommu and tile.period.meets(period))
        or (tile.card == card.id and tile.period.guards(period))
        for tile in scene.tiles
    )


def _regime_open(offer: Offer, period: Period, card: Card, scene: Scene) -> bool:
    """The card is, or can be, in this regime and size during the period, and may be used at all."""
    for fact in scene.facts:
        if fact.card == card.id and fact.kind == QUARANTINE:
            return False
        if fact.card == card.id and fact.kind in BLOCKING and _closes(fact, offer):
            return False
    for tile in scene.tiles:
        same = tile.regime == offer.regime and (offer.regime != "equal" or tile.size_group == offer.size_group)
        if tile.card == card.id and not same and tile.period.guards(period):
            return False
        if tile.iommu == card.iommu and tile.regime == "whole" and tile.period.meets(period):
            return False
    return True


def _closes(fact: Fact, offer: Offer) -> bool:
    """Whether the card cannot give this offer at all while the fact stands: another regime, or equal shares of another
    size, or a share whose cell nobody could tell."""
    if not fact.is_share:
        return False
    if fact.regime not in ("", offer.regime):
        return True
    return fact.size_group != offer.size_group if offer.regime == "equal" else fact.cell is None


def _free(offer: Offer, tiles: Iterable[Tile], card: Card, scene: Scene) -> tuple[list[Cell], list[int]]:
    """Cells and handles that neither plan nor facts take. Equal shares name no cell: a fact takes the last free one."""
    planned = list(tiles)
    facts = _blocking(card, scene, {tile.id for tile in planned})
    taken = [tile.cell for tile in planned] + [fact.cell for fact in facts if fact.cell and not _beside(fact, offer)]
    cells = [cell for cell in offer.cells if not any(_overlap(cell, other) for other in taken)]
    if offer.media and any(tile.media for tile in planned):
        cells = []
    used = {tile.handle for tile in planned} | {fact.handle for fact in facts if fact.handle is not None}
    handles = [handle for handle in range(card.handles) if handle not in used]
    unnamed = sum(fact.handle is None for fact in facts)
    placeless = sum(fact.is_share and fact.cell is None for fact in facts)
    return cells[: max(0, len(cells) - placeless)], handles[: max(0, len(handles) - unnamed)]


def _beside(fact: Fact, offer: Offer) -> bool:
    """Whether a share in the same GPU instance leaves the offer's slot free."""
    return fact.slot is not None and fact.size_group == offer.size_group and not _overlap(fact.slot, offer.slot)


def _overlap(one: Cell, other: Cell) -> bool:
    """Half-open ranges; one that is open at an end is everything."""
    if one[0] is None or one[1] is None or other[0] is None or other[1] is None:
        return True
    return one[0] < other[1] and other[0] < one[1]


def _blocking(card: Card, scene: Scene, planned: set[UUID]) -> list[Fact]:
    """Facts that take a share which the plan does not already count."""
    return [f for f in scene.facts if f.card == card.id and f.kind in BLOCKING and f.vgpu not in planned]


def _overdue(card: Card, scene: Scene) -> int:
    """Machines still there past their end: a booking that starts now would wait for them, so other cards come first."""
    return sum(fact.card == card.id and fact.kind == "overdue" for fact in scene.facts)


def _idle(cell: Cell, period: Period, card: Card, scene: Scene) -> float:
    """Seconds that would lie idle between this period and its neighbours in the cell; no neighbour counts as a day."""
    day = 86400.0
    mates = [tile.period for tile in scene.tiles if tile.card == card.id and tile.cell == cell]
    before = [(period.start - mate.end).total_seconds() for mate in mates if mate.end <= period.start]
    after = [(mate.start - period.end).total_seconds() for mate in mates if mate.start >= period.end]
    return min(before, default=day) + min(after, default=day)


def _recolour(offer: Offer, period: Period, card: Card, scene: Scene) -> Spot | None:
    """Shares and handles anew for one card, the newcomer among them; tiles that must stay, stay."""
    if not _regime_open(offer, period, card, scene) or any(fact.card == card.id for fact in scene.facts):
        return None
    tiles = [
        t for t in scene.tiles if t.card == card.id and (t.regime, t.size_group) == (offer.regime, offer.size_group)
    ]
    newcomer = Tile(
        UUID(int=0), card.id, card.iommu, offer.regime, offer.size_group, offer.cells[0], 0, period, movable=True
    )
    cells = _colour([*tiles, newcomer], offer.cells, {tile.id: tile.cell for tile in tiles})
    handles = _colour([*tiles, newcomer], tuple(range(card.handles)), {tile.id: tile.handle for tile in tiles})
    if cells is None or handles is None:
        return None
    anew = [(tile, cells[tile.id], handles[tile.id]) for tile in tiles]
    moves = [(tile.id, cell, handle) for tile, cell, handle in anew if (cell, handle) != (tile.cell, tile.handle)]
    return _spot(card, offer, cells[newcomer.id], handles[newcomer.id], tuple(moves))


def _colour(tiles: list[Tile], colours: tuple[C, ...], now: dict[UUID, C]) -> dict[UUID, C] | None:
    """A colour for every tile so that tiles which meet differ; a tile keeps its own where that is free."""
    given = {tile.id: now[tile.id] for tile in tiles if not tile.movable}
    placed = [tile for tile in tiles if not tile.movable]
    for tile in sorted((t for t in tiles if t.movable), key=lambda t: t.period.start):
        used = {given[other.id] for other in placed if other.period.meets(tile.period)}
        free = [colour for colour in colours if colour not in used]
        if not free:
            return None
        own = now.get(tile.id)
        given[tile.id] = own if own is not None and own in free else free[0]
        placed.append(tile)
    return given
