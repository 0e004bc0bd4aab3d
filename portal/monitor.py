"""What a monitor asks: does this process answer, and does the whole work?"""

from datetime import datetime, timedelta
from typing import Any

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.models import Max
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from portal import clock
from portal.enforcement.models import HostState
from portal.inventory.models import Host

TICKS_MISSED = 6  # that many ticks without a call to any host, and nothing is enforced any more


@never_cache
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """This process answers."""
    return JsonResponse({"status": "ok"})


@never_cache
@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Database, Redis and the age of the last call to a host; 503 where one of them is wrong."""
    checks = {"database": _database(), "redis": _redis()}
    checks |= _tick(clock.now()) if checks["database"] == "ok" else {"tick": "unknown"}
    good = all(value == "ok" for name, value in checks.items() if name in ("database", "redis", "tick"))
    return JsonResponse({"status": "ok" if good else "failed"} | checks, status=200 if good else 503)


def _database() -> str:
    try:
        with connection.cursor() as cursor:
            cursor.execute("select 1")
    except DatabaseError:
        return "unreachable"
    return "ok"


def _redis() -> str:
    try:
        with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2) as client:
            client.ping()
    except redis.RedisError:
        return "unreachable"
    return "ok"


def _tick(now: datetime) -> dict[str, Any]:
    """Not "a worker exists" but "hosts are being looked at": the last call to any of them."""
    if not Host.objects.filter(enabled=True).exists():
        return {"tick": "ok", "tick_age_seconds": None}
    last = HostState.objects.aggregate(last=Max("last_call"))["last"]
    if last is None:
        return {"tick": "none yet", "tick_age_seconds": None}
    age = now - last
    limit = timedelta(seconds=TICKS_MISSED * settings.TICK_SECONDS)
    return {"tick": "ok" if age < limit else "late", "tick_age_seconds": round(age.total_seconds(), 1)}
