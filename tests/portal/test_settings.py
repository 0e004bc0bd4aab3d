"""A wrong setting ends the start with one sentence; a right one means what the README says."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GOOD = {"SECRET_KEY": "k" * 50, "DATABASE_URL": "postgres:///x", "REDIS_URL": "redis://localhost:6379/0"}
ASK = """
import json, sys
from django.core.exceptions import ImproperlyConfigured
try:
    from portal import settings
except ImproperlyConfigured as error:
    sys.exit(str(error))
wanted = sys.argv[1:]
print(json.dumps({name: getattr(settings, name) for name in wanted}, default=str))
"""


def start(changes: dict[str, str], *wanted: str) -> subprocess.CompletedProcess[str]:
    """A process of its own with just these settings."""
    env = {"PATH": os.environ["PATH"]} | GOOD | changes
    command = [sys.executable, "-c", ASK, *wanted]
    return subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.field("E13")
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"SECRET_KEY": ""}, "SECRET_KEY is missing"),
        ({"SECRET_KEY": "insecure-" + "x" * 50}, "SECRET_KEY is a default"),
        ({"SECRET_KEY": "short"}, "SECRET_KEY is a default or too short"),
        ({"PUBLIC_ORIGINS": "*"}, "PUBLIC_ORIGINS must not contain *"),
        ({"PUBLIC_ORIGINS": "https://*.example.org"}, "PUBLIC_ORIGINS must not contain *"),
        ({"PUBLIC_ORIGINS": "gpu.example.org"}, "is not an origin"),
        ({"PUBLIC_ORIGINS": "https://gpu.example.org/path"}, "is not an origin"),
        ({"PUBLIC_ORIGINS": "http://gpu.example.org:port"}, "is not an origin"),
        ({"PUBLIC_ORIGINS": " , "}, "PUBLIC_ORIGINS lists no origin"),
        ({"TIME_ZONE": "Mars/Olympus"}, "TIME_ZONE is not a time zone"),
        ({"TIME_ZONE": "../../etc/passwd"}, "TIME_ZONE is not a time zone"),
        ({"SLOT_MINUTES": "soon"}, "SLOT_MINUTES must be a whole number"),
        ({"SLOT_MINUTES": "0"}, "SLOT_MINUTES must be between"),
        ({"SLOT_MINUTES": "7"}, "SLOT_MINUTES must divide a day"),
        ({"TICK_SECONDS": "-1"}, "TICK_SECONDS must be between"),
        ({"PORT": "80000"}, "PORT must be between"),
        ({"DEBUG": "maybe"}, "DEBUG must be 0 or 1"),
        ({"LOG_LEVEL": "loud"}, "LOG_LEVEL must be one of"),
        ({"DATABASE_URL": "sqlite:///x"}, "DATABASE_URL must begin with postgres://"),
        ({"DATABASE_URL": "postgres://host:port/x"}, "DATABASE_URL cannot be read"),
        ({"REDIS_URL": "localhost"}, "REDIS_URL must begin with redis://"),
        ({"PORTAL_ID": "ours"}, "PORTAL_ID must be a UUID"),
        ({"VAR_DIR": "var"}, "VAR_DIR must be an absolute path"),
        ({"LICENCE_TOKEN": "token.tok"}, "LICENCE_TOKEN must be an absolute path"),
    ],
)
def test_a_wrong_setting_is_one_sentence(changes: dict[str, str], sentence: str) -> None:
    done = start(changes)
    assert done.returncode == 1
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.strip().endswith(".")


def test_cookies_are_secure_exactly_where_every_address_is_https() -> None:
    names = ("SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE", "ALLOWED_HOSTS")
    assert json.loads(start({"PORT": "9000"}, *names).stdout) == {
        "SESSION_COOKIE_SECURE": False,
        "CSRF_COOKIE_SECURE": False,
        "ALLOWED_HOSTS": ["127.0.0.1", "localhost"],
    }
    https = start({"PUBLIC_ORIGINS": "https://gpu.example.org:8443"}, *names)
    assert json.loads(https.stdout) == {
        "SESSION_COOKIE_SECURE": True,
        "CSRF_COOKIE_SECURE": True,
        "ALLOWED_HOSTS": ["gpu.example.org"],
    }


def test_the_portals_id_follows_the_key_and_celery_finds_a_socket() -> None:
    unix = {"REDIS_URL": "unix:///run/x/redis.sock?db=3"}
    one, two, other = (
        json.loads(start(unix | key, "PORTAL_ID", "CELERY_BROKER_URL").stdout)
        for key in ({}, {}, {"SECRET_KEY": "o" * 50})
    )
    assert one == two
    assert one["PORTAL_ID"] != other["PORTAL_ID"]
    assert one["CELERY_BROKER_URL"] == "redis+socket:///run/x/redis.sock?virtual_host=3"


@pytest.mark.field("E01", "E03", "E07", "E13")
def test_ticks_expire_and_beat_counts_in_utc() -> None:
    names = (
        "CELERY_BEAT_SCHEDULE",
        "CELERY_TIMEZONE",
        "CELERY_ENABLE_UTC",
        "CELERY_RESULT_BACKEND",
        "CELERY_TASK_TIME_LIMIT",
    )
    found = json.loads(start({"TIME_ZONE": "Europe/Helsinki", "TICK_SECONDS": "5"}, *names).stdout)
    tick = found["CELERY_BEAT_SCHEDULE"]["tick"]
    assert (tick["schedule"], tick["options"]["expires"]) == (5, 5)
    assert (found["CELERY_TIMEZONE"], found["CELERY_ENABLE_UTC"], found["CELERY_RESULT_BACKEND"]) == ("UTC", True, None)
    assert found["CELERY_TASK_TIME_LIMIT"] < 3600  # Redis gives a message to somebody else after an hour
