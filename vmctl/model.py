"""The words of vmctl as values: what should be on a host, and what is. Pure; parsed once, at the edge."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

Cell = tuple[int, int]
"""A half-open range on the ruler of the GPU's regime."""

ADDRESS = r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
"""A PCI address as sysfs writes it; domains may have five digits (VMD)."""


class Regime(StrEnum):
    """How a GPU is shared; one at a time."""

    EQUAL = "equal"
    MIXED = "mixed"
    MIG = "mig"
    VF = "vf"
    WHOLE = "whole"


class Framework(StrEnum):
    """The kernel interface through which a card's shares are made."""

    MDEV_PF = "mdev_pf"
    MDEV_VF = "mdev_vf"
    VENDOR_VFIO = "vendor_vfio"
    NONE = "none"


class Order(StrEnum):
    """What the portal wants of a machine now."""

    RUN = "run"
    STOP = "stop"


# What should be -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class WantedVGPU:
    """A share of a GPU that a machine should have.  `uuid` is the placement's and becomes the mediated device's."""

    uuid: str
    gpu: str
    type: str
    regime: Regime
    cell: Cell | None  # None: the whole GPU
    handle: int | None  # which virtual function, where the card has them


@dataclass(frozen=True)
class Seed:
    """What a machine is told about itself at its first start in a period."""

    owner: str
    user: str
    password_hash: str
    ssh_keys: tuple[str, ...]
    period: str
    vgpu: str


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


# What is ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Unknown:
    """Something we could not tell, and why.  Never to be read as "nothing there"."""

    what: str
    reason: str


@dataclass(frozen=True)
class VGPUType:
    """One size that a GPU can be cut into, as the driver offers it on this card now."""

    name: str  # "T4-4Q"
    driver_id: str  # "nvidia-232": belongs to the driver release, never stored by the portal
    series: str
    memory_mib: int | None  # None where the driver tells neither name nor description: then it has no cells
    size_group: str  # types of one group may stand side by side on an equal-size GPU
    regime: Regime
    max: int
    cells: tuple[Cell, ...]
    free_cells: tuple[Cell, ...]


@dataclass(frozen=True)
class ProvidedVGPU:
    """A share that exists on the host."""

    uuid: str
    gpu: str  # address of the physical function
    type: str  # "T4-4Q", or the driver's id where it has no name
    framework: Framework
    parent: str  # address of the function the share was made on: the physical one, or a virtual one
    size_group: str
    handle: int | None = None
    holder: str | None = None  # uuid of the machine (or foreign domain) whose XML names it


@dataclass(frozen=True)
class SRIOV:
    """How many virtual functions a card can have, and has."""

    total: int
    enabled: int


@dataclass(frozen=True)
class GPU:
    """One physical GPU with everything that could be read about it."""

    address: str
    model: str
    vendor: str
    device: str
    framework: Framework
    uuid: str | None = None
    numa_node: int | None = None
    driver: str | None = None
    iommu_group: str | None = None
    iommu_members: tuple[str, ...] = ()
    sriov: SRIOV | None = None
    memory_mib: int | None = None
    handles: int = 0  # how many vGPUs can exist at once
    regimes: tuple[Regime, ...] = ()
    types: tuple[VGPUType, ...] = ()
    holders: tuple[ProvidedVGPU, ...] = ()
    unknown: tuple[Unknown, ...] = ()


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
    """A vGPU or GPU that libvirt takes by PCI address.  `managed`: libvirt may rebind it (whole functions only)."""

    uuid: str
    address: str
    managed: bool = False
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
class Accelerator:
    """Whether KVM works on this host (not: whether /dev/kvm is there), and the domain type that follows."""

    kvm: bool
    domain_type: str  # "kvm" | "qemu"
    reason: str
