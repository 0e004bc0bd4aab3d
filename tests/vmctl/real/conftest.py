"""A place for each test, and one machine for all that only look at one."""

from collections.abc import Iterator

import pytest

from tests.vmctl.real.place import Place, a_place


@pytest.fixture
def place() -> Iterator[Place]:
    """A simulated host of its own on the real libvirt."""
    with a_place() as found:
        yield found


@pytest.fixture(scope="session")
def running() -> Iterator[Place]:
    """A place whose machine "a" runs with a share. To be looked at only: it is everybody's."""
    with a_place() as found:
        found.settle(found.with_vgpu("a"))
        found.until_up("a")
        yield found
