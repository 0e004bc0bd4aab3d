"""The lists that nvidia-smi prints, in the form of driver 570."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable, Iterator

from .cards import VERSION, Card, Share, Type, cards, read

COLUMN = 42
POLICIES = {"1": "Best Effort", "2": "Equal Share", "3": "Fixed Share"}
CLASSES = {"Q": "Quadro", "B": "NVS", "A": "NVS", "C": "Compute"}


def rows(depth: int, pairs: Iterable[tuple[str, object]]) -> Iterator[str]:
    for label, value in pairs:
        indented = " " * 4 * depth + label
        yield f"{indented.ljust(COLUMN)}: {value}" if value is not None else indented


def switch(on: bool) -> str:
    return "Enabled" if on else "Disabled"


def query(chosen: list[Card]) -> Iterator[str]:
    yield from ("", "==============NVSMI LOG==============", "")
    yield from rows(
        0, [("Timestamp", time.strftime("%a %b %d %H:%M:%S %Y")), ("Driver Version", read(VERSION).strip())]
    )
    yield from rows(0, [("CUDA Version", "Not Found"), ("vGPU Driver Capability", None)])
    yield from rows(2, [("Heterogenous Multi-vGPU", "Supported")])
    yield from ("", *rows(0, [("Attached GPUs", len(cards()))]))
    for card in chosen:
        yield f"GPU {card.bus_id}"
        yield from query_card(card)
        yield ""


def query_card(card: Card) -> Iterator[str]:
    current, pending = card.ecc()
    total, used = int(card.text("lab/memory")), sum(share.kind.mib for share in card.shares)
    vgpu_host = "Host VGPU" if card.types else "None"
    sriov = "SR-IOV" if card.has("sriov_totalvfs") else "Non SR-IOV"
    yield from rows(
        1, [("Product Name", card.text("lab/model")), ("Product Brand", "NVIDIA"), ("Display Mode", "Disabled")]
    )
    yield from rows(1, [("Display Active", "Disabled"), ("Persistence Mode", "Enabled"), ("MIG Mode", None)])
    yield from rows(2, [("Current", "N/A"), ("Pending", "N/A")])
    yield from rows(1, [("GPU UUID", card.uuid), ("Minor Number", card.index), ("GPU Virtualization Mode", None)])
    yield from rows(2, [("Virtualization Mode", vgpu_host), ("Host VGPU Mode", sriov if card.types else "N/A")])
    yield from rows(2, [("vGPU Heterogeneous Mode", "N/A")])
    yield from rows(1, [("PCI", None)])
    yield from rows(2, [("Bus", f"0x{card.address[5:7].upper()}"), ("Bus Id", card.bus_id)])
    yield from rows(1, [("Fan Speed", "N/A"), ("Performance State", "P8"), ("FB Memory Usage", None)])
    yield from rows(2, [("Total", f"{total} MiB"), ("Reserved", "0 MiB"), ("Used", f"{used} MiB")])
    yield from rows(2, [("Free", f"{total - used} MiB")])
    yield from rows(1, [("Compute Mode", "Default"), ("Utilization", None)])
    yield from rows(2, [(label, "0 %") for label in ("GPU", "Memory", "Encoder", "Decoder")])
    yield from rows(1, [("ECC Mode", None)])
    yield from rows(2, [("Current", switch(current)), ("Pending", switch(pending))])
    yield from rows(1, [("Temperature", None)])
    yield from rows(2, [("GPU Current Temp", "35 C"), ("GPU Shutdown Temp", "96 C")])
    yield from rows(1, [("GPU Power Readings", None)])
    yield from rows(2, [("Power Draw", "16.57 W"), ("Current Power Limit", "70.00 W")])


def names(chosen: list[Card]) -> Iterator[str]:
    for card in chosen:
        yield f"GPU {card.index}: {card.text('lab/model')} (UUID: {card.uuid})"


def running(chosen: list[Card]) -> Iterator[str]:
    for card in chosen:
        shares = card.shares
        yield f"GPU {card.bus_id}"
        yield from rows(1, [("Active vGPUs", len(shares))])
        for share in shares:
            yield from _running(share)


def _running(share: Share) -> Iterator[str]:
    number = 3251630000 + zlib.crc32(share.name.encode()) % 10000
    mediated = [("MDEV UUID", share.name)] if len(share.name) == 36 else []
    yield from rows(1, [("vGPU ID", number)])
    yield from rows(2, [("VM UUID", share.machine), ("VM Name", share.title), ("vGPU Name", share.kind.name)])
    yield from rows(2, [("vGPU Type", share.kind.number), *mediated, ("Guest Driver Version", "N/A")])
    yield from rows(2, [("License Status", "N/A (Expiry: N/A)"), ("GPU Instance ID", "N/A"), ("Placement ID", "N/A")])
    yield from rows(2, [("Frame Rate Limit", f"{share.kind.frames} FPS"), ("PCI", None)])
    yield from rows(3, [("Bus Id", "00000000:00:00.0")])
    yield from rows(2, [("FB Memory Usage", None)])
    yield from rows(3, [("Total", f"{share.kind.mib} MiB"), ("Used", "0 MiB"), ("Free", f"{share.kind.mib} MiB")])
    yield from rows(2, [("Utilization", None)])
    yield from rows(3, [(label, "0 %") for label in ("GPU", "Memory", "Encoder", "Decoder")])


def types(chosen: list[Card], *, creatable: bool, verbose: bool) -> Iterator[str]:
    for card in chosen:
        yield f"GPU {card.bus_id}"
        now = card.creatable if creatable else set()
        for kind in card.types:
            if not creatable or kind.number in now:
                yield from _type(kind) if verbose else [f"    {kind.name}"]


def _type(kind: Type) -> Iterator[str]:
    yield from rows(1, [("vGPU Type ID", hex(kind.number))])
    yield from rows(2, [("Name", kind.name), ("Class", CLASSES.get(kind.name[-1], "N/A"))])
    yield from rows(2, [("GPU Instance Profile ID", "N/A"), ("Max Instances", kind.most)])
    yield from rows(2, [("Max Instances Per VM", 1 if kind.name[-1] == "B" else 16), ("Max Instances Per GI", "N/A")])
    yield from rows(2, [("FB Memory", f"{kind.mib} MiB"), ("Display Heads", kind.heads)])
    yield from rows(2, [("Maximum X Resolution", kind.width), ("Maximum Y Resolution", kind.height)])
    yield from rows(2, [("Frame Rate Limit", f"{kind.frames} FPS")])


def schedulers(chosen: list[Card]) -> Iterator[str]:
    for card in chosen:
        policy, *slice_ns = card.scheduler
        running_now = len(card.shares)
        yield f"GPU {card.bus_id}"
        yield from rows(1, [("Active vGPUs", running_now), ("Scheduler Policy", POLICIES[policy])])
        if running_now and policy != "1":
            yield from rows(1, [("ARR Mode", "Disabled" if slice_ns else "Enabled")])
            yield from rows(1, [("Time Slice(ns)", slice_ns[0] if slice_ns else "2083333")])
