"""A nudge is worth seconds at most."""

import logging
import socket
import tempfile
from pathlib import Path

import pytest
from pytest_django import Settings

from portal import nudge


def test_a_channel_layer_that_hangs_holds_nobody_up(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(nudge, "SEND_SECONDS", 0.3)
    caplog.set_level(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as deaf:
        path = Path(folder, "redis.sock")
        deaf.bind(str(path))
        deaf.listen(5)
        layer = {"BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer", "CONFIG": {"hosts": [f"unix://{path}"]}}
        settings.CHANNEL_LAYERS = {"default": layer}
        nudge._send(nudge.EVERYONE, {"type": "nudge", "url": "/"})
    assert "no answer in time" in caplog.text
