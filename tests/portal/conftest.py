"""What tests of the portal share: the world that a booking needs."""

import pytest

from tests import make


@pytest.fixture
def world(db: None) -> make.World:
    """Ada, Ben, Cleo and Olga; one host with one T4; flavors small (a quarter) and big (a half)."""
    return make.world()
