"""What all tests share: their order, and golden files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
DATA = HERE / "data"
# What runs after everything else, in this order: the slow ones, and last those whose browser keeps an event loop in the
# main thread from its first test to the end of the run (asynchronous tests cannot run beside it).
LAST = ("stack", "image", "chaos", "journeys", "browser")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regenerate", action="store_true", help="write golden files anew; look at `git diff` then")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def turn(item: pytest.Item) -> int:
        room = item.path.relative_to(HERE).parts[0]
        return LAST.index(room) + 1 if room in LAST else 0

    items.sort(key=turn)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(actual, name)` compares with tests/data/<name>.  A missing file fails: it is made on purpose only."""
    regenerate = bool(request.config.getoption("--regenerate"))

    def assert_golden(actual: str, name: str) -> None:
        file = DATA / name
        if regenerate:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(actual)
        if not file.is_file():
            pytest.fail(f"tests/data/{name} is missing; `pytest --regenerate` makes it, then read it")
        assert actual == file.read_text()

    return assert_golden
