"""The calendar's plane, GPU × time, as rows and tiles: pure, from dataclasses to what EventCalendar reads.

A GPU is drawn with as many rows as it has shares of the smallest size that anybody may book. A bigger share covers
several rows. Which share it is says nothing to a person (equal shares are interchangeable); how many are left does.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from uuid import UUID

MOST_ROWS = 16  # more shares than that are drawn as halves, thirds ... of this many rows


@dataclass(frozen=True)
class Kind:
    """A vGPU type on one GPU: `cells` are the half-open ranges it may take on the regime's ruler."""

    name: str
    regime: str
    size_group: str
    cells: tuple[tuple[int, int], ...]

    @property
    def ruler(self) -> int:
        """Where the regime's ruler ends."""
        return max((upper for _, upper in self.cells), default=1)


@dataclass(frozen=True)
class Card:
    """One GPU as the calendar draws it. `flavors` are the slugs that fit on it, smallest share first."""

    id: UUID
    title: str
    address: str
    host: str
    simulated: bool
    kinds: tuple[Kind, ...]
    flavors: tuple[str, ...]

    @property
    def short_address(self) -> str:
        """Without the PCI domain, which is 0000 on nearly every machine."""
        return self.address.removeprefix("0000:")

    @property
    def rows(self) -> int:
        """How many shares it is drawn with."""
        return max(
            1, min(MOST_ROWS, max((len(kind.cells) for kind in self.kinds if kind.regime != "whole"), default=1))
        )


@dataclass(frozen=True)
class Tile:
    """One placement as one person may see it. `cell` open at both ends is the whole GPU."""

    id: UUID
    card: UUID
    vgpu_type: str
    regime: str
    cell: tuple[int | None, int | None]
    start: datetime
    end: datetime
    held: bool
    whose: str  # mine, project, other
    title: str
    note: str
    url: str


def row_id(card: UUID, number: int) -> str:
    """The calendar's name for one row of a GPU."""
    return f"{card}:{number}"


def rows_of(card: Card, tile: Tile) -> range:
    """The rows that a tile covers, at least one."""
    lower, upper = tile.cell
    if lower is None or upper is None:
        return range(card.rows)
    ruler = max(
        (kind.ruler for kind in card.kinds if (kind.name, kind.regime) == (tile.vgpu_type, tile.regime)),
        default=card.rows,
    )
    first = min(lower * card.rows // ruler, card.rows - 1)
    last = min(-(-upper * card.rows // ruler), card.rows)
    return range(first, max(last, first + 1))


def resources(cards: Iterable[Card]) -> list[dict[str, object]]:
    """Hosts → GPUs → shares, as EventCalendar's nested resources."""
    hosts: dict[str, dict[str, object]] = {}
    children: dict[str, list[dict[str, object]]] = {}
    for card in cards:
        if card.host not in hosts:
            children[card.host] = []
            hosts[card.host] = {
                "id": f"host:{card.host}",
                "title": card.host,
                "extendedProps": {"kind": "host", "simulated": card.simulated},
                "children": children[card.host],
            }
        children[card.host].append(_resource(card))
    return list(hosts.values())


def _resource(card: Card) -> dict[str, object]:
    shares = [
        {
            "id": row_id(card.id, number),
            "title": f"share {number + 1} of {card.rows}" if card.rows > 1 else "the whole GPU",
            "extendedProps": {"kind": "share", "flavors": card.flavors},
        }
        for number in range(card.rows)
    ]
    return {
        "id": str(card.id),
        "title": card.title,
        "extendedProps": {"kind": "gpu", "note": card.short_address, "flavors": card.flavors},
        "children": shares,
    }


@dataclass(frozen=True)
class Load:
    """How full a GPU is between two moments, and with which size: the band on the GPU's own row."""

    start: datetime
    end: datetime
    text: str
    full: bool


def loads(card: Card, tiles: Iterable[Tile]) -> list[Load]:
    """Bands of one GPU, neighbours that say the same joined."""
    held = [tile for tile in tiles if tile.held]
    edges = sorted({edge for tile in held for edge in (tile.start, tile.end)})
    bands: list[Load] = []
    for start, end in pairwise(edges):
        band = _band(card, [tile for tile in held if tile.start < end and start < tile.end], start, end)
        if band and bands and (bands[-1].end, bands[-1].text) == (start, band.text):
            bands[-1] = Load(bands[-1].start, end, band.text, band.full)
        elif band:
            bands.append(band)
    return bands


def _band(card: Card, there: Sequence[Tile], start: datetime, end: datetime) -> Load | None:
    if not there:
        return None
    kind = next(
        (kind for kind in card.kinds if (kind.name, kind.regime) == (there[0].vgpu_type, there[0].regime)), None
    )
    if kind is None or kind.regime == "whole":
        return Load(start, end, "the whole GPU is taken", full=True)
    room = len(kind.cells)
    taken = len({tile.cell for tile in there})
    size = f"{kind.size_group} shares: " if kind.regime == "equal" else ""
    return Load(start, end, f"{size}{taken} of {room} taken", full=taken >= room)


def events(cards: Sequence[Card], tiles: Sequence[Tile]) -> Iterator[dict[str, object]]:
    """Tiles on their rows, and the band of how full each GPU is."""
    by_card = {card.id: card for card in cards}
    for tile in tiles:
        if tile.card in by_card:
            yield from _parts(by_card[tile.card], tile)
    for card in cards:
        for number, load in enumerate(loads(card, [tile for tile in tiles if tile.card == card.id])):
            yield {
                "id": f"load:{card.id}:{number}",
                "resourceIds": [str(card.id)],
                "start": load.start.isoformat(timespec="seconds"),
                "end": load.end.isoformat(timespec="seconds"),
                "title": load.text,
                "classNames": ["whose-load", *(["is-full"] if load.full else [])],
            }


def _parts(card: Card, tile: Tile) -> Iterator[dict[str, object]]:
    """One event per row that the tile covers; the first one carries the words."""
    rows = rows_of(card, tile)
    for number in rows:
        yield {
            "id": f"{tile.id}:{number}",
            "resourceIds": [row_id(card.id, number)],
            "start": tile.start.isoformat(timespec="seconds"),
            "end": tile.end.isoformat(timespec="seconds"),
            "title": tile.title if number == rows[0] else "",
            "classNames": [f"whose-{tile.whose}", *_part(rows, number), *([] if tile.held else ["is-ended"])],
            "extendedProps": {
                "url": tile.url,
                "description": " · ".join(part for part in (tile.title, tile.note, tile.vgpu_type) if part),
            },
        }


def _part(rows: range, number: int) -> list[str]:
    if len(rows) == 1:
        return []
    return ["part-first" if number == rows[0] else "part-last" if number == rows[-1] else "part-middle"]
