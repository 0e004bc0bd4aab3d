"""Reading settings from the environment: each reader returns a value or ends the start with one sentence."""

import hashlib
import os
from pathlib import Path
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

_YES = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
    "": False,
}


def text(name: str, default: str) -> str:
    """A setting as it stands; an empty one counts as left out."""
    return os.environ.get(name, "").strip() or default


def number(name: str, default: int, *, least: int, most: int) -> int:
    """A whole number within bounds."""
    raw = text(name, str(default))
    try:
        value = int(raw)
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a whole number, not {raw!r}.") from None
    if not least <= value <= most:
        raise ImproperlyConfigured(f"{name} must be between {least} and {most}, not {value}.")
    return value


def flag(name: str) -> bool:
    """0 or 1, and the usual words for them; off when left out."""
    raw = os.environ.get(name, "").strip().lower()
    if raw not in _YES:
        raise ImproperlyConfigured(f"{name} must be 0 or 1, not {raw!r}.")
    return _YES[raw]


def choice(name: str, default: str, allowed: tuple[str, ...]) -> str:
    """One word out of a list, in capitals."""
    value = text(name, default).upper()
    if value not in allowed:
        raise ImproperlyConfigured(f"{name} must be one of {', '.join(allowed)}, not {value!r}.")
    return value


def folder(name: str, default: Path) -> Path:
    """The absolute path of a folder, or of a file; nothing is made here."""
    value = Path(text(name, str(default)))
    if not value.is_absolute():
        raise ImproperlyConfigured(f"{name} must be an absolute path, not {str(value)!r}.")
    return value


def zone(name: str, default: str) -> str:
    """The name of a time zone that this machine knows."""
    value = text(name, default)
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ImproperlyConfigured(
            f"{name} is not a time zone this machine knows: {value!r}. Example: Europe/Berlin."
        ) from None
    return value


def secret_key(name: str, *, debug: bool) -> str:
    """The key that signs sessions and seals passwords; production refuses a missing or well-known one."""
    value = os.environ.get(name, "").strip()
    if debug:
        return value or "insecure-only-for-development"
    if not value:
        raise ImproperlyConfigured(
            f"{name} is missing. `make run` makes one in var/; elsewhere set 50 random characters."
        )
    if value.startswith("insecure") or len(value) < 32:
        raise ImproperlyConfigured(f"{name} is a default or too short; set at least 32 random characters.")
    return value


def origins(name: str, default: str) -> list[str]:
    """Where browsers reach the portal: scheme, host and port, without a path. A star would let every page in."""
    values = [origin.strip().rstrip("/") for origin in text(name, default).split(",") if origin.strip()]
    if not values:
        raise ImproperlyConfigured(f"{name} lists no origin; it needs at least one like https://gpu.example.org.")
    for origin in values:
        _check_origin(name, origin)
    return values


def _check_origin(name: str, origin: str) -> None:
    if "*" in origin:
        raise ImproperlyConfigured(f"{name} must not contain *; list scheme, host and port of each address.")
    parts = urlsplit(origin)
    try:
        complete = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:  # a port that is no number
        complete = False
    if not complete or parts.path or parts.query or parts.fragment or parts.username:
        raise ImproperlyConfigured(f"{name}: {origin!r} is not an origin; write it like https://gpu.example.org:8443.")


def database(name: str, default: str) -> dj_database_url.DBConfig:
    """DATABASE_URL; PostgreSQL only, because the tiles are kept apart by its exclusion constraints."""
    url = text(name, default)
    if urlsplit(url).scheme not in ("postgres", "postgresql"):
        raise ImproperlyConfigured(f"{name} must begin with postgres://; no other database can keep bookings apart.")
    try:
        return dj_database_url.parse(url)
    except (ValueError, dj_database_url.ParseError):
        raise ImproperlyConfigured(f"{name} cannot be read; write it like postgres://user@host:5432/name.") from None


def redis(name: str, default: str) -> str:
    """REDIS_URL: redis://, rediss:// or unix:///path?db=N."""
    url = text(name, default)
    if urlsplit(url).scheme not in ("redis", "rediss", "unix"):
        raise ImproperlyConfigured(f"{name} must begin with redis://, rediss:// or unix://, not {url!r}.")
    return url


def celery_broker(redis_url: str) -> str:
    """The same Redis in Celery's spelling: kombu writes unix sockets as redis+socket://PATH?virtual_host=N."""
    if not redis_url.startswith("unix://"):
        return redis_url
    return (
        redis_url.replace("unix://", "redis+socket://", 1)
        .replace("?db=", "?virtual_host=")
        .replace("&db=", "&virtual_host=")
    )


def instance(checkout: Path) -> str:
    """Eight hex digits that tell two checkouts on one machine apart."""
    return hashlib.sha256(str(checkout.resolve()).encode()).hexdigest()[:8]
