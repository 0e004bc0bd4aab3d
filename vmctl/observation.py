"""A host as it is at one moment: machines, foreign domains, GPUs, disks. Pure values; observe.py looks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from uuid import NAMESPACE_OID, uuid5

from vmctl.card import GPU, ProvidedVGPU, Unknown
from vmctl.model import Accelerator, NumaNode


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


ACCEPTANCE = "00000000-0000-0000-0000-000000000000"
"""The portal in the mark of an acceptance's guest: nobody's. It lives only while its acceptance holds the lock."""


def acceptance_machine(host: str, gpu: str) -> str:
    """The machine in whose name the acceptance of a card makes things."""
    return str(uuid5(NAMESPACE_OID, f"vmctl accept {host} {gpu}"))


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

    def belongs_to(self, host: str, uuid: str) -> bool:
        """Whether it stands on the machine it was made for; a copied one (virt-clone copies metadata) does not."""
        return (self.host, self.machine) == (host, uuid)

    @property
    def by_acceptance(self) -> bool:
        """Whether the machine is the guest of an acceptance, and no portal's."""
        return self.portal == ACCEPTANCE


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
    nodes: tuple[NumaNode, ...] = ()


@dataclass(frozen=True)
class Claimant:
    """A domain that names devices in its XML, running or not."""

    uuid: str
    name: str
    state: MachineState
    ours: bool
    claims: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Whose:
    """Who has the shares of a host: the domains that name devices, and the shares that vmctl made."""

    domains: Mapping[str, Claimant]  # by uuid
    made: frozenset[str]

    def claimant(self, vgpu: ProvidedVGPU) -> Claimant | None:
        """The domain that names a share."""
        return self.domains.get(vgpu.holder) if vgpu.holder is not None else None

    def ours(self, vgpu: ProvidedVGPU) -> bool:
        """Whether vmctl made a share, by its notes or by the mark of the machine that has it."""
        claimant = self.claimant(vgpu)
        return vgpu.uuid in self.made or (claimant is not None and claimant.ours)


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

    @property
    def whose(self) -> Whose:
        """Who has them."""
        return Whose({domain.uuid: domain for domain in claimants(self.machines, self.foreign)}, self.ours)


def claimants(machines: Iterable[ObservedMachine], foreign: Iterable[ForeignDomain]) -> tuple[Claimant, ...]:
    """Every domain with what it claims; those that run come last, and so prevail where two name one device."""
    found = (
        *(Claimant(each.machine, each.name, each.state, True, each.claims) for each in machines),
        *(Claimant(each.uuid, each.name, each.state, False, each.claims) for each in foreign),
    )
    return tuple(sorted(found, key=lambda each: each.state is not MachineState.OFF))
