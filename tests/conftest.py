"""What all tests share: golden files, and no test that says nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regenerate", action="store_true", help="write golden files anew; look at `git diff` then")


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
