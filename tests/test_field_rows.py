"""Which faults of others are held away by a test.  The rows are those of the field log: public reports, by number.

`@pytest.mark.field("A14")` marks a test that would fail if the fault of that row came back.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

TESTS = Path(__file__).parent

# Every core row of the sections on GPUs (A), pass-through (B) and libvirt (C), whoever can show it.
A = ("A01", "A03", "A05", "A06", "A07", "A08", "A10", "A12", "A13", "A14", "A15", "A17", "A19", "A20")
B = ("B03", "B05", "B06", "B10", "B11")
C = ("C01", "C03", "C04", "C05", "C06", "C07", "C08", "C10", "C13", "C14", "C16", "C18")


def marked() -> Iterator[tuple[str, str]]:
    """(row, place) for every mark in the tests."""
    for file in sorted(TESTS.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "field":
                for argument in node.args:
                    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                        yield argument.value, f"{file.relative_to(TESTS)}:{node.lineno}"


def without_a_test(rows: Iterable[str]) -> list[str]:
    """Rows that no test is marked with."""
    return sorted(set(rows) - {row for row, _ in marked()})


def test_every_core_row_has_a_test() -> None:
    assert without_a_test(A + B + C) == []


def test_a_row_without_a_test_is_seen() -> None:
    """The control: a row that nobody can have marked is missed."""
    assert without_a_test(("A01", "A99")) == ["A99"]
