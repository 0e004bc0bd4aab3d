"""What can be done to a host, as values.  Pure: apply.py carries them out."""

from dataclasses import dataclass
from typing import ClassVar

from vmctl.card import CardChange, Knob, ProvidedVGPU, Regime, Scheduler
from vmctl.errors import VmctlError
from vmctl.model import DesiredMachine, WantedVGPU
from vmctl.observation import Mark, ObservedMachine

REBIND_SECONDS = 15.0
"""To take a card from its driver and give it back, with its virtual functions (dossier 1.2)."""
START_SECONDS = 3.0
"""libvirt's part of a start; the guest's is not waited for."""


@dataclass(frozen=True)
class Remark:
    """Tell a running machine's mark what changed: its end, when its share is promised, that it was asked to stop."""

    kind: ClassVar[str] = "remark"
    observed: ObservedMachine
    mark: Mark

    @property
    def machine(self) -> str:
        return self.observed.machine

    @property
    def subject(self) -> str:
        return f"tell {self.observed.name} that it ends at {self.mark.end.isoformat()}"


@dataclass(frozen=True)
class AskStop:
    """Ask a machine to shut down (ACPI).  Asked again at each apply: the first may be lost while it boots."""

    kind: ClassVar[str] = "ask_stop"
    observed: ObservedMachine
    reason: str

    @property
    def machine(self) -> str:
        return self.observed.machine

    @property
    def subject(self) -> str:
        return f"ask {self.observed.name} to shut down: {self.reason}"


@dataclass(frozen=True)
class ForceStop:
    """Take a machine's power away."""

    kind: ClassVar[str] = "force_stop"
    observed: ObservedMachine
    reason: str

    @property
    def machine(self) -> str:
        return self.observed.machine

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
class ChangeCard:
    """Set one knob of a card that nothing uses."""

    kind: ClassVar[str] = "card"
    machine: ClassVar[None] = None
    change: CardChange

    @property
    def subject(self) -> str:
        return f"GPU {self.change.gpu}: {change_text(self.change)}"


@dataclass(frozen=True)
class WaitForDrain:
    """Changes of a card that wait until nothing uses it; `holders` says what does."""

    kind: ClassVar[str] = "wait"
    machine: ClassVar[None] = None
    changes: tuple[CardChange, ...]
    holders: tuple[str, ...]

    @property
    def subject(self) -> str:
        wanted = ", ".join(change_text(change) for change in self.changes)
        return f"GPU {self.changes[0].gpu}: {wanted}, once nothing uses it; now held by {', '.join(self.holders)}"


def change_text(change: CardChange) -> str:
    """A change in words."""
    match change.knob, change.wanted:
        case Knob.VFS, None:
            return "turn all virtual functions on"
        case Knob.VFS, 0:
            return "turn the virtual functions off"
        case Knob.VFS, count:
            return f"turn {count} virtual functions on"
        case Knob.SCHEDULER, Scheduler(policy, time_slice):
            return f"set the scheduler to {policy}" + ("" if time_slice is None else f" with {time_slice} us")
    names = {Knob.MIG: "MIG", Knob.MIXED: "mixed size", Knob.ECC: "ECC"}
    return f"turn {names[change.knob]} {'on' if change.wanted else 'off'}"


@dataclass(frozen=True)
class Provide:
    """Make a vGPU for a machine that is about to start."""

    kind: ClassVar[str] = "provide"
    wish: DesiredMachine
    vgpu: WantedVGPU

    @property
    def machine(self) -> str:
        return self.wish.machine

    @property
    def subject(self) -> str:
        return f"make a {self.vgpu.type} on {self.vgpu.gpu} for {self.wish.name}"


@dataclass(frozen=True)
class MakeDisk:
    """Give a machine its disk."""

    kind: ClassVar[str] = "disk"
    wish: DesiredMachine

    @property
    def machine(self) -> str:
        return self.wish.machine

    @property
    def subject(self) -> str:
        return f"make a disk of {self.wish.disk_gib} GiB on {self.wish.image} for {self.wish.name}"


@dataclass(frozen=True)
class Start:
    """Start a machine with everything it was promised, or not at all."""

    kind: ClassVar[str] = "start"
    wish: DesiredMachine

    @property
    def machine(self) -> str:
        return self.wish.machine

    @property
    def subject(self) -> str:
        return f"start {self.wish.name}"


@dataclass(frozen=True)
class Refuse:
    """A start that cannot be; the error says why."""

    kind: ClassVar[str] = "start"
    wish: DesiredMachine
    error: VmctlError

    @property
    def machine(self) -> str:
        return self.wish.machine

    @property
    def subject(self) -> str:
        return f"start {self.wish.name}"


@dataclass(frozen=True)
class KeepFilter:
    """Keep running machines away from addresses that the host has got since they started; told only when it fails."""

    kind: ClassVar[str] = "filter"
    machine: ClassVar[None] = None
    subject: ClassVar[str] = "bring the guests' filter up to date"


Step = (
    Remark
    | AskStop
    | ForceStop
    | Release
    | Clear
    | Purge
    | ChangeCard
    | WaitForDrain
    | Provide
    | MakeDisk
    | Start
    | Refuse
    | KeepFilter
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
    return 0.0 if isinstance(step, WaitForDrain | Refuse) else 1.0


@dataclass(frozen=True)
class Plan:
    """The steps in their order, and the machines that are not stopped before an operator says so."""

    steps: tuple[Step, ...]
    needs_confirmation: tuple[str, ...] = ()
