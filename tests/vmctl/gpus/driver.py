"""A driver that answers from texts: `Driver({"nvidia-smi -q": text})` is the door for commands of a host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vmctl.errors import Code, VmctlError
from vmctl.host import Answer, TooSlow


class Driver:
    """Answers by the whole command line: a text, an `Answer`, or an error that it raises; else it is not there."""

    def __init__(self, answers: Mapping[str, str | Answer | VmctlError]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def __call__(self, command: Sequence[str], *, limit: float, given: str = "") -> Answer:
        line = " ".join(command)
        self.asked.append(line)
        answer = self.answers.get(line)
        if answer is None:
            raise VmctlError(Code.COULD_NOT_TELL, f"The command {command[0]} is not there.", "Install it.")
        if isinstance(answer, VmctlError):
            raise answer
        return answer if isinstance(answer, Answer) else Answer(0, answer, "")


LATE = TooSlow(Code.FAILED, "nvidia-smi gave no answer in 6 s.", "Wait.", retry=True)


def q(
    address: str,
    *,
    driver: str = "550.54.10",
    mig: str = "N/A",
    pending: str = "",
    mixed: str = "Disabled",
    mode: str = "Host VGPU",
    uuid: str = "GPU-00000000-0000-0000-0000-000000000001",
) -> str:
    """`nvidia-smi -q` of one card; an empty `mixed` leaves its line out."""
    rows = [
        f"Driver Version                            : {driver}",
        f"GPU {address}",
        "    Product Name                          : NVIDIA L4",
        f"    GPU UUID                              : {uuid}",
        "    MIG Mode",
        f"        Current                           : {mig}",
        f"        Pending                           : {pending or mig}",
        "    GPU Virtualization Mode",
        f"        Virtualization Mode               : {mode}",
        *([f"        vGPU Heterogeneous Mode           : {mixed}"] if mixed else []),
        "    PCI",
        f"        Bus Id                            : {address}",
        "    ECC Mode",
        "        Current                           : Enabled",
        "        Pending                           : Enabled",
    ]
    return "\n".join(rows) + "\n"
