"""The same documents for people, in the terminal."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from rich.console import Console
from rich.text import Text

from vmctl.answers.lines import notes, paragraph, table

Json = dict[str, Any]


def show_report(document: Json) -> None:
    """What is on a host, and what was done."""
    console = Console()
    paragraph(console, f"{_heading(document)}; {document['accelerator']['reason']}")
    table(console, "Machines", ("name", "state", "end", "address", "console"), document["machines"])
    table(console, "Cards", CARD, [_card(gpu) for gpu in document["gpus"]])
    table(console, "vGPUs", ("gpu", *HOLDER), [_held(vgpu) for vgpu in document["vgpus"]])
    table(console, "Not ours", ("name", "uuid", "state"), document["foreign"])
    table(console, "Disks", ("machine", "mib", "seed"), document["disks"])
    _gaps(console, [*document["unknown"], *_of_cards(document["gpus"])])
    notes(console, "Steps", ((step["subject"], _outcome(step)) for step in document["steps"]))
    if document["needs_confirmation"]:
        machines = ", ".join(document["needs_confirmation"])
        paragraph(console, f"Not stopped before an operator confirms it (too many ahead of their end): {machines}")


def _heading(document: Json) -> str:
    """Which host, when, and whether its GPUs are real."""
    kind = "simulated GPUs, " if document["simulated"] else ""
    return f"{document['host']}: {kind}{document.get('observed_at') or document.get('checked_at')}"


def show_gpus(document: Json) -> None:
    """The GPUs of a host, who has what of them, and what they can be cut into."""
    console = Console()
    paragraph(console, _heading(document))
    for gpu in document["gpus"]:
        driver = gpu["driver"] or "none"
        paragraph(console, f"{gpu['address']}  {gpu['model']}  ({gpu['framework']}, driver {driver})")
        if gpu["reason"]:
            paragraph(console, gpu["reason"], 2)
        settings = [f"{name} {value}" for name, value in list(_card(gpu).items())[1:] if value is not None]
        paragraph(console, "; ".join(settings), 2)
        table(console, "Held", HOLDER, [_held(vgpu) for vgpu in gpu["holders"] or ()])
    _types(console, {gpu["address"]: [_type(kind) for kind in gpu["types"]] for gpu in document["gpus"]})
    if not document["gpus"]:
        console.print("No GPU was found.")
    _gaps(console, [*document["unknown"], *_of_cards(document["gpus"])])


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
    counts = {key: _or_unknown(kind[key]) for key in ("max", "free", "frame_buffer_mib")}
    return kind | counts | {"free cells": _cells(kind)}


def _cells(kind: Json) -> str | None:
    """Where there is room. Equal shares have no place of their own: their number is told already."""
    cells = kind["free_cells"]
    if kind["regime"] == "equal" or not cells:
        return None
    steps = {after[0] - before[0] for before, after in pairwise(cells)}
    if len(cells) > 3 and len(steps) == 1:
        return f"{_range(cells[0])} to {_range(cells[-1])}, every {steps.pop()}"
    return " ".join(map(_range, cells))


def _types(console: Console, offers: Mapping[str, list[Json]]) -> None:
    """Types by card and regime; cards that offer the same stand together."""
    alike: dict[str, dict[str, list[Json]]] = {}
    for address, rows in offers.items():
        for regime in dict.fromkeys(row["regime"] for row in rows):
            own = [row for row in rows if row["regime"] == regime]
            said = repr([regime, *([row[column] for column in TYPE] for row in own)])
            alike.setdefault(said, {})[address] = own
    for cards in alike.values():
        (rows, *_) = cards.values()
        table(console, f"Types of {', '.join(cards)}, regime {rows[0]['regime']}", TYPE, rows)


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
    return f"[{span[0]},{span[1]})"  # without a blank: lines are wrapped there


def _of_cards(gpus: Iterable[Json]) -> Iterator[Json]:
    """What could not be told of cards."""
    for gpu in gpus:
        for what, reason in gpu["unknown"].items():
            yield {"what": f"{what} of {gpu['address']}", "reason": reason}


def _outcome(step: Json) -> str:
    if step["error"] is not None:
        return f"{step['error']['what']} {step['error']['remedy']}"
    if step["kind"] == "wait":
        return "waits"
    return "done" if step["done"] else "to do"


def show_types(document: Json) -> None:
    """The vGPU types of a host, and how many more of each every GPU takes."""
    console = Console()
    paragraph(console, _heading(document))
    offers: dict[str, list[Json]] = {}
    for kind in document["types"]:
        for offer in kind["gpus"]:
            offers.setdefault(offer["address"], []).append(_type(kind | offer))
    _types(console, offers)
    _gaps(console, document["unknown"])
    if not offers:
        console.print("No vGPU type is on offer.")


def show_usage(document: Json) -> None:
    """What machines use, and how busy GPUs are; an empty cell: nobody tells."""
    console = Console()
    busy = ("utilisation_percent", "frame_buffer_used_mib", "frame_buffer_mib", "encoder_percent", "licence")
    machines = document["machines"] or ()
    shares = [vgpu | {"machine": each["name"]} for each in machines for vgpu in each["vgpus"]]
    table(console, document["host"], ("name", "vcpus", "cpu_ns", "memory_mib", "users"), machines)
    table(console, "vGPUs", ("machine", "gpu", "type", *busy), shares)
    whole = ("address", "utilisation_percent", "memory_used_mib", "temperature_c", "power_w")
    table(console, "GPUs", whole, document["gpus"])
    _gaps(console, document["unknown"])


def show_acceptance(document: Json) -> None:
    """What came of trying a card."""
    console = Console()
    gpu = document["gpu"]
    paragraph(console, f"{gpu['address']}  {gpu['model']}, {len(document['rounds'])} rounds")
    kinds = [_tried(document["rounds"], trial["type"]) for trial in document["rounds"][0]["types"]]
    table(console, "Types", ("type", "predicted", "created", "seconds"), kinds)
    guests = [each["guest"] | {"round": each["number"]} for each in document["rounds"]]
    guests = [guest | {"sees": ", ".join(guest["seen"]), "result": _result(guest)} for guest in guests]
    table(console, "Guests", ("round", "type", "sees", "seconds", "result"), guests)
    notes(console, "Problems", ((problem, "") for problem in document["problems"]))
    console.print(Text("Accepted." if document["accepted"] else "Not accepted."))


def _tried(rounds: list[Json], kind: str) -> Json:
    """One type over all rounds."""
    trials = [trial for each in rounds for trial in each["types"] if trial["type"] == kind]
    counts = {key: sorted({str(_or_unknown(trial[key])) for trial in trials}) for key in ("predicted", "created")}
    slowest = max(trial["seconds"] for trial in trials)
    return {"type": kind, "seconds": slowest} | {key: " or ".join(each) for key, each in counts.items()}


def _result(guest: Json) -> str:
    return guest["problem"] or guest["stand_in"] or "sees its vGPU"


QUIET = ("pass", "not_applicable")


def show_findings(document: Json) -> None:
    """What the doctor found, worst first: what asks for something in full, of the rest only the names."""
    console = Console()
    findings = document["findings"]
    paragraph(console, _heading(document))
    for status in ("fail", "unknown", "warn"):
        for (name, remedy), alike in _by(findings, status, "id", "remedy").items():
            paragraph(console, f"{status}  {name}  {', '.join(finding['subject'] for finding in alike)}")
            told = (f"{each['source']}: {each['said']}" for finding in alike for each in finding["evidence"])
            for line in dict.fromkeys(told):
                paragraph(console, line, 2)
            if remedy:
                paragraph(console, f"Remedy: {remedy}", 2)
    for status in QUIET:
        names = [
            f"{name}({len(alike)})" if len(alike) > 1 else name
            for (name,), alike in _by(findings, status, "id").items()
        ]
        if names:
            paragraph(console, f"{status.replace('_', ' ')}  {', '.join(names)}", hanging=2)


def _by(findings: Iterable[Json], status: str, *keys: str) -> dict[tuple[str, ...], list[Json]]:
    """The findings of one status, those together that say the same of several cards."""
    found: dict[tuple[str, ...], list[Json]] = {}
    for finding in findings:
        if finding["status"] == status:
            found.setdefault(tuple(finding[key] for key in keys), []).append(finding)
    return found


def _gaps(console: Console, gaps: Iterable[Json]) -> None:
    notes(console, "Could not tell", ((gap["what"], gap["reason"]) for gap in gaps))
