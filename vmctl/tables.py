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
    _table(console, "vGPUs", ("uuid", "gpu", "type", "holder", "ours"), document["vgpus"])
    _table(console, "Not ours", ("name", "uuid", "state"), document["foreign"])
    _table(console, "Disks", ("machine", "mib", "seed"), document["disks"])
    _table(console, "Could not tell", ("what", "reason"), document["unknown"])
    steps = [step | {"outcome": _outcome(step)} for step in document["steps"]]
    _table(console, "Steps", ("subject", "outcome"), steps)
    if document["needs_confirmation"]:
        machines = ", ".join(document["needs_confirmation"])
        console.print(Text(f"Not stopped before an operator confirms it (too many ahead of their end): {machines}"))


def show_gpus(document: Json) -> None:
    """The GPUs of a host and what they can be cut into."""
    console = Console()
    for gpu in document["gpus"]:
        console.print(Text(f"{gpu['address']}  {gpu['model']}  ({gpu['framework']}, driver {gpu['driver'] or 'none'})"))
        _table(console, "", ("name", "driver_id", "memory_mib", "max", "free"), [_free(kind) for kind in gpu["types"]])
        _table(console, "vGPUs on it", ("uuid", "type", "handle", "holder"), gpu["holders"])
        _table(console, "Could not tell", ("what", "reason"), gpu["unknown"])
    if not document["gpus"]:
        console.print("No GPU was found.")


def _outcome(step: Json) -> str:
    if step["error"] is not None:
        return f"{step['error']['what']} {step['error']['remedy']}"
    return "done" if step["done"] else "to do"


def _free(kind: Json) -> Json:
    return kind | {"free": len(kind["free_cells"])}


def show_findings(document: Json) -> None:
    """What the doctor found, worst first."""
    console = Console()
    order = ("fail", "unknown", "warn", "pass", "not_applicable")
    rows = [
        finding | {"said": "; ".join(f"{each['source']}: {each['said']}" for each in finding["evidence"])}
        for finding in sorted(document["findings"], key=lambda finding: order.index(finding["verdict"]))
    ]
    _table(console, document["host"], ("verdict", "id", "said", "remedy"), rows)


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
