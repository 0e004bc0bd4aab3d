"""A place for each test."""

from collections.abc import Iterator

import pytest

from tests.vmctl.real.place import Place, a_place


@pytest.fixture
def place() -> Iterator[Place]:
    """A simulated host of its own on the real libvirt."""
    with a_place() as found:
        yield found
