"""The commands that a simulated machine answers itself: the driver's tools and the kernel's log."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from vmctl.errors import Code, VmctlError
from vmctl.host import Answer
from vmctl.simulate import smi, sriov
from vmctl.simulate.kernel import LOG, Kernel
from vmctl.simulate.kinds import NVIDIA


def answer(kernel: Kernel, command: Sequence[str]) -> Answer | None:
    """What a command says, None when it is none of these. Raises VmctlError where the machine has no such tool."""
    tool, words = os.path.basename(command[0]), list(command[1:])
    if tool in ("nvidia-smi", "sriov-manage") and not has_nvidia(kernel):
        raise VmctlError(
            Code.COULD_NOT_TELL, f"The command {command[0]} is not there.", f"Install what provides {command[0]}."
        )
    match tool:
        case "nvidia-smi":
            return smi.answer(kernel, words)
        case "sriov-manage":
            return sriov.manage(kernel, words)
        case "modprobe":
            return Answer(0, "", "")
        case "modinfo" if "nvidia" in words:
            return Answer(0, "NVIDIA\n" if has_nvidia(kernel) else "", "")
        case "dmesg" | "journalctl":
            log = kernel.root / LOG
            return Answer(0, log.read_text() if log.exists() else "", "")
        case _:
            return None


def has_nvidia(kernel: Kernel) -> bool:
    return any(card.board.vendor == NVIDIA for card in kernel.cards)


UNITS = ("nvidia-vgpud.service", "nvidia-vgpu-mgr.service")
RUNNING = {
    "LoadState": "loaded",
    "ActiveState": "active",
    "SubState": "running",
    "Result": "success",
    "UnitFileState": "enabled",
}


def with_units(kernel: Kernel, command: Sequence[str], answer: Answer) -> Answer:
    """What systemd tells of the driver's services, which the real machine has not."""
    if os.path.basename(command[0]) != "systemctl" or "show" not in command or not has_nvidia(kernel):
        return answer
    blocks = [_running(block) for block in answer.output.split("\n\n")]
    return replace(answer, output="\n\n".join(blocks))


def _running(block: str) -> str:
    if not any(f"Id={unit}" in block.splitlines() for unit in UNITS):
        return block
    pairs = (line.partition("=") for line in block.splitlines())
    return "\n".join(f"{key}={RUNNING.get(key, value)}" for key, _, value in pairs)
