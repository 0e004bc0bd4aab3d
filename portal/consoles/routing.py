"""Addresses of the sockets."""

from collections.abc import Mapping
from typing import Any

from django.urls import path, re_path

from portal.consoles.consumers import console, nudges
from portal.consoles.socket import Receive, Send


async def nothing(scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
    """Any other address: refused, where Channels would fail."""
    await receive()
    await send({"type": "websocket.close"})


websocket_urlpatterns = [
    path("ws/console", console),  # type: ignore[arg-type]  # an ASGI application, as Channels wants it
    path("ws/nudge", nudges),  # type: ignore[arg-type]
    re_path("", nothing),  # type: ignore[arg-type]
]
