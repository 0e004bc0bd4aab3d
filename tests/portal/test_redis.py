"""A Redis that hangs costs seconds, never the work that was committed."""

import logging
import socket
import tempfile
from pathlib import Path

import pytest
from kombu.pools import producers
from pytest_django import Settings

from portal import nudge
from portal.celery import app
from portal.enforcement import signals


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


def test_a_broker_that_hangs_holds_nobody_up(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as deaf:
        path = Path(folder, "redis.sock")
        deaf.bind(str(path))
        deaf.listen(5)
        with app.connection_for_write(f"redis+socket://{path}") as line:
            monkeypatch.setattr(app.amqp, "_producer_pool", producers[line])
            signals.wanted.send(None, host_ids=[1])
    assert "No broker; the next tick will see to it" in caplog.text
