"""What only the driver can tell of a card, as values: modes, placements, GPU instances, what runs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from vmctl.card import Mode, Scheduler, Unknown

T = TypeVar("T")


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
    vm_name: str | None = None  # the machine's name on QEMU's command line
    mdev: str | None = None  # uuid of its mediated device
    type: str = ""
    placement: int | None = None
    instance: int | None = None  # id of its GPU instance
    licence: str | None = None  # "licensed", "unlicensed (restricted)"; None: its guest has no driver, or no word
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


@dataclass(frozen=True)
class Load:
    """How busy a GPU or a vGPU is, in percent of it; None: not told."""

    gpu: int | None = None
    memory: int | None = None
    encoder: int | None = None
    decoder: int | None = None


@dataclass(frozen=True)
class GPUFigures:
    """How a GPU is at this moment."""

    load: Load = Load()
    memory_used_mib: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None


@dataclass(frozen=True)
class VGPUFigures:
    """How a running vGPU is at this moment."""

    active: Active
    load: Load = Load()
    frame_buffer_mib: int | None = None


@dataclass(frozen=True)
class Untold:
    """A question without an answer, and why: no zero, no "there is none"."""

    reason: str


class Source(Protocol):
    """Somebody who knows cards. None: the driver says that the card has no such thing. Raises nothing."""

    def vgpu_host(self, address: str) -> bool | Untold:
        """Whether the driver makes vGPUs on this card at all."""
        ...

    def name(self, address: str) -> tuple[str | None, str | None] | Untold:
        """Its UUID and model."""
        ...

    def mig(self, address: str) -> Mode | Untold | None: ...

    def ecc(self, address: str) -> Mode | Untold | None: ...

    def mixed(self, address: str) -> bool | Untold | None: ...

    def scheduler(self, address: str) -> Scheduler | Untold | None: ...

    def types(self, address: str, creatable: bool) -> Mapping[str, TypeFacts] | Untold:
        """Every vGPU type of the card; `creatable`: with the placements free now."""
        ...

    def profiles(self, address: str) -> tuple[Profile, ...] | Untold: ...

    def instances(self, address: str) -> tuple[Instance, ...] | Untold: ...

    def active(self, address: str) -> tuple[Active, ...] | Untold: ...

    def figures(self, address: str) -> GPUFigures | Untold: ...

    def vgpus(self, address: str) -> tuple[VGPUFigures, ...] | Untold: ...
