"""What the frame of every page shows: the server's time, the zone, unread notices."""

from typing import Any

from django.http import HttpRequest
from django.utils import timezone

from portal import clock
from portal.notices.models import Notice

LATEST = 6


def page(request: HttpRequest) -> dict[str, Any]:
    """Context processor. `zone_now` is like "CET, UTC+01:00"."""
    now = clock.now()
    local = timezone.localtime(now)
    frame = {
        "server_time": now,
        "zone_name": str(timezone.get_current_timezone()),
        "zone_now": f"{local.tzname()}, UTC{local.isoformat()[-6:]}",
    }
    user = getattr(request, "user", None)  # absent when a middleware before log-in has refused
    if user is None or not user.is_authenticated:
        return frame
    unread = Notice.objects.filter(user=user, read=None)
    return frame | {"unread_count": unread.count(), "latest_notices": unread[:LATEST]}
