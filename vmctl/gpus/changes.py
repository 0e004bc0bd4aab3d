"""Changes how a card is set, while nothing uses it, in the order of dossier 1.5. A GPU is never reset from here.

What the tools answer says little (field log A20, A24): what counts is what the driver and the kernel tell afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

from vmctl.card import CardChange, Knob, Mode, Policy, Scheduler
from vmctl.errors import Code, VmctlError
from vmctl.gpus import cards, drain, functions
from vmctl.gpus.cards import Card
from vmctl.gpus.driver import lock, time_slices
from vmctl.gpus.shares import Survey
from vmctl.host import Answer, Host

LIMIT = 40.0  # seconds for one call of nvidia-smi
POLICIES = {Policy.BEST_EFFORT: "1", Policy.EQUAL_SHARE: "2", Policy.FIXED_SHARE: "3"}
"""As nvidia-smi numbers them (dossier 4.1)."""
REBINDS = (Knob.VFS, Knob.MIG)
"""What takes the card from its driver for a moment, or needs it alone: then nobody at all may have it open."""


def change(host: Host, wanted: CardChange) -> None:
    """See to it that a card is set so. Does nothing where it is, or will be after the reset that is due already.

    Raises VmctlError: busy (retry) that names the holders while the card is not empty; later (retry) where too little
    is left until the host's deadline; failed where nothing came of it.
    """
    with lock.alone(host):
        survey = Survey(host, locked=True)
        card = _card(host, wanted)
        if _is_so(survey, card, wanted):
            return
        drain.refuse_held(survey, card)
        if wanted.knob in REBINDS:
            drain.refuse_open(survey, card)
        said = _carry_out(host, card, wanted)
    after = Survey(host)
    if not _is_so(after, _card(host, wanted), wanted):
        now = _shown(after, _card(host, wanted), wanted.knob)
        what = f"{wanted.knob} of GPU {card.address} was to be {_text(wanted.wanted)}, but is {_text(now)}"
        raise VmctlError(
            Code.COULD_NOT_TELL if now is None else Code.FAILED,
            f"{what}; {said}." if said else f"{what}.",
            "Look at the kernel's log of this minute (dmesg) and at vmctl check.",
            retry=True,
        )


def _card(host: Host, wanted: CardChange) -> Card:
    card = cards.find(host, wanted.gpu)
    if card is None:
        raise VmctlError(Code.FAILED, f"There is no GPU {wanted.gpu} on {host.name}.", "Look at vmctl gpus.")
    return card


def _is_so(survey: Survey, card: Card, wanted: CardChange) -> bool:
    now = _shown(survey, card, wanted.knob)
    match wanted.wanted:
        case None:
            return card.vfs is not None and now == card.vfs.total
        case Scheduler():
            return isinstance(now, Scheduler) and now.serves(wanted.wanted)
        case value:
            return now == value


def _shown(survey: Survey, card: Card, knob: Knob) -> int | bool | Scheduler | None:
    """What a knob is at now, after the reset that is due where one is; None: not told."""
    if knob is Knob.VFS:
        return card.vfs.enabled if card.vfs is not None else None
    told = survey.of(card)
    values: dict[Knob, bool | Scheduler | None] = {
        Knob.MIG: _pending(told.mig),
        Knob.ECC: _pending(told.ecc),
        Knob.MIXED: told.mixed,
        Knob.SCHEDULER: time_slices.scheduler(survey.host, card.address, told),
    }
    return values[knob]


def _pending(mode: Mode | None) -> bool | None:
    return None if mode is None else mode.pending


def _carry_out(host: Host, card: Card, wanted: CardChange) -> str:
    """Do it; gives what the tool said. Raises VmctlError."""
    match wanted.knob, wanted.wanted:
        case Knob.VFS, None:
            functions.set_count(host, card, None)
        case Knob.VFS, int(number):
            functions.set_count(host, card, number)
        case Knob.MIG, bool(mode):
            return _set_mig(host, card, mode)
        case Knob.MIXED, bool(mode):
            return _said(_smi(host, "vgpu", "-i", card.address, "-shm", str(int(mode))))
        case Knob.ECC, bool(mode):
            return _said(_smi(host, "-i", card.address, "-e", str(int(mode))))
        case Knob.SCHEDULER, Scheduler() as scheduler:
            return _set_scheduler(host, card, scheduler)
        case knob, value:
            raise VmctlError(Code.BAD_INPUT, f"{knob} cannot be set to {value!r}.", "Look at docs/schemas.")
    return ""


def _slice(slice_us: int | None) -> Sequence[str]:
    """A time slice of one's own goes without the adaptive round robin (dossier 4.1); nvidia-smi counts in ns."""
    return () if slice_us is None else ("-a", "0", "-ts", str(slice_us * 1000))


def _set_scheduler(host: Host, card: Card, wanted: Scheduler) -> str:
    """The slice is noted once the tool took it: an empty card shows the policy alone (time_slices.py)."""
    words = ["vgpu", "set-scheduler-state", "-i", card.address, "-p", POLICIES[wanted.policy]]
    time_slices.forget(host, card.address)  # or, cut off here, an older note might pass for what is set now
    answer = _smi(host, *words, *_slice(wanted.time_slice_us))
    if answer.status == 0:
        time_slices.remember(host, card.address, wanted)
    return _said(answer)


def _set_mig(host: Host, card: Card, mode: bool) -> str:
    """Virtual functions block the mode: whoever plans takes them away before, and brings them back after."""
    if card.vfs is not None and card.vfs.enabled:
        what = f"MIG on GPU {card.address} changes only without virtual functions; it has {card.vfs.enabled}."
        raise VmctlError(Code.FAILED, what, "Take its virtual functions away first.")
    time_slices.forget(host, card.address)
    return _said(_smi(host, "-i", card.address, "-mig", str(int(mode))))


def _smi(host: Host, *words: str) -> Answer:
    """Run nvidia-smi, which changes something. Raises VmctlError where it is missing."""
    return host.driver_tool(["nvidia-smi", *words], limit=LIMIT, changes=True)


def _said(answer: Answer) -> str:
    return " ".join((answer.output + answer.errors).split())


def _text(value: int | bool | Scheduler | None) -> str:
    match value:
        case None:
            return "unknown"
        case bool(mode):
            return "on" if mode else "off"
        case Scheduler(policy, slice_us):
            return f"{policy}" + (f" of {slice_us} us" if slice_us is not None else "")
        case number:
            return str(number)
