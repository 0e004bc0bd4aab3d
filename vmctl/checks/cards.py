"""How a card is set: screen outputs, virtual functions, MIG, ECC."""

from __future__ import annotations

from collections.abc import Callable

from vmctl.card import GPU, Mode
from vmctl.checks.finding import Evidence, Verdict, failed, not_applicable, passed, unknown, warned
from vmctl.checks.look import AS_ROOT, Look
from vmctl.errors import VmctlError
from vmctl.gpus.cards import AFTER_LOSS, doubtful, is_lost, is_vfio
from vmctl.gpus.functions import SRIOV_MANAGE

# These leave the factory with their screen outputs on (dossier 1.0), and offer no vGPU until that is changed.
DISPLAY_CARDS = {
    "2230": "RTX A6000",
    "2231": "RTX A5000",
    "2233": "RTX A5500",
    "26b1": "RTX 6000 Ada",
    "26b2": "RTX 5000 Ada",
}
FIRMWARE = "Switch on SR-IOV, ARI and decoding above 4G (large MMIO) in the firmware set-up, then reboot."
NO_ROOM = ("not enough MMIO resources for SR-IOV", "can't assign VF BAR", "SR-IOV: bus number out of range")


def present(look: Look) -> Verdict:
    """A host of a portal has GPUs."""
    doubts = doubtful(look.host)
    if doubts:
        return unknown("Read those files on the host.", *(("/sys/bus/pci/devices", gap.reason) for gap in doubts))
    if look.gpus:
        return passed(*((gpu.address, gpu.model) for gpu in look.gpus))
    bus = "/sys/bus/pci/devices"
    if not look.entries(bus):
        return unknown("Look whether /sys is mounted, or collect the host anew.", (bus, "shows no device at all"))
    nothing = (bus, "no NVIDIA, AMD or Intel display function")
    return warned("Put a GPU into this host, or take the host out.", nothing)


def on_bus(look: Look, gpu: GPU) -> Verdict:
    """Whether a card still answers, whatever its files say of it."""
    source = f"/sys/bus/pci/devices/{gpu.address}/config"
    if not look.there(source):
        return not_applicable((source, "is not there: these are copied files, not the card"))
    start = look.host.start_of(look.host.path(source), 4)
    if not start:
        return unknown(AS_ROOT, (source, "cannot be read"))
    seen = (source, f"begins with {start.hex(' ')}")
    return failed(AFTER_LOSS, seen) if is_lost(look.host, gpu.address) else passed(seen)


def display(look: Look, gpu: GPU) -> Verdict:
    """A card that drives the host's screen, or could, makes no vGPUs."""
    folder = f"/sys/bus/pci/devices/{gpu.address}"
    if gpu.vendor != "NVIDIA":
        return not_applicable((f"{folder}/vendor", gpu.vendor))
    screen = _screen(look, gpu)
    kind = (look.text(f"{folder}/class") or "").strip()
    evidence = [Evidence(f"{folder}/class", kind or "nothing")]
    if screen:
        evidence.append(Evidence(f"{folder}/boot_vga", screen))
    if screen == "1":
        remedy = "Choose the board's own graphics as the first screen in the firmware set-up, then reboot."
        spare = any(other.types for other in look.gpus if other.address != gpu.address)
        return (warned if spare else failed)(remedy, *evidence)
    if gpu.device not in DISPLAY_CARDS or gpu.types:
        return passed(*evidence)
    evidence.append(Evidence(f"{folder}/device", f"{gpu.device}: {DISPLAY_CARDS[gpu.device]}"))
    if kind.startswith("0x0300"):
        remedy = "Switch its screen outputs off: stop the machines, unload the driver, and run: displaymodeselector"
        return failed(f"{remedy} --gpumode physical_display_disabled; then reboot.", *evidence)
    return passed(*evidence)


def drives_the_screen(look: Look, gpu: GPU) -> bool:
    """Whether the host shows its console by this card."""
    return _screen(look, gpu) == "1"


def _screen(look: Look, gpu: GPU) -> str:
    return (look.text(f"/sys/bus/pci/devices/{gpu.address}/boot_vga") or "").strip()


def firmware(look: Look, gpu: GPU) -> Verdict:
    """Whether the firmware left room for virtual functions."""
    source = f"/sys/bus/pci/devices/{gpu.address}/sriov_totalvfs"
    total = look.text(source)
    short = _without_room(look, gpu)
    if short is not None:
        return failed(FIRMWARE, ("dmesg", short))
    if total is None:
        return not_applicable((source, "is not there: the card shows no SR-IOV"))
    if not total.strip().isdecimal():
        return unknown("Read the file on the host.", (source, repr(total)))
    return passed((source, total.strip())) if int(total) else failed(FIRMWARE, (source, "0"))


def _without_room(look: Look, gpu: GPU) -> str | None:
    """The kernel's complaint about this card, where its log can be read; no log proves nothing."""
    try:
        log = look.said("dmesg").output
    except VmctlError:
        return None
    lines = (line for line in log.splitlines() if gpu.address in line)
    return next((line.strip()[:200] for line in lines if any(text in line for text in NO_ROOM)), None)


def functions(look: Look, gpu: GPU) -> Verdict:
    """Whether the virtual functions are on: they are off again after each boot (field log A05)."""
    source = f"/sys/bus/pci/devices/{gpu.address}/sriov_numvfs"
    reason = _gap(gpu, "vfs")
    if reason is not None:
        return unknown("Read the file on the host.", (source, reason))
    if gpu.vfs is None or gpu.vfs.total == 0:
        return not_applicable((source, "the card shows no SR-IOV"))
    if is_vfio(gpu.driver):
        return not_applicable((source, "the card is given away whole"))
    seen = Evidence(source, f"{gpu.vfs.enabled} of {gpu.vfs.total}")
    if gpu.vfs.enabled:
        return passed(seen)
    if gpu.mig is not None and gpu.mig.current != gpu.mig.pending:
        return warned("Not now: first reset the card or reboot the host, for its MIG mode is about to change.", seen)
    by_tool = look.there(SRIOV_MANAGE)
    command = f"{SRIOV_MANAGE} -e {gpu.address}" if by_tool else f"echo {gpu.vfs.total} > {source}"
    return warned(f"vmctl apply does it when a machine needs one; by hand, while nothing uses it: {command}", seen)


def mig(look: Look, gpu: GPU) -> Verdict:
    """A change that waits for a reset keeps the card from being booked (field log A19)."""
    reset = "End what runs on the card, then reset it or reboot the host."
    return _pending(gpu, "mig", gpu.mig, reset, failed)


def ecc(look: Look, gpu: GPU) -> Verdict:
    """The same of ECC; the card works meanwhile."""
    return _pending(gpu, "ecc", gpu.ecc, "Reboot the host when it is drained.", warned)


def _pending(gpu: GPU, what: str, mode: Mode | None, remedy: str, judge: Callable[..., Verdict]) -> Verdict:
    reason = _gap(gpu, what)
    if mode is None and reason is not None:
        return unknown("Look at what nvidia-smi -q says.", (what, reason))
    if mode is None:
        return not_applicable((what, "the driver tells of none on this card"))
    said = Evidence(what, f"now {_word(mode.current)}, after a reset {_word(mode.pending)}")
    if mode.current == mode.pending:
        return passed(said)
    return judge(remedy, said)


def _gap(gpu: GPU, what: str) -> str | None:
    """Why a field of the card could not be told."""
    return next((gap.reason for gap in gpu.unknown if gap.what == what), None)


def _word(on: bool) -> str:
    return "on" if on else "off"
