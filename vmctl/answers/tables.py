"""The same documents for people: tables in the terminal."""

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

Json = dict[str, Any]


def show_report(document: Json) -> None:
    """What is on a host, and what was done."""
    console = Console()
    kind = "simulated GPUs, " if document["simulated"] else ""
    console.print(Text(f"{document['host']} at {document['observed_at']}: {kind}{document['accelerator']['reason']}"))
    _table(console, "Machines", ("name", "state", "end", "address", "console"), document["machines"])
    _table(console, "Cards", CARD, [_card(gpu) for gpu in document["gpus"]])
    _table(console, "vGPUs", ("gpu", *HOLDER), [_held(vgpu) for vgpu in document["vgpus"]])
    _table(console, "Not ours", ("name", "uuid", "state"), document["foreign"])
    _table(console, "Disks", ("machine", "mib", "seed"), document["disks"])
    _table(console, "Could not tell", ("what", "reason"), [*document["unknown"], *_gaps(document["gpus"])])
    steps = [step | {"outcome": _outcome(step)} for step in document["steps"]]
    _table(console, "Steps", ("subject", "outcome"), steps)
    if document["needs_confirmation"]:
        machines = ", ".join(document["needs_confirmation"])
        console.print(Text(f"Not stopped before an operator confirms it (too many ahead of their end): {machines}"))


def show_gpus(document: Json) -> None:
    """The GPUs of a host, what they can be cut into, and who has what of them."""
    console = Console()
    for gpu in document["gpus"]:
        console.print(Text(f"{gpu['address']}  {gpu['model']}  ({gpu['framework']}, driver {gpu['driver'] or 'none'})"))
        if gpu["reason"]:
            console.print(Text(gpu["reason"]))
        _table(console, "", CARD[1:], [_card(gpu)])
        _table(console, "Types", TYPE, [_type(kind) for kind in gpu["types"]])
        _table(console, "Held", HOLDER, [_held(vgpu) for vgpu in gpu["holders"]])
        _table(console, "Could not tell", ("what", "reason"), _gaps([gpu]))
    if not document["gpus"]:
        console.print("No GPU was found.")
    _table(console, "Could not tell", ("what", "reason"), document["unknown"])


CARD = ("gpu", "regime", "virtual functions", "MIG", "ECC", "scheduler", "IOMMU group")
TYPE = ("name", "id", "frame_buffer_mib", "max", "free", "free cells")
HOLDER = ("type", "device", "place", "domain", "state", "ours", "licence")


def _card(gpu: Json) -> Json:
    """How a card is set, in one row."""
    vfs, scheduler = gpu["vfs"], gpu["scheduler"]
    return {
        "gpu": gpu["address"],
        "regime": gpu["regime"],
        "virtual functions": vfs and f"{vfs['enabled']} of {vfs['total']}, {_or_unknown(vfs['free'])} free",
        "MIG": _mode(gpu["mig"]),
        "ECC": _mode(gpu["ecc"]),
        "scheduler": scheduler and " ".join([scheduler["policy"], *_slice(scheduler["time_slice_us"])]),
        "IOMMU group": gpu["iommu_group"],
    }


def _or_unknown(value: object) -> object:
    """What could not be told is a question mark, never nothing."""
    return "?" if value is None else value


def _slice(microseconds: int | None) -> list[str]:
    return [] if microseconds is None else [f"{microseconds / 1000:g} ms"]


def _mode(mode: Json | None) -> str | None:
    if mode is None:
        return None
    now, then = ("on" if mode[key] else "off" for key in ("current", "pending"))
    return now if now == then else f"{now}, {then} after a reset or reboot"


def _type(kind: Json) -> Json:
    return kind | _counts(kind) | {"free cells": " ".join(_range(cell) for cell in kind["free_cells"])}


def _counts(kind: Json) -> Json:
    return {key: _or_unknown(kind[key]) for key in ("max", "free")}


def _held(vgpu: Json) -> Json:
    """A share and who has it; one that nobody known has says so."""
    place = [_range(vgpu[key]) for key in ("cell", "slot") if vgpu[key] is not None]
    place += [] if vgpu["handle"] is None else [f"handle {vgpu['handle']}"]
    return vgpu | {
        "type": vgpu["type"] or "only claimed",
        "place": " ".join(place),
        "domain": vgpu["domain"] or vgpu["machine"] or "nobody known",
        "ours": "ours" if vgpu["ours"] else "",
    }


def _range(span: list[int]) -> str:
    return f"[{span[0]}, {span[1]})"


def _gaps(gpus: Iterable[Json]) -> list[Json]:
    """What could not be told of cards."""
    return [
        {"what": f"{what} of {gpu['address']}", "reason": reason}
        for gpu in gpus
        for what, reason in gpu["unknown"].items()
    ]


def _outcome(step: Json) -> str:
    if step["error"] is not None:
        return f"{step['error']['what']} {step['error']['remedy']}"
    if step["kind"] == "wait":
        return "waits"
    return "done" if step["done"] else "to do"


def show_types(document: Json) -> None:
    """The vGPU types of a host, and how many more of each every GPU takes."""
    console = Console()
    rows = [
        offer | _counts(offer) | {"name": kind["name"], "frame buffer MiB": _or_unknown(kind["frame_buffer_mib"])}
        for kind in document["types"]
        for offer in kind["gpus"]
    ]
    _table(console, document["host"], ("name", "frame buffer MiB", "address", "id", "regime", "max", "free"), rows)
    _table(console, "Could not tell", ("what", "reason"), document["unknown"])
    if not rows:
        console.print("No vGPU type is on offer.")


def show_usage(document: Json) -> None:
    """What machines use, and how busy GPUs are; an empty cell: nobody tells."""
    console = Console()
    busy = ("utilisation_percent", "frame_buffer_used_mib", "frame_buffer_mib", "encoder_percent", "licence")
    shares = [vgpu | {"machine": each["name"]} for each in document["machines"] for vgpu in each["vgpus"]]
    _table(console, document["host"], ("name", "vcpus", "cpu_ns", "memory_mib", "users"), document["machines"])
    _table(console, "vGPUs", ("machine", "gpu", "type", *busy), shares)
    whole = ("address", "utilisation_percent", "memory_used_mib", "temperature_c", "power_w")
    _table(console, "GPUs", whole, document["gpus"])
    _table(console, "Could not tell", ("what", "reason"), document["unknown"])


def show_acceptance(document: Json) -> None:
    """What came of trying a card."""
    console = Console()
    gpu = document["gpu"]
    console.print(Text(f"{gpu['address']}  {gpu['model']}, {len(document['rounds'])} rounds"))
    kinds = [_tried(document["rounds"], trial["type"]) for trial in document["rounds"][0]["types"]]
    _table(console, "Types", ("type", "predicted", "created", "seconds"), kinds)
    guests = [each["guest"] | {"round": each["number"]} for each in document["rounds"]]
    guests = [guest | {"sees": ", ".join(guest["seen"]), "result": _result(guest)} for guest in guests]
    _table(console, "Guests", ("round", "type", "sees", "seconds", "result"), guests)
    _table(console, "Problems", ("what",), [{"what": problem} for problem in document["problems"]])
    console.print(Text("Accepted." if document["accepted"] else "Not accepted."))


def _tried(rounds: list[Json], kind: str) -> Json:
    """One type over all rounds."""
    trials = [trial for each in rounds for trial in each["types"] if trial["type"] == kind]
    counts = {key: sorted({str(_or_unknown(trial[key])) for trial in trials}) for key in ("predicted", "created")}
    slowest = max(trial["seconds"] for trial in trials)
    return {"type": kind, "seconds": slowest} | {key: " or ".join(each) for key, each in counts.items()}


def _result(guest: Json) -> str:
    return guest["problem"] or guest["stand_in"] or "sees its vGPU"


def show_findings(document: Json) -> None:
    """What the doctor found, worst first."""
    console = Console()
    order = ("fail", "unknown", "warn", "pass", "not_applicable")
    rows = [
        finding | {"said": "; ".join(f"{each['source']}: {each['said']}" for each in finding["evidence"])}
        for finding in sorted(document["findings"], key=lambda finding: order.index(finding["status"]))
    ]
    _table(console, document["host"], ("status", "id", "subject", "said", "remedy"), rows)


def _table(console: Console, title: str, columns: Sequence[str], rows: Iterable[Json]) -> None:
    rows = list(rows)
    if not rows:
        return
    table = Table(title=title or None, title_justify="left")
    for column in columns:
        table.add_column(column)
    for row in rows:
        # Text, not markup: nothing that a host or a person wrote may become an instruction to the terminal.
        table.add_row(*(Text("" if row.get(column) is None else str(row[column])) for column in columns))
    console.print(table)
