"""The life of a reservation, as one table: who may move it where, what holds a tile, what counts. Pure."""

from enum import StrEnum


class Status(StrEnum):
    """Where a reservation is in its life."""

    REQUESTED = "requested"
    OFFERED = "offered"
    BOOKED = "booked"
    STARTING = "starting"
    ACTIVE = "active"
    ENDING = "ending"
    ENDED = "ended"
    DECLINED = "declined"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    MISSED = "missed"
    FAILED = "failed"
    DISPLACED = "displaced"
    NO_SHOW = "no_show"


class Mover(StrEnum):
    """Who moves a reservation."""

    OWNER = "owner"  # also managers of the project, and operators
    APPROVER = "approver"
    OPERATOR = "operator"
    PORTAL = "portal"  # enforcement: the clock, and what hosts report
    EITHER = "owner or portal"


S, M = Status, Mover

MOVES: dict[Status, dict[Status, Mover]] = {
    S.REQUESTED: {S.BOOKED: M.APPROVER, S.DECLINED: M.APPROVER, S.EXPIRED: M.PORTAL, S.CANCELLED: M.OWNER},
    S.OFFERED: {S.BOOKED: M.OWNER, S.EXPIRED: M.PORTAL, S.CANCELLED: M.OWNER},
    S.BOOKED: {S.STARTING: M.PORTAL, S.CANCELLED: M.OWNER, S.MISSED: M.PORTAL, S.DISPLACED: M.OPERATOR},
    S.STARTING: {S.ACTIVE: M.PORTAL, S.ENDING: M.EITHER, S.MISSED: M.PORTAL, S.FAILED: M.PORTAL},
    S.ACTIVE: {S.ENDING: M.EITHER},
    S.ENDING: {S.ENDED: M.PORTAL, S.MISSED: M.PORTAL, S.FAILED: M.PORTAL, S.DISPLACED: M.PORTAL, S.NO_SHOW: M.PORTAL},
    S.ENDED: {},
    S.DECLINED: {},
    S.EXPIRED: {},
    S.CANCELLED: {},
    S.MISSED: {},
    S.FAILED: {},
    S.DISPLACED: {},
    S.NO_SHOW: {},
}

# These keep others off their tile; ENDING until the release is verified.
HOLDING = frozenset({S.REQUESTED, S.OFFERED, S.BOOKED, S.STARTING, S.ACTIVE, S.ENDING})
# These count against what a person or project may have; ending early or not coming does not give used hours back.
COUNTING = HOLDING | {S.ENDED, S.NO_SHOW}
# A machine may exist on a host.
RUNNING = frozenset({S.STARTING, S.ACTIVE, S.ENDING})
# Waits for its start: may be moved to an equal share, may be cancelled without a trace.
WAITING = frozenset({S.REQUESTED, S.OFFERED, S.BOOKED})


def may_become(old: Status, new: Status) -> bool:
    """Whether the table knows this step."""
    return new in MOVES[old]


def drawing() -> str:
    """The table as a Mermaid state diagram, for docs/states.md."""
    lines = ["stateDiagram-v2", "    [*] --> requested", "    [*] --> booked", "    [*] --> offered"]
    for old, targets in MOVES.items():
        lines += [f"    {old} --> {new}: {mover}" for new, mover in targets.items()]
    lines += [f"    {status} --> [*]" for status, targets in MOVES.items() if not targets]
    lines += [
        "    classDef holding fill:#d9ead3,stroke:#38761d",
        f"    class {','.join(s for s in Status if s in HOLDING)} holding",
    ]
    return "\n".join(lines) + "\n"


def page() -> str:
    """docs/states.md: the drawing, and what its words mean."""
    return f"""# The life of a reservation

Made from portal/bookings/states.py by `python -m portal.bookings.states > docs/states.md`; a test keeps both alike.
An arrow says who moves it: *owner* (also managers of the project, and operators), *approver*, *operator*, or the
*portal* itself (the clock, and what hosts report). Green states hold a tile. A move is one compare-and-set: anyone may
try, one wins.

```mermaid
{drawing()}```

Counted against what a person or project may have: {", ".join(s for s in Status if s in COUNTING)}.
"""


if __name__ == "__main__":
    print(page(), end="")
