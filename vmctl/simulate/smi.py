"""The stand-in for nvidia-smi: which card is meant, and what each part of the command says (dossier 5.1)."""

from __future__ import annotations

from datetime import datetime

from vmctl.host import Answer
from vmctl.simulate import smi_mig, smi_modes, smi_query, smi_vgpu
from vmctl.simulate.kernel import Kernel
from vmctl.simulate.smi_text import Visible, Words, visible

NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n"
)


def answer(kernel: Kernel, given: list[str], at: datetime) -> Answer:
    words = Words(tuple(given), at)
    with kernel.alone() as state:
        cards = visible(kernel, state)
        if not cards:
            return Answer(9, NO_DRIVER, "")
        wanted = words.value("-i", "--id")
        chosen = cards if wanted is None else [card for card in cards if card.is_called(wanted)]
        if not chosen:
            return Answer(6, "No devices were found\n", "")
        return _say(kernel, words, chosen)


def _say(kernel: Kernel, words: Words, cards: list[Visible]) -> Answer:
    if words.given[:1] == ("vgpu",):
        return smi_vgpu.answer(kernel, words, cards)
    if words.given[:1] == ("mig",):
        return smi_mig.answer(kernel, words, cards)
    if "-mig" in words or "--multi-instance-gpu" in words or "-e" in words or "--ecc-config" in words:
        return smi_modes.answer(kernel, words, cards)
    return smi_query.answer(kernel, words, cards)
