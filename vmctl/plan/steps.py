"""What can be done to a host, as values.  Pure: apply.py carries them out."""

from dataclasses import dataclass
from typing import ClassVar

from vmctl.card import CardChange, Knob, ProvidedVGPU, Regime
from vmctl.errors import VmctlError
from vmctl.model import DesiredMachine, WantedVGPU
from vmctl.observation import Mark, ObservedMachine
from vmctl.plan.card_steps import ChangeCard, RefuseCard, WaitForBoot, WaitForDrain

REBIND_SECONDS = 15.0
"""To take a card from its driver and give it back, with its virtual functions (dossier 1.2)."""
START_SECONDS = 8.0
"""libvirt's part of a start; the guest's is not waited for."""


@dataclass(frozen=True)
class OfObserved:
    """A step for a machine that is there."""

    observed: ObservedMachine

    @property
    def machine(self) -> str:
        return self.observed.machine


@dataclass(frozen=True)
class OfWish:
    """A step for a machine that should be there."""

    wish: DesiredMachine

    @property
    def machine(self) -> str:
        return self.wish.machine


@dataclass(frozen=True)
class Remark(OfObserved):
    """Tell a running machine's mark what changed: its end, when its share is promised, that it was asked to stop."""

    kind: ClassVar[str] = "remark"
    mark: Mark

    @property
    def subject(self) -> str:
        return f"tell {self.observed.name} that it ends at {self.mark.end.isoformat()}"


@dataclass(frozen=True)
class AskStop(OfObserved):
    """Ask a machine to shut down (ACPI).  Asked again at each apply: the first may be lost while it boots."""

    kind: ClassVar[str] = "ask_stop"
    reason: str

    @property
    def subject(self) -> str:
        return f"ask {self.observed.name} to shut down: {self.reason}"


@dataclass(frozen=True)
class ForceStop(OfObserved):
    """Take a machine's power away."""

    kind: ClassVar[str] = "force_stop"
    reason: str

    @property
    def subject(self) -> str:
        return f"switch {self.observed.name} off: {self.reason}"


@dataclass(frozen=True)
class Release:
    """Take away a vGPU that we made and nobody uses; `machine` is whose it was, where that is known."""

    kind: ClassVar[str] = "release"
    vgpu: ProvidedVGPU
    machine: str | None

    @property
    def subject(self) -> str:
        return f"release the vGPU {self.vgpu.uuid} ({self.vgpu.type}) on {self.vgpu.gpu}"


@dataclass(frozen=True)
class Clear:
    """Remove what lay beside a machine's disk only while it ran."""

    kind: ClassVar[str] = "clear"
    machine: str

    @property
    def subject(self) -> str:
        return f"remove seed, serial log and console socket of {self.machine}"


@dataclass(frozen=True)
class Purge:
    """Remove a machine's disk for good."""

    kind: ClassVar[str] = "purge"
    machine: str

    @property
    def subject(self) -> str:
        return f"remove the disk of {self.machine}"


@dataclass(frozen=True)
class Provide(OfWish):
    """Make a vGPU for a machine that is about to start."""

    kind: ClassVar[str] = "provide"
    vgpu: WantedVGPU
    made: ProvidedVGPU | None = None  # where it was really made, once it was

    @property
    def subject(self) -> str:
        wanted = self.vgpu
        if self.made is None or self.made.gpu == wanted.gpu:
            return f"make a {wanted.type} on {wanted.gpu} for {self.wish.name}"
        return f"make a {wanted.type} on {self.made.gpu} for {self.wish.name}, since {wanted.gpu} had no room for it"


@dataclass(frozen=True)
class MakeDisk(OfWish):
    """Give a machine its disk."""

    kind: ClassVar[str] = "disk"

    @property
    def subject(self) -> str:
        return f"make a disk of {self.wish.disk_gib} GiB on {self.wish.image} for {self.wish.name}"


@dataclass(frozen=True)
class Start(OfWish):
    """Start a machine with everything it was promised, or not at all."""

    kind: ClassVar[str] = "start"

    @property
    def subject(self) -> str:
        return f"start {self.wish.name}"


@dataclass(frozen=True)
class Refuse(OfWish):
    """A start that cannot be; the error says why."""

    kind: ClassVar[str] = "start"
    error: VmctlError

    @property
    def subject(self) -> str:
        return f"start {self.wish.name}"


@dataclass(frozen=True)
class KeepFilter:
    """Keep running machines away from addresses that the host has got since they started; told only when it fails."""

    kind: ClassVar[str] = "filter"
    machine: ClassVar[None] = None
    subject: ClassVar[str] = "bring the guests' filter up to date"


@dataclass(frozen=True)
class Remember:
    """Keep the portal's last word; told only when it fails."""

    kind: ClassVar[str] = "remember"
    machine: ClassVar[None] = None
    subject: ClassVar[str] = "remember what the portal said"


Step = (
    Remark
    | AskStop
    | ForceStop
    | Release
    | Clear
    | Purge
    | ChangeCard
    | WaitForDrain
    | WaitForBoot
    | RefuseCard
    | Provide
    | MakeDisk
    | Start
    | Refuse
    | KeepFilter
    | Remember
)


def usual_seconds(step: Step) -> float:
    """What a step takes where nothing is wrong. Without virtual functions or MIG, none takes more than a moment."""
    match step:
        case ChangeCard(CardChange(knob=Knob.VFS | Knob.MIG)) | Provide(vgpu=WantedVGPU(regime=Regime.WHOLE)):
            return REBIND_SECONDS
        case Start():
            return START_SECONDS
        case Release(ProvidedVGPU(regime=Regime.WHOLE)):
            return REBIND_SECONDS
    return 0.0 if isinstance(step, WaitForDrain | WaitForBoot | Refuse | RefuseCard) else 1.0


@dataclass(frozen=True)
class Plan:
    """The steps in their order, and the machines that are not stopped before an operator says so."""

    steps: tuple[Step, ...]
    needs_confirmation: tuple[str, ...] = ()
