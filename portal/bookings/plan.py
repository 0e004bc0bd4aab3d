"""The planner's words: cards, tiles, facts, loads; what a wish needs and where it goes. Values only."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

Cell = tuple[int | None, int | None]
EVERYTHING: Cell = (None, None)


@dataclass(frozen=True)
class Period:
    """`guard` is the start moved earlier by the time that a change of regime takes; `end` includes the turn-around."""

    start: datetime
    end: datetime
    guard: datetime

    def meets(self, other: "Period") -> bool:
        """Both share a moment."""
        return self.start < other.end and other.start < self.end

    def guards(self, other: "Period") -> bool:
        """Both share a moment, the time for a change of regime included."""
        return self.guard < other.end and other.guard < self.end


@dataclass(frozen=True)
class Offer:
    """A vGPU type that a card can give, and the cells it may take. mig: its GPU instance's profile; `media`: one a GPU.

    `slot` is its place in a cell: the first one, where several vGPUs could share a GPU instance.
    """

    name: str
    regime: str
    size_group: str
    cells: tuple[Cell, ...]
    profile: str = ""
    media: bool = False
    slot: Cell = (0, 1)


@dataclass(frozen=True)
class Card:
    """A GPU that may be booked. `host` is the host's key; `iommu` names its IOMMU group across all hosts."""

    id: UUID
    host: int
    model: str
    iommu: str
    handles: int  # 0 also where nobody could tell
    regimes: frozenset[str]
    offers: tuple[Offer, ...]


@dataclass(frozen=True)
class Tile:
    """A placement that stands. A movable one may be given an equal share in its place."""

    id: UUID
    card: UUID
    iommu: str
    regime: str
    size_group: str
    cell: Cell
    handle: int
    period: Period
    movable: bool = False
    media: bool = False


@dataclass(frozen=True)
class Fact:
    """A holding: what was seen on a card beside the plan. Of no size: a domain only names the handle."""

    card: UUID
    kind: str
    vgpu: UUID | None
    size_group: str
    handle: int | None
    regime: str = ""
    cell: Cell | None = None
    slot: Cell | None = None

    @property
    def is_share(self) -> bool:
        """It stands on the card, and does not only name a handle of it."""
        return bool(self.size_group) or self.cell is not None


@dataclass(frozen=True)
class Room:
    """What a host has to give; None where nobody has told."""

    vcpus: int | None
    memory_mib: int | None


@dataclass(frozen=True)
class Load:
    """What one reservation takes of a host, beside its tile."""

    host: int
    period: Period
    vcpus: int
    memory_mib: int


@dataclass(frozen=True)
class Scene:
    """Everything the planner looks at."""

    cards: tuple[Card, ...]
    tiles: tuple[Tile, ...] = ()
    facts: tuple[Fact, ...] = ()
    loads: tuple[Load, ...] = ()
    rooms: tuple[tuple[int, Room], ...] = ()

    def room(self, host: int) -> Room:
        """What this host has; nothing known of it: no limit."""
        return dict(self.rooms).get(host, Room(None, None))


@dataclass(frozen=True)
class Need:
    """What a flavor asks for. `types` are acceptable names, best first; for a whole card they are models, none: any."""

    regime: str
    types: tuple[str, ...]
    vcpus: int
    memory_mib: int


@dataclass(frozen=True)
class Spot:
    """Where the wish goes, and which tiles make way for it: (tile, cell, handle)."""

    card: Card
    name: str
    regime: str
    size_group: str
    cell: Cell
    handle: int
    moves: tuple[tuple[UUID, Cell, int], ...] = ()
    profile: str = ""
    media: bool = False
    slot: Cell = (0, 1)
