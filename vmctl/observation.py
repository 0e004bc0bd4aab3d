"""A host as it is at one moment: machines, foreign domains, GPUs, disks. Pure values; observe.py looks."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from vmctl.card import GPU, ProvidedVGPU, Unknown
from vmctl.model import Accelerator


class MachineState(StrEnum):
    """A machine as libvirt shows it; `stopping` is ours: it was asked to shut down."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    CRASHED = "crashed"
    OFF = "off"
    UNKNOWN = "unknown"


class Screen(StrEnum):
    """What a machine's console shows: all of it, or only the boot, until the driver of its vGPU takes over."""

    VGPU = "vgpu"
    BOOT = "boot"


@dataclass(frozen=True)
class MarkedVGPU:
    """A vGPU as the mark remembers it."""

    uuid: str
    gpu: str
    type: str


@dataclass(frozen=True)
class Mark:
    """What vmctl writes into a domain's metadata: whose it is and until when.  Without it a domain is foreign."""

    portal: str
    host: str
    machine: str
    reservation: str
    end: datetime
    promised: datetime | None = None
    asked: datetime | None = None  # when it was first asked to shut down
    vgpus: tuple[MarkedVGPU, ...] = ()


@dataclass(frozen=True)
class ObservedMachine:
    """A domain that bears our mark."""

    machine: str
    name: str
    state: MachineState
    mark: Mark
    address: str | None = None
    console: bool = False
    claims: frozenset[str] = frozenset()
    trouble: str | None = None  # why its state could not be told
    screen: Screen = Screen.VGPU


@dataclass(frozen=True)
class ForeignDomain:
    """A domain that is not ours.  Only looked at; `claims` are the uuids and PCI addresses its XML names."""

    name: str
    uuid: str
    state: MachineState
    claims: frozenset[str] = frozenset()
    trouble: str | None = None


@dataclass(frozen=True)
class Disk:
    """A machine's folder in the storage, and what of a running machine lies there. `mib`: what it takes."""

    machine: str
    mib: int
    present: bool  # the disk itself is there
    seed: bool
    leftovers: tuple[str, ...] = ()  # everything beside the disk: seed, serial log, half-made files


@dataclass(frozen=True)
class Capacity:
    """What the host has for all machines together."""

    vcpus: int
    memory_mib: int
    disk_free_mib: int


@dataclass(frozen=True)
class Observation:
    """A host as it is at one moment."""

    host: str
    observed_at: datetime
    simulated: bool
    accelerator: Accelerator
    capacity: Capacity
    machines: tuple[ObservedMachine, ...] = ()
    foreign: tuple[ForeignDomain, ...] = ()
    gpus: tuple[GPU, ...] = ()
    disks: tuple[Disk, ...] = ()
    sockets: frozenset[str] = frozenset()  # machines whose console socket exists
    ours: frozenset[str] = field(default_factory=frozenset)  # uuids of vGPUs that vmctl made for machines
    unknown: tuple[Unknown, ...] = ()  # what may be missing above; while there is any, absence proves nothing

    @property
    def vgpus(self) -> tuple[ProvidedVGPU, ...]:
        """Every share on every GPU."""
        return tuple(vgpu for gpu in self.gpus for vgpu in gpu.holders)
