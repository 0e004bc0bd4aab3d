"""The zone that a page's times are shown and read in: the one that the person chose, else the site's."""

from collections.abc import Callable
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone

GetResponse = Callable[[HttpRequest], HttpResponseBase]


class ZoneMiddleware:
    """Activates the zone for one request. A browser's own zone is never asked, so it can shift or overwrite nothing."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        chosen = getattr(request.user, "time_zone", "")
        try:
            zone = ZoneInfo(chosen) if chosen else timezone.get_default_timezone()
        except (ZoneInfoNotFoundError, ValueError):  # chosen on a machine that knew more zones
            zone = timezone.get_default_timezone()
        with timezone.override(zone):
            return self.get_response(request)
