"""The door for uvicorn: pages and API, and the sockets."""

import os

from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
pages = get_asgi_application()  # loads the apps, which the imports below need

from channels.auth import AuthMiddlewareStack  # noqa: E402

from portal import urls  # noqa: E402, F401  (else the first request of each process loads all views)
from portal.consoles.routing import websocket_urlpatterns  # noqa: E402

application = ProtocolTypeRouter(
    {
        "http": pages,
        # Each socket checks its Origin itself: Channels' own validator breaks on an Origin that is no URL
        "websocket": AuthMiddlewareStack(URLRouter(websocket_urlpatterns)),
    }
)
