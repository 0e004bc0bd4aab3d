"""Hosts over SSH without a network."""

import pytest

from portal import gateway
from tests.portal.inventory.answering import Answering


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> Answering:
    answering = Answering()
    monkeypatch.setattr(gateway, "host_key_of", answering.host_key_of)
    monkeypatch.setattr(gateway, "observe", answering.observe)
    return answering
