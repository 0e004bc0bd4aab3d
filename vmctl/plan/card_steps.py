"""What is done, or not done, to a card as it is set, as values.  Pure: apply.py carries it out."""

from dataclasses import dataclass
from typing import ClassVar

from vmctl.card import CardChange, Knob, Scheduler
from vmctl.errors import VmctlError

REBOOT = "reboot the host (or reset the card) to let it hold"


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


@dataclass(frozen=True)
class WaitForBoot:
    """A mode of a card that is set and does not hold yet: MIG or ECC."""

    kind: ClassVar[str] = "wait"
    machine: ClassVar[None] = None
    gpu: str
    knob: Knob
    wanted: bool

    @property
    def subject(self) -> str:
        mode = change_text(CardChange(self.gpu, self.knob, self.wanted)).removeprefix("turn ")
        return f"GPU {self.gpu}: {mode} holds only after a reset: {REBOOT}"


@dataclass(frozen=True)
class RefuseCard:
    """Settings of a card that cannot be; the error says why."""

    kind: ClassVar[str] = "card"
    machine: ClassVar[None] = None
    gpu: str
    error: VmctlError

    @property
    def subject(self) -> str:
        return f"GPU {self.gpu}: set it as wanted"


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
