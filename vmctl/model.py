"""The words of vmctl as values: what should be on a host, and what is. Pure; parsed once, at the edge."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from vmctl.card import CardSettings, Cell, Regime, Slot


class Order(StrEnum):
    """What the portal wants of a machine now."""

    RUN = "run"
    STOP = "stop"


class Firmware(StrEnum):
    """What a machine boots by; its image decides."""

    BIOS = "bios"
    UEFI = "uefi"
    SECURE = "uefi-secure"  # Secure Boot on, with the keys that guests' vendors sign by


# What should be -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """Where a share may be made."""

    gpu: str
    cell: Cell | None  # None: the whole GPU
    handle: int | None  # which virtual function, where the card has them
    slot: Slot = (0, 1)


@dataclass(frozen=True)
class WantedVGPU:
    """A share of a GPU that a machine should have.  `uuid` is the placement's and becomes the mediated device's."""

    uuid: str
    gpu: str
    type: str
    regime: Regime
    cell: Cell | None  # None: the whole GPU
    handle: int | None  # which virtual function, where the card has them
    slot: Slot = (0, 1)
    alternatives: tuple[Place, ...] = ()  # where else it may be made when the driver refuses the first place

    @property
    def places(self) -> tuple["WantedVGPU", ...]:
        """The same share at each place it may have, the planned one first."""
        others = (
            replace(self, gpu=place.gpu, cell=place.cell, handle=place.handle, slot=place.slot, alternatives=())
            for place in self.alternatives
        )
        return (replace(self, alternatives=()), *others)


@dataclass(frozen=True)
class Seed:
    """What a machine is told about itself at its first start in a period."""

    owner: str
    user: str
    password_hash: str
    ssh_keys: tuple[str, ...]
    period: str
    vgpu: str
    licence: int | None = None  # FeatureType of NVIDIA's guest driver (dossier 8); None: the image takes no licence


@dataclass(frozen=True)
class DesiredMachine:
    """One machine that the portal wants to run, or to stop."""

    machine: str
    reservation: str
    order: Order
    start: datetime
    end: datetime
    promised: datetime | None  # when its share is promised to somebody else
    force_at: datetime | None  # when a soft stop becomes a hard one
    hostname: str
    vcpus: int
    memory_mib: int
    disk_gib: int
    image: str
    vgpus: tuple[WantedVGPU, ...]
    seed: Seed
    firmware: Firmware = Firmware.BIOS
    tpm: bool = False

    @property
    def name(self) -> str:
        """The domain's name: readable, and unique by the machine's own identity."""
        return f"{self.hostname}-{self.machine[:8]}"


@dataclass(frozen=True)
class DesiredState:
    """What one portal wants of one host, as of one generation."""

    portal: str
    host: str
    generation: int
    stop_grace_seconds: int
    expire_allowance_seconds: int
    confirmed_stops: frozenset[str]
    purge: frozenset[str]
    machines: tuple[DesiredMachine, ...]
    cards: tuple[CardSettings, ...] = ()


# What is ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MediatedDevice:
    """A vGPU that libvirt takes by uuid."""

    uuid: str
    label: ClassVar[str] = ""

    @property
    def claims(self) -> frozenset[str]:
        """How another domain's XML would name the same thing."""
        return frozenset({self.uuid})


@dataclass(frozen=True)
class PCIFunction:
    """A vGPU, or a function of a whole card, that libvirt takes by PCI address as it is: vmctl binds and unbinds it."""

    uuid: str
    address: str
    label: ClassVar[str] = ""

    @property
    def claims(self) -> frozenset[str]:
        """How another domain's XML would name the same thing."""
        return frozenset({self.uuid, self.address})


@dataclass(frozen=True)
class StandInVideo:
    """What takes a vGPU's place where the GPU is simulated: a plain video device that bears the vGPU's uuid."""

    uuid: str
    label: str


Device = MediatedDevice | PCIFunction
"""What a host's own interface gives for a share."""

Attachment = Device | StandInVideo
"""What a domain gets for it."""


@dataclass(frozen=True)
class NumaNode:
    """A NUMA node: its processors as the kernel lists them ("0-7,16-23"), its memory, and how much of it is taken."""

    node: int
    cpus: str
    memory_mib: int
    used_mib: int = 0  # by running domains that are kept on it

    @property
    def vcpus(self) -> int:
        """How many processors those are."""
        ranges = (part.partition("-") for part in self.cpus.split(",") if part)
        return sum(int(last or first) - int(first) + 1 for first, _, last in ranges)


@dataclass(frozen=True)
class Accelerator:
    """Whether KVM works on this host (not: whether /dev/kvm is there), and the domain type that follows."""

    kvm: bool
    domain_type: str  # "kvm" | "qemu"
    reason: str
