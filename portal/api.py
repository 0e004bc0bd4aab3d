"""The API under /api/v1/, and the two addresses that a monitor asks."""

from django.http import HttpRequest, HttpResponse, JsonResponse
from ninja import NinjaAPI

v1 = NinjaAPI(title="Tessera", version="1", docs_url=None, urls_namespace="api")


def healthz(request: HttpRequest) -> HttpResponse:
    """This process answers."""
    return JsonResponse({"status": "ok"})


def readyz(request: HttpRequest) -> HttpResponse:
    return JsonResponse({"status": "ok"})
