"""The switches of a card that nvidia-smi turns: MIG, ECC, mixed sizes, scheduler (dossier 1.5, 3.2, 4)."""

from __future__ import annotations

from vmctl.host import Answer
from vmctl.simulate.kernel import Kernel
from vmctl.simulate.smi_text import Visible, Words, text

BUSY = "In use by another client"
BUSY_STATUS = 19
PENDING = (
    "Warning: MIG mode is in pending {word} state for GPU {gpu}:{busy}\n"
    "{gpu} is currently being used by one or more other processes (e.g. CUDA application or a monitoring application "
    "such as another instance of nvidia-smi). Please first kill all processes using the device and retry the command "
    "or reboot the system to make MIG mode effective."
)


def answer(kernel: Kernel, words: Words, cards: list[Visible]) -> Answer:
    mig, ecc = words.value("-mig", "--multi-instance-gpu"), words.value("-e", "--ecc-config")
    lines: list[str] = []
    status = 0
    for card in cards:
        if mig is not None:
            status = status or _mig(kernel, card, mig == "1", lines)
        elif ecc is not None:
            status = status or _ecc(card, ecc == "1", lines)
        kernel.settle(card.state, card.card)
    return Answer(status, text([*lines, "All done."]), "")


def _mig(kernel: Kernel, card: Visible, on: bool, lines: list[str]) -> int:
    """Ampere takes it at the next reset, later cards at once; VFs block the change (1.5)."""
    board, own = card.card.board, card.own
    word = "enable" if on else "disable"
    if not board.mig:
        lines.append(f"Unable to {word} MIG Mode for GPU {card.bus_id}: Not Supported")
        return 3
    if own.vgpus or (own.vfs and on != own.mig) or kernel.in_use(f"dev/nvidia{card.index}"):
        lines.append(f"Unable to {word} MIG Mode for GPU {card.bus_id}: {BUSY}")
        return BUSY_STATUS
    own.mig_pending = on
    if board.keeps_mig and own.mig != on:
        lines.append(PENDING.format(word=word, gpu=card.bus_id, busy=BUSY))
        return 0
    if own.mig != on:
        own.mig, own.instances = on, {}
    lines.append(f"{word.capitalize()}d MIG Mode for GPU {card.bus_id}")
    return 0


def _ecc(card: Visible, on: bool, lines: list[str]) -> int:
    """For the next reboot; refused while a vGPU exists (4.2)."""
    if not card.card.board.ecc:
        lines.append(f"Unable to change ECC mode for GPU {card.bus_id}: Not Supported")
        return 3
    if card.own.vgpus:
        lines.append(f"Unable to change ECC mode for GPU {card.bus_id}: {BUSY}")
        return BUSY_STATUS
    before, card.own.ecc_pending = card.own.ecc_pending, on
    words = ["Disabled", "Enabled"]
    lines.append(f"{words[on]} ECC support for GPU {card.bus_id}." if before != on else "ECC support is already so.")
    lines.append("Reboot required.")
    return 0


def vgpu(kernel: Kernel, words: Words, cards: list[Visible]) -> Answer:
    """The switches below nvidia-smi vgpu. Both are refused while a vGPU is on the GPU."""
    lines: list[str] = []
    status = 0
    for card in cards:
        if "set-scheduler-state" in words:
            status = status or _scheduler(card, words, lines)
        else:
            status = status or _mixed(card, words.value("-shm", "--set-heterogeneous-mode") == "1", lines)
        kernel.settle(card.state, card.card)
    return Answer(status, text(lines), "")


def _mixed(card: Visible, on: bool, lines: list[str]) -> int:
    word = "enable" if on else "disable"
    failed = f"Unable to {word} vGPU heterogeneous mode for GPU {card.bus_id}"
    if not card.card.board.region or card.own.mig:
        lines.append(f"{failed}: Not Supported")
        return 3
    if card.own.vgpus:
        lines.append(f"{failed}: {BUSY}")
        return BUSY_STATUS
    if on and card.own.policy == 3:
        lines.append(f"{failed}: Not Supported")  # fixed share divides by one size (4.1)
        return 3
    card.own.mixed = on
    lines.append(f"{word.capitalize()}d vGPU heterogeneous mode for GPU {card.bus_id}")
    return 0


def _scheduler(card: Visible, words: Words, lines: list[str]) -> int:
    """Policy 1 to 3, and a time slice in nanoseconds where adaptive round robin is off (4.1)."""
    failed = f'Unable to set the vGPU scheduler state on GPU "{card.bus_id}".'
    policy, time_slice = words.value("-p"), words.value("-ts")
    if card.own.vgpus:
        lines += [
            failed,
            "vGPU scheduler state cannot be configured, if vGPU instance is currently active on the device.",
        ]
        return BUSY_STATUS
    odd_slice = time_slice is not None and not 1_000_000 <= int(time_slice) <= 30_000_000
    if policy not in ("1", "2", "3") or odd_slice or (policy == "3" and card.own.mixed):
        lines += [failed, "Invalid Argument"]
        return 2
    card.own.policy = int(policy)
    card.own.time_slice_ns = int(time_slice) if time_slice is not None and policy != "1" else None
    lines.append(f"Successfully set the vGPU scheduler state on GPU {card.bus_id}.")
    return 0
