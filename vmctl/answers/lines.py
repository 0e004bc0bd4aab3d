"""What the lines for people look like.

A table stands only where it fits; what is wider goes row by row. Nothing is cut: an id or a command of a remedy is to
be copied from here. Lines are wrapped between words.
"""

import textwrap
from collections.abc import Iterable, Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

HEADINGS = {
    "frame_buffer_mib": "MiB",
    "frame_buffer_used_mib": "used MiB",
    "utilisation_percent": "busy %",
    "encoder_percent": "encoder %",
    "memory_used_mib": "used MiB",
    "temperature_c": "°C",
    "power_w": "W",
}
GAP = 2
"""Blanks between columns, and before the first."""
LEAST = 16
"""Columns of the terminal that the last column of a table is worth wrapping for."""


def notes(console: Console, title: str, lines: Iterable[tuple[str, str]]) -> None:
    """Sentences below a title, each with what it is about."""
    for number, (what, said) in enumerate(lines):
        if not number:
            paragraph(console, title)
        paragraph(console, f"{what}: {said}" if said else what, 2)


def paragraph(console: Console, text: str, indent: int = 0, hanging: int = 2) -> None:
    """Wrapped between words: a word that is longer than the line stays whole."""
    first, others = " " * indent, " " * (indent + hanging)
    lines = textwrap.wrap(
        _plain(text), console.width, initial_indent=first, subsequent_indent=others,
        replace_whitespace=False, break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    for line in lines:
        console.print(Text(line), soft_wrap=True)


def _plain(value: object) -> str:
    """Nothing that a host or a person wrote may become an instruction to the terminal."""
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    text = "" if value is None else str(value)
    return "".join(letter if letter.isprintable() else " " for letter in text)


def table(console: Console, title: str, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Rows below a title, without the columns that say nothing; one after the other where they are too wide."""
    texts = [{column: _plain(row.get(column)) for column in columns} for row in rows]
    used = [column for column in columns if any(row[column] for row in texts)]
    if not texts:
        return
    paragraph(console, title)
    headings = [HEADINGS.get(column, column) for column in used]
    cells = [[row[column] for column in used] for row in texts]
    widths = [max(map(cell_len, column)) for column in zip(headings, *cells, strict=True)]
    widths[-1] = _last(widths, [words for *_, last in cells for words in last.split()], console.width)
    if sum(widths) + GAP * len(widths) > console.width:
        for row in cells:
            named = (f"{heading} {cell}" for heading, cell in zip(headings, row, strict=True) if cell)
            paragraph(console, "; ".join(named), GAP)
        return
    for row in (headings, *cells):
        _row(console, row, widths)


def _last(widths: Sequence[int], words: Iterable[str], room: int) -> int:
    """The width of the last column, which may be wrapped, but not in a word."""
    left = room - sum(widths[:-1]) - GAP * len(widths)
    return min(widths[-1], max(left, LEAST, *map(cell_len, words)))


def _row(console: Console, cells: Sequence[str], widths: Sequence[int]) -> None:
    others = zip(cells[:-1], widths[:-1], strict=True)
    start = " " * GAP + "".join(f"{cell}{' ' * (width - cell_len(cell) + GAP)}" for cell, width in others)
    for line in textwrap.wrap(cells[-1], widths[-1], break_long_words=False, break_on_hyphens=False) or [""]:
        console.print(Text(f"{start}{line}".rstrip()), soft_wrap=True)
        start = " " * cell_len(start)
