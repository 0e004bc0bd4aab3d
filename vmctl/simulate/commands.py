"""The commands that a simulated machine answers itself: the driver's tools and the kernel's log."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime

from vmctl.commands import Answer, Missing
from vmctl.errors import Code
from vmctl.simulate import smi, sriov
from vmctl.simulate.kernel import LOG, Kernel
from vmctl.simulate.kinds import NVIDIA

# The real machine under it has no such services.
UNITS = ("nvidia-vgpud.service", "nvidia-vgpu-mgr.service")
RUNNING = {
    "LoadState": "loaded",
    "ActiveState": "active",
    "SubState": "running",
    "Result": "success",
    "UnitFileState": "enabled",
}


def answer(kernel: Kernel, command: Sequence[str], at: datetime) -> Answer | None:
    """What a command says, None when it is none of these. Raises VmctlError where the machine has no such tool."""
    tool, words = os.path.basename(command[0]), list(command[1:])
    if tool in ("nvidia-smi", "sriov-manage") and not has_nvidia(kernel):
        raise Missing(
            Code.COULD_NOT_TELL, f"The command {command[0]} is not there.", f"Install what provides {command[0]}."
        )
    match tool:
        case "nvidia-smi":
            return smi.answer(kernel, words, at)
        case "sriov-manage":
            return sriov.manage(kernel, words)
        case "modprobe":
            return Answer(0, "", "")
        case "modinfo" if "nvidia" in words:
            return Answer(0, "NVIDIA\n" if has_nvidia(kernel) else "", "")
        case "systemctl" if words and words[-1] in UNITS and has_nvidia(kernel):
            return Answer(0, "".join(f"{key}={value}\n" for key, value in {"Id": words[-1], **RUNNING}.items()), "")
        case "dmesg" | "journalctl":
            log = kernel.root / LOG
            return Answer(0, log.read_text() if log.exists() else "", "")
        case _:
            return None


def has_nvidia(kernel: Kernel) -> bool:
    return any(card.board.vendor == NVIDIA for card in kernel.cards)
