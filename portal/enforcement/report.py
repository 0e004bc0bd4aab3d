"""What a host answered, parsed once at the edge. Pure: a document that does not fit becomes one ValueError."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

T = TypeVar("T")


@dataclass(frozen=True)
class SeenMachine:
    """One of our machines as the host has it."""

    machine: UUID
    reservation: UUID | None
    name: str
    state: str
    end: datetime | None
    console: bool
    vgpus: frozenset[UUID]
    screen: str = ""  # what its console shows: "vgpu", or only the "boot"


@dataclass(frozen=True)
class SeenVGPU:
    """One share that exists on the host. uuid: None for a foreign one without; ours: None: it could not tell.

    device: what tells it apart; cell and slot: None where it has no place of its own, as equal shares.
    machine: the domain that names it, ours or not, running or off; licence: what the driver says of its guest's.
    """

    uuid: UUID | None
    gpu: str
    type: str
    size_group: str
    handle: int | None
    machine: UUID | None
    ours: bool | None
    device: str = ""
    regime: str = ""
    cell: tuple[int, int] | None = None
    slot: tuple[int, int] | None = None
    licence: str = ""


@dataclass(frozen=True)
class SeenDisk:
    """A machine's disk on this host."""

    machine: UUID
    mib: int
    present: bool = True


@dataclass(frozen=True)
class Step:
    """One thing vmctl did or tried. error: vmctl's own {code, what, remedy, retry}."""

    kind: str
    machine: UUID | None
    subject: str
    done: bool
    error: Mapping[str, Any] | None


@dataclass(frozen=True)
class Report:
    """A host's answer. Where `unknown` is not empty, what is missing from the lists may still be there."""

    host: str
    portal: UUID | None
    generation: int
    observed_at: datetime
    machines: tuple[SeenMachine, ...]
    vgpus: tuple[SeenVGPU, ...]
    disks: tuple[SeenDisk, ...]
    gpus: tuple[Mapping[str, Any], ...]
    unknown: tuple[str, ...]
    steps: tuple[Step, ...]
    needs_confirmation: tuple[UUID, ...]

    @property
    def complete(self) -> bool:
        """May absence be believed? What a card cannot tell of its own offers is no gap in the lists."""
        return not self.unknown


def parse(document: Mapping[str, Any]) -> Report:
    """Read a report of schema 1 (docs/schemas/report.schema.json); ValueError says what is wrong with it."""
    try:
        return _parse(document)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"the report does not fit its schema: {type(error).__name__} {error}") from error


def _parse(document: Mapping[str, Any]) -> Report:
    return Report(
        host=_string(document["host"]),
        portal=_optional(UUID, document["portal"]),
        generation=int(document["generation"]),
        observed_at=_moment(document["observed_at"]),
        machines=tuple(_machine(entry) for entry in document["machines"]),
        vgpus=tuple(_vgpu(entry) for entry in document["vgpus"]),
        disks=tuple(_disk(entry) for entry in document["disks"]),
        gpus=tuple(_gpu(entry) for entry in document["gpus"]),
        unknown=tuple(_gaps(document)),
        steps=tuple(_step(entry) for entry in document.get("steps", ())),
        needs_confirmation=tuple(UUID(entry) for entry in document.get("needs_confirmation", ())),
    )


def _machine(entry: Mapping[str, Any]) -> SeenMachine:
    return SeenMachine(
        machine=UUID(entry["machine"]),
        reservation=_optional(UUID, entry["reservation"]),
        name=_string(entry["name"]),
        state=_string(entry["state"]),
        end=_optional(_moment, entry["end"]),
        console=entry["console"] is True,
        vgpus=frozenset(UUID(uuid) for uuid in entry["vgpus"]),
        screen=_string(entry["screen"]),
    )


def _vgpu(entry: Mapping[str, Any]) -> SeenVGPU:
    return SeenVGPU(
        uuid=_optional(UUID, entry["uuid"]),
        gpu=_string(entry["gpu"]),
        type=str(entry["type"]),
        size_group=str(entry["size_group"]),
        handle=_optional(int, entry["handle"]),
        machine=_optional(UUID, entry["machine"]),
        ours=entry["ours"],
        device=str(entry["device"]),
        regime=str(entry["regime"]),
        cell=_optional(_span, entry["cell"]),
        slot=_optional(_span, entry["slot"]),
        licence=str(entry["licence"] or ""),
    )


def _disk(entry: Mapping[str, Any]) -> SeenDisk:
    return SeenDisk(UUID(entry["machine"]), int(entry["mib"]), entry["present"] is True)


def _gpu(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Passed on to the inventory as it is, once the two fields that decide here are known to be there."""
    _string(entry["address"])
    dict(entry["unknown"])
    return entry


def _gaps(entry: Mapping[str, Any]) -> list[str]:
    return [f"{gap['what']}: {gap['reason']}" for gap in entry["unknown"]]


def _step(entry: Mapping[str, Any]) -> Step:
    return Step(
        kind=_string(entry["kind"]),
        machine=_optional(UUID, entry["machine"]),
        subject=str(entry["subject"]),
        done=entry["done"] is True,
        error=entry["error"],
    )


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a text")
    return value


def _moment(value: Any) -> datetime:
    """ISO 8601 with an offset; a time without one is refused, it could mean anything."""
    moment = datetime.fromisoformat(_string(value))
    if moment.tzinfo is None:
        raise ValueError(f"{value!r} has no offset")
    return moment


def _span(value: Any) -> tuple[int, int]:
    """A half-open range that is not empty."""
    low, high = (int(bound) for bound in value)
    if not 0 <= low < high:
        raise ValueError(f"{value!r} is not a range")
    return low, high


def _optional(read: Callable[[Any], T], value: Any) -> T | None:
    return None if value is None else read(value)
