"""The words for GPUs as values: what a card is, how it is cut, what is on it, how it should be set. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

Cell = tuple[int, int]
"""A half-open range on the ruler of the GPU's regime."""

Slot = tuple[int, int]
"""A half-open range inside a cell: finer than [0, 1) only where several vGPUs share one GPU instance."""


def span(place: Cell | Slot | None) -> str:
    """A place in words: half-open, as everywhere."""
    return "no place of its own" if place is None else f"[{place[0]}, {place[1]})"


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
    """The kernel interface through which a card's shares are made; decided card by card."""

    MDEV_PF = "mdev-pf"
    MDEV_VF = "mdev-vf"
    VENDOR_VFIO = "vendor-vfio"
    SRIOV = "sriov"
    PASSTHROUGH = "passthrough"  # only whole: on vfio-pci, or a driver that cuts nothing
    NONE = "none"


HOLDERS = "holders"
"""What is unknown where shares may exist that no list shows; every other gap of a card is about what it offers."""


@dataclass(frozen=True)
class Unknown:
    """A field we could not tell, and why.  Never to be read as "nothing there"."""

    what: str
    reason: str


# How a card is set --------------------------------------------------------------------------------


@dataclass(frozen=True)
class VFs:
    """How many SR-IOV virtual functions a card can have, has, and has without a share on them."""

    total: int
    enabled: int
    free: int | None = None


@dataclass(frozen=True)
class Mode:
    """A switch of a card (MIG, ECC): what holds now, and after the next reset or reboot of the host."""

    current: bool
    pending: bool


class Policy(StrEnum):
    """How vGPUs of one GPU share its time (dossier 4.1)."""

    BEST_EFFORT = "best_effort"
    EQUAL_SHARE = "equal_share"
    FIXED_SHARE = "fixed_share"


@dataclass(frozen=True)
class Scheduler:
    """A policy, and its time slice in microseconds; None: the driver's own."""

    policy: Policy
    time_slice_us: int | None = None

    def serves(self, wanted: Scheduler) -> bool:
        """Whether a card with this is set as wanted; a time slice that nobody asked for is the driver's own."""
        return self.policy is wanted.policy and wanted.time_slice_us in (None, self.time_slice_us)


@dataclass(frozen=True)
class CardSettings:
    """How a card should be set. None: as it is."""

    gpu: str
    regime: Regime | None = None
    vfs: int | None = None  # plain SR-IOV: how many parts; elsewhere the driver decides
    scheduler: Scheduler | None = None
    ecc: bool | None = None
    types: tuple[str, ...] | None = None  # the only ones offered


class Knob(StrEnum):
    """What can be changed on a card while nothing uses it."""

    VFS = "vfs"
    MIG = "mig"
    MIXED = "mixed"
    SCHEDULER = "scheduler"
    ECC = "ecc"


@dataclass(frozen=True)
class CardChange:
    """One knob of one card from a value to another. VFS: how many (0: off); None: as many as the card has."""

    gpu: str
    knob: Knob
    wanted: int | bool | Scheduler | None


# What a card is cut into --------------------------------------------------------------------------


@dataclass(frozen=True)
class VGPUType:
    """One size that a GPU can be cut into, as the driver offers it on this card now."""

    name: str  # "T4-4Q"
    driver_id: str  # "nvidia-232" or "1155": belongs to the driver release, never stored by the portal
    series: str
    memory_mib: int | None  # None where the driver tells neither name nor description: then it has no cells
    size_group: str  # types of one group may stand side by side on an equal-size GPU, or in one GPU instance
    regime: Regime
    max: int | None  # None: not told, like free; a cell that cannot be told free is not among free_cells
    cells: tuple[Cell, ...]  # the legal ones
    free_cells: tuple[Cell, ...]  # those free now
    slots: tuple[Slot, ...] = ((0, 1),)
    free: int | None = 0  # how many more of this type the GPU takes now
    gi_profile: str | None = None  # MIG: the profile of its GPU instance, "3g.40gb"
    media: bool = False  # MIG: a profile with media engines, of which a GPU has one


@dataclass(frozen=True)
class ProvidedVGPU:
    """A share that exists on the host."""

    uuid: str | None  # the placement's; None: nobody's that we know
    gpu: str  # address of the physical function
    type: str  # "T4-4Q", or the driver's id where it has no name; the model of a whole GPU; a GPU instance's profile
    framework: Framework
    parent: str  # address of the function it is made on, physical or virtual; of a GPU instance: "gpu-instance 3"
    size_group: str
    handle: int | None = None  # the number of its virtual function
    holder: str | None = None  # uuid of the machine (or foreign domain) whose XML names it
    regime: Regime = Regime.EQUAL
    cell: Cell | None = None  # None: the whole GPU, or equal shares, which have no place of their own
    slot: Slot | None = None
    licence: str | None = None  # what the driver says of its guest's licence; None: nothing

    @property
    def device(self) -> str:
        """What a domain's XML names: the mediated device's uuid or the function's address."""
        mediated = self.framework in (Framework.MDEV_PF, Framework.MDEV_VF)
        return self.uuid if mediated and self.uuid else self.parent


@dataclass(frozen=True)
class GPU:
    """One physical GPU with everything that could be read about it. None: not so here, or named in `unknown`."""

    address: str
    model: str
    vendor: str
    device: str
    framework: Framework
    reason: str = ""  # why it has this framework, or none
    uuid: str | None = None
    numa_node: int | None = None
    driver: str | None = None
    iommu_group: str | None = None
    iommu_members: tuple[str, ...] = ()
    vfs: VFs | None = None
    memory_mib: int | None = None
    handles: int | None = 0  # how many vGPUs can exist at once
    regime: Regime | None = None  # the one it is in
    regimes: tuple[Regime, ...] = ()  # those it can be used in without an operator
    regime_change_seconds: int | None = None
    mig: Mode | None = None
    ecc: Mode | None = None
    mixed: bool | None = None  # whether vGPUs of several sizes may stand side by side
    scheduler: Scheduler | None = None
    types: tuple[VGPUType, ...] = ()
    holders: tuple[ProvidedVGPU, ...] = ()
    unknown: tuple[Unknown, ...] = ()
