"""What nvidia-smi sets: the scheduler and ECC, with the driver's refusals."""

from __future__ import annotations

from .cards import LASTING, NOT_SUPPORTED, VOLATILE, Card, Refused, write


def set_scheduler(chosen: list[Card], policy: str, slice_ns: str | None) -> str:
    for card in chosen:
        if card.vgpus:
            what = f'Unable to set the vGPU scheduler state on GPU "{card.bus_id}".\n'
            why = "vGPU scheduler state cannot be configured, if vGPU instance is currently active on the device.\n"
            raise Refused(NOT_SUPPORTED, what + why)
    for card in chosen:
        write(f"{VOLATILE}/{card.address}.scheduler", f"{policy} {slice_ns or ''}")
    return "".join(f"Successfully set vGPU scheduler state on GPU {card.bus_id}.\n" for card in chosen)


def set_ecc(chosen: list[Card], wanted: str) -> str:
    """It takes effect when the machine starts next."""
    for card in chosen:
        card.ecc()  # what holds until then is written down at the first look
        write(f"{LASTING}/{card.address}.ecc", wanted)
    word = "Enabled" if wanted == "1" else "Disabled"
    return "".join(f"{word} ECC support for GPU {card.bus_id}.\nAll done.\nReboot required.\n" for card in chosen)
