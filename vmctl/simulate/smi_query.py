"""nvidia-smi -q, -L and --query-gpu, in the format of captured hosts (fixtures of dossier 5.1)."""

from __future__ import annotations

from vmctl.host import Answer
from vmctl.simulate.kernel import Kernel
from vmctl.simulate.machine import driver_version
from vmctl.simulate.smi_text import Rows, Visible, Words, block, enabled, label, text

MODES = {"vendor-vfio": "SR-IOV", "mdev-vf": "SR-IOV", "mdev-pf": "Non SR-IOV"}
NA = "N/A"


def answer(kernel: Kernel, words: Words, cards: list[Visible]) -> Answer:
    if "-L" in words or "--list-gpus" in words:
        return Answer(0, text(f"GPU {card.index}: {card.card.board.model} (UUID: {card.uuid})" for card in cards), "")
    fields = words.value("--query-gpu")
    if fields is not None:
        return _fields(kernel, fields.split(","), words.value("--format") or "", cards)
    if "-q" in words or "--query" in words:
        return Answer(0, text(_full(kernel, words, cards)), "")
    return Answer(2, "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n", "")


def _full(kernel: Kernel, words: Words, cards: list[Visible]) -> list[str]:
    lines = [
        "",
        "==============NVSMI LOG==============",
        "",
        label(0, "Timestamp", words.at.strftime("%a %b %e %H:%M:%S %Y")),
        label(0, "Driver Version", driver_version(kernel.cards)),
        label(0, "CUDA Version", "Not Found"),
        "vGPU Driver Capability",
        label(2, "Heterogenous Multi-vGPU", "Supported"),
        "",
        label(0, "Attached GPUs", str(len(cards))),
    ]
    for card in cards:
        lines.append(f"GPU {card.bus_id}")
        lines += block(1, _card(card))
        lines.append("")
    return lines


def _card(card: Visible) -> Rows:
    board, own = card.card.board, card.own
    mig = (enabled(own.mig), enabled(own.mig_pending)) if board.mig else (NA, NA)
    ecc = (enabled(own.ecc), enabled(own.ecc_pending)) if board.ecc else (NA, NA)
    used = sum(board.by_id[vgpu.kind].mib for vgpu in own.vgpus.values())
    return (
        ("Product Name", board.model),
        ("Product Brand", "NVIDIA"),
        ("Product Architecture", board.arch),
        ("Display Mode", "Disabled"),
        ("Display Active", enabled(card.card.boot_screen)),
        ("Persistence Mode", "Enabled"),
        (
            "vGPU Device Capability",
            {
                "Fractional Multi-vGPU": "Supported" if board.most or board.more else "Not Supported",
                "Heterogeneous Time-Slice Profiles": "Supported",
                "Heterogeneous Time-Slice Sizes": "Supported" if board.region else "Not Supported",
            },
        ),
        ("MIG Mode", {"Current": mig[0], "Pending": mig[1]}),
        ("Serial Number", "0000000000000"),
        ("GPU UUID", card.uuid),
        ("Minor Number", str(card.index)),
        ("GPU Virtualization Mode", _virtualization(card)),
        ("PCI", _pci(card)),
        ("FB Memory Usage", _memory(board.total_mib, used)),
        ("Compute Mode", "Default"),
        ("Utilization", {"Gpu": "0 %", "Memory": "0 %", "Encoder": "0 %", "Decoder": "0 %"}),
        ("Ecc Mode", {"Current": ecc[0], "Pending": ecc[1]}),
        ("Temperature", {"GPU Current Temp": "35 C", "GPU Shutdown Temp": "96 C"}),
        ("Power Readings", {"Power Draw": "16.57 W", "Power Limit": "70.00 W"}),
        ("Processes", "None"),
    )


def _virtualization(card: Visible) -> dict[str, str]:
    framework = card.card.board.framework
    if framework not in MODES:
        return {"Virtualization Mode": "None", "Host VGPU Mode": NA, "vGPU Heterogeneous Mode": NA}
    mixed = enabled(card.own.mixed) if card.card.board.region else NA
    return {
        "Virtualization Mode": "Host VGPU",
        "Host VGPU Mode": MODES[framework],
        "vGPU Heterogeneous Mode": mixed,
    }


def _pci(card: Visible) -> dict[str, str]:
    board, address = card.card.board, card.card.address
    domain, bus, slot = address.replace(".", ":").split(":")[:3]
    return {
        "Bus": f"0x{bus.upper()}",
        "Device": f"0x{slot.upper()}",
        "Domain": f"0x{domain.upper()}",
        "Device Id": f"0x{board.device[2:].upper()}10DE",
        "Bus Id": card.bus_id,
        "Sub System Id": f"0x{board.subsystem[2:].upper()}10DE",
    }


def _memory(total: int, used: int) -> dict[str, str]:
    return {
        "Total": f"{total} MiB",
        "Reserved": "0 MiB",
        "Used": f"{min(used, total)} MiB",
        "Free": f"{max(total - used, 0)} MiB",
    }


def _fields(kernel: Kernel, names: list[str], form: str, cards: list[Visible]) -> Answer:
    """Some columns as CSV; a field that nobody knows is an error, one that this card has not is [N/A]."""
    rows = [_columns(kernel, card) for card in cards]
    for name in names:
        if name.strip() not in rows[0]:
            return Answer(2, f'Field "{name.strip()}" is not a valid field to query.\n', "")
    lines = [", ".join(row[name.strip()] for name in names) for row in rows]
    head = [] if "noheader" in form else [", ".join(name.strip() for name in names)]
    return Answer(0, text([*head, *lines]), "")


def _columns(kernel: Kernel, card: Visible) -> dict[str, str]:
    board, own = card.card.board, card.own
    mig = (enabled(own.mig), enabled(own.mig_pending)) if board.mig else ("[N/A]", "[N/A]")
    ecc = (enabled(own.ecc), enabled(own.ecc_pending)) if board.ecc else ("[N/A]", "[N/A]")
    return {
        "index": str(card.index),
        "uuid": card.uuid,
        "pci.bus_id": card.bus_id,
        "name": board.model,
        "driver_version": driver_version(kernel.cards),
        "memory.total": f"{board.total_mib} MiB",
        "mig.mode.current": mig[0],
        "mig.mode.pending": mig[1],
        "ecc.mode.current": ecc[0],
        "ecc.mode.pending": ecc[1],
        "display_active": enabled(card.card.boot_screen),
        "persistence_mode": "Enabled",
        "utilization.gpu": "0 %",
        "temperature.gpu": "35",
        "power.draw": "16.57 W",
    }
