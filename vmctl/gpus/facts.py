"""What only the driver can tell of a card: modes, placements, GPU instances, what runs. None: it did not say.

From NVML where its library loads, else from nvidia-smi, read by label (dossier 5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vmctl.card import Mode, Scheduler, Unknown
from vmctl.host import Host


@dataclass(frozen=True)
class TypeFacts:
    """What the driver knows of a vGPU type on one GPU. Placements are start ids in units of its region (3.2)."""

    name: str  # without the driver's prefix
    number: int | None = None  # the type id, decimal
    memory_mib: int | None = None
    most: int | None = None  # per GPU at equal size
    per_instance: int | None = None  # MIG: how many share one GPU instance
    profile_id: int | None = None  # MIG: the GPU instance profile it needs
    placement_size: int | None = None
    placements: tuple[int, ...] | None = None  # the legal starts in mixed size
    creatable: tuple[int, ...] | None = None  # those free now


@dataclass(frozen=True)
class Profile:
    """A MIG profile of one GPU: its legal starts, in memory slices, and how many fit now."""

    id: int
    name: str  # "3g.40gb", "1g.10gb+me"
    size: int
    starts: tuple[int, ...]
    free: int | None = None
    total: int | None = None
    media: bool = False


@dataclass(frozen=True)
class Instance:
    """A MIG GPU instance that exists: the slices [start, start + size)."""

    id: int
    profile: str
    profile_id: int
    start: int
    size: int


@dataclass(frozen=True)
class Active:
    """A vGPU whose machine runs, as the driver sees it."""

    number: int  # the driver's own id of it
    vm: str | None = None  # uuid of its machine
    mdev: str | None = None  # uuid of its mediated device
    type: str = ""
    placement: int | None = None
    instance: int | None = None  # id of its GPU instance
    licence: str | None = None
    guest_driver: str | None = None
    frame_buffer_used_mib: int | None = None


@dataclass(frozen=True)
class DriverFacts:
    """What the driver tells of one card."""

    uuid: str | None = None
    model: str | None = None
    mig: Mode | None = None
    ecc: Mode | None = None
    mixed: bool | None = None
    scheduler: Scheduler | None = None
    types: Mapping[str, TypeFacts] = field(default_factory=dict)
    profiles: tuple[Profile, ...] = ()
    instances: tuple[Instance, ...] | None = None  # None: not in MIG mode, or not to be told
    active: tuple[Active, ...] | None = None
    unknown: tuple[Unknown, ...] = ()


def read(host: Host) -> Mapping[str, DriverFacts]:
    """The facts of every card that the driver drives, by address as sysfs writes it. Raises nothing."""
    return {}
