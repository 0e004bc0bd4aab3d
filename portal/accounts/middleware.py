"""The zone that a page's times are shown and read in: the one that the person chose, else the site's."""

from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone

GetResponse = Callable[[HttpRequest], HttpResponseBase]


class ZoneMiddleware:
    """Activates the zone for one request. A browser's own zone is never asked, so it can shift or overwrite nothing."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        with timezone.override(getattr(request.user, "zone", None) or timezone.get_default_timezone()):
            return self.get_response(request)
