"""Addresses of the sockets."""

from django.urls import path

from portal.consoles.consumers import console, nudges

websocket_urlpatterns = [
    path("ws/console", console),  # type: ignore[arg-type]  # an ASGI application, as Channels wants it
    path("ws/nudge", nudges),  # type: ignore[arg-type]
]
