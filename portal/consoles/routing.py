"""Addresses of the sockets."""

from django.urls import path

from portal.consoles.consumers import console, nudges

websocket_urlpatterns = [
    path("ws/console", console),
    path("ws/nudge", nudges),
]
