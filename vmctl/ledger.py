"""The shares that vmctl made on a host: the key that is needed to take each away again, whatever happened since.

A mediated device bears the share's uuid; a virtual function or a whole card bears nothing, and is soon somebody
else's.  So who has it stands here, noted before it is made and crossed out after it is verified gone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from vmctl.card import Cell, Slot
from vmctl.state import damaged, write_atomically


@dataclass(frozen=True)
class Made:
    """A share that vmctl made for a machine."""

    uuid: str
    machine: str
    gpu: str
    type: str
    regime: str = "equal"
    device: str | None = None  # the function it lies on: a virtual one, or the card's own
    cell: Cell | None = None
    slot: Slot | None = None
    handle: int | None = None
    profile_id: int | None = None  # MIG: the profile of its GPU instance
    driver_id: str | None = None  # vendor VFIO: the type's number, which is all that its function shows
    drivers: Mapping[str, str] = field(default_factory=dict)  # whole: each function of the group and its driver before
    vfs: int = 0  # whole: how many virtual functions were on before


class Ledger:
    """Every share that vmctl made on one host."""

    def __init__(self, state_dir: Path) -> None:
        """Raises VmctlError when the file is there and cannot be read."""
        self._path = state_dir / "vgpus.json"
        self._made = {made.uuid: made for made in self._load()}

    def __iter__(self) -> Iterator[Made]:
        return iter(self._made.values())

    def __contains__(self, uuid: str) -> bool:
        return uuid in self._made

    def get(self, uuid: str | None) -> Made | None:
        """What is known of a share."""
        return self._made.get(uuid) if uuid is not None else None

    def on(self, device: str) -> Made | None:
        """The share that lies on a function; the newest where several claim it."""
        return next((made for made in reversed(self._made.values()) if made.device == device), None)

    def note(self, made: Made) -> None:
        """Remember that this share is about to be made."""
        others = {key: kept for key, kept in self._made.items() if key != made.uuid}
        self._store(others | {made.uuid: made})

    def cross_out(self, uuid: str) -> None:
        """Forget a share that is gone."""
        self._store({key: made for key, made in self._made.items() if key != uuid})

    def _load(self) -> list[Made]:
        try:
            listed = json.loads(self._path.read_text())
            if not isinstance(listed, list):
                raise TypeError("it holds no list")
            return [_made(item) for item in listed]
        except FileNotFoundError:
            return []
        except (ValueError, TypeError, AttributeError, RecursionError, OSError) as error:
            raise damaged(self._path, error) from error

    def _store(self, made: dict[str, Made]) -> None:
        if list(made.items()) != list(self._made.items()):
            write_atomically(self._path, json.dumps([asdict(item) for item in made.values()]))
        self._made = made


def _made(item: Mapping[str, Any]) -> Made:
    """An entry as JSON has it; ranges are lists there."""
    ranges = {key: tuple(item[key]) for key in ("cell", "slot") if item.get(key) is not None}
    return Made(**(dict(item) | ranges))
