"""nvidia-smi vgpu: types, what runs, the scheduler, mixed sizes (dossier 3.2, 4.1, 5.1)."""

from __future__ import annotations

from vmctl.host import Answer
from vmctl.simulate import rules, smi_modes
from vmctl.simulate.kernel import Kernel
from vmctl.simulate.kinds import Kind
from vmctl.simulate.smi_text import Rows, Visible, Words, block, label, text

NA = "N/A"
CLASSES = {"Q": "Quadro", "B": "NVS", "A": "NVS", "C": "Compute"}
LICENCES = {
    "Q": "Quadro-Virtual-DWS,5.0;GRID-Virtual-WS,2.0;GRID-Virtual-WS-Ext,2.0",
    "B": "GRID-Virtual-PC,2.0;Quadro-Virtual-DWS,5.0;GRID-Virtual-WS,2.0;GRID-Virtual-WS-Ext,2.0",
    "A": "GRID-Virtual-Apps,3.0",
    "C": "NVIDIA-vComputeServer,9.0;Quadro-Virtual-DWS,5.0",
}
POLICIES = {1: "Best Effort", 2: "Equal Share", 3: "Fixed Share"}


def answer(kernel: Kernel, words: Words, cards: list[Visible]) -> Answer:
    sharing = [card for card in cards if card.card.board.framework != "none"]
    if not sharing:
        return Answer(6, "No supported devices in vGPU mode\n", "")
    if "set-scheduler-state" in words or "-shm" in words or "--set-heterogeneous-mode" in words:
        return smi_modes.vgpu(kernel, words, sharing)
    lines: list[str] = []
    for card in sharing:
        lines.append(f"GPU {card.bus_id}")
        lines += _said(kernel, words, card)
    return Answer(0, text(lines), "")


def _said(kernel: Kernel, words: Words, card: Visible) -> list[str]:
    if "-q" in words or "--query" in words:
        return _active(kernel, card)
    if "-ss" in words:
        return _scheduler(kernel, card)
    if "-s" in words or "-c" in words:
        creatable = "-c" in words
        kinds = [kind for kind in card.card.board.types() if not creatable or _takes(card, kind)]
        if "-v" not in words:
            return [f"    {kind.name}" for kind in kinds]
        return [line for kind in kinds for line in _kind(card, kind, creatable)]
    return [label(1, "Active vGPUs", str(len(running(kernel, card))))]


def _takes(card: Visible, kind: Kind) -> bool:
    """Whether the GPU has a place for one more and, where vGPUs sit on VFs, a VF for it."""
    board, own = card.card.board, card.own
    if board.vfs and len(own.vgpus) >= own.vfs:
        return False
    return bool(rules.places(board, own, kind))


def _kind(card: Visible, kind: Kind, creatable: bool) -> list[str]:
    width, height = kind.resolution
    profile = str(card.card.board.profile(kind.profile).id) if kind.profile else NA
    rows: list[tuple[str, str]] = [
        ("Name", kind.name),
        ("Class", CLASSES[kind.series]),
        ("GPU Instance Profile ID", profile),
        ("Max Instances", str(kind.most)),
        ("Max Instances Per VM", "1" if kind.series == "B" else "16"),
        ("Max Instances Per GI", str(kind.per_instance) if kind.profile else NA),
        ("Multi vGPU Exclusive", "False"),
        ("vGPU Exclusive Type", "False"),
        ("vGPU Exclusive Size", "False"),
        ("Device ID", f"{card.card.board.device}10de"),
        ("FB Memory", f"{kind.mib} MiB"),
        ("Display Heads", str(kind.heads)),
        ("Maximum X Resolution", str(width)),
        ("Maximum Y Resolution", str(height)),
        ("Frame Rate Limit", f"{kind.frame_limit} FPS"),
        ("GRID License", LICENCES[kind.series]),
    ]
    return [label(1, "vGPU Type ID", f"{kind.number:#x}"), *block(2, [*rows, *_placements(card, kind, creatable)])]


def _placements(card: Visible, kind: Kind, creatable: bool) -> Rows:
    """Start ids, once sizes are mixed; the newest cards have the same ones in both modes."""
    board, own = card.card.board, card.own
    if kind.profile or not board.region or not (own.mixed or board.arch == "Blackwell"):
        return []
    size, starts = board.places(kind)
    free = [place.placement for place in rules.places(board, own, kind)]
    which = " ".join(str(start) for start in (free if creatable else starts))
    name = "Creatable Placement IDs" if creatable else "Supported Placement IDs"
    return [("Placement Size", str(size)), (name, which)]


# -- what runs


def running(kernel: Kernel, card: Visible) -> list[str]:
    """The keys of vGPUs whose machine runs: somebody has the node open. One that only exists is not active (5.2)."""
    found = []
    for key, vgpu in card.own.vgpus.items():
        open_now = kernel.in_use(f"dev/vfio/{vgpu.group}") if vgpu.group else kernel.group_in_use(vgpu.function)
        if open_now:
            found.append(key)
    return found


def _active(kernel: Kernel, card: Visible) -> list[str]:
    keys = running(kernel, card)
    lines = [label(1, "Active vGPUs", str(len(keys)))]
    for number, key in enumerate(keys):
        lines.append(label(1, "vGPU ID", str(3251634178 + card.index * 64 + number)))
        lines += block(2, _one(card, key))
    return lines


def _one(card: Visible, key: str) -> Rows:
    vgpu, board = card.own.vgpus[key], card.card.board
    kind = board.by_id[vgpu.kind]
    which = list(card.own.vgpus).index(key)
    return (
        ("VM UUID", f"00000000-0000-4000-8000-{card.index:04x}{which:08x}"),
        ("VM Name", f"machine-{card.index}-{which}"),
        ("vGPU Name", kind.name),
        ("vGPU Type", str(kind.number)),
        ("vGPU UUID", f"00000000-1dd2-11b2-8534-{card.index:04x}{which:08x}"),
        ("Guest Driver Version", NA),
        ("License Status", "N/A (Expiry: N/A)"),
        ("GPU Instance ID", NA if vgpu.instance is None else str(vgpu.instance)),
        ("Placement ID", NA if vgpu.placement is None else str(vgpu.placement)),
        ("PCI", {"Bus Id": "00000000:00:00.0"}),
        ("FB Memory Usage", {"Total": f"{kind.mib} MiB", "Used": "128 MiB", "Free": f"{kind.mib - 128} MiB"}),
        ("Utilization", {"GPU": "0 %", "Memory": "0 %", "Encoder": "0 %", "Decoder": "0 %"}),
    )


def _scheduler(kernel: Kernel, card: Visible) -> list[str]:
    """The time slice only where a vGPU runs (captured: nvidia-smi-vgpu-ss-idle.txt)."""
    own, active = card.own, len(running(kernel, card))
    lines = [label(1, "Active vGPUs", str(active)), label(1, "Scheduler Policy", POLICIES[own.policy])]
    if not active:
        return lines
    if own.time_slice_ns is not None:
        lines += [label(1, "ARR Mode", "Disabled"), label(1, "Time Slice(ns)", str(own.time_slice_ns))]
    elif own.policy != 1:
        lines += [
            label(1, "ARR Mode", "Enabled"),
            label(1, "Average Factor", "33"),
            label(1, "Time Slice(ns)", "2083333"),
        ]
    return lines
