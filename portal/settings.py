"""Settings of the portal, all from the environment (README lists them), with defaults that run."""

import uuid
import warnings
from pathlib import Path
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from portal import environment as env
from vmctl import __version__

VERSION = __version__
BASE_DIR = Path(__file__).resolve().parent.parent
# In a checkout templates and static files lie beside the code; a wheel (scripts/wheel) has them inside the package
PACKED = BASE_DIR / "portal" / "pages"
PAGES_DIR = PACKED if PACKED.is_dir() else BASE_DIR
INSTANCE = env.instance(BASE_DIR)

# Where it listens and who may come in
DEBUG = env.flag("DEBUG")
SECRET_KEY = env.secret_key("SECRET_KEY", debug=DEBUG)
PORT = env.number("PORT", 8000, least=1, most=65535)
PUBLIC_ORIGINS = env.origins("PUBLIC_ORIGINS", f"http://127.0.0.1:{PORT},http://localhost:{PORT}")
ALLOWED_HOSTS = sorted({urlsplit(origin).hostname or "" for origin in PUBLIC_ORIGINS})
LOG_LEVEL = env.choice("LOG_LEVEL", "INFO", ("DEBUG", "INFO", "WARNING", "ERROR"))

# Services
DATABASES = {"default": env.database("DATABASE_URL", "postgres:///tessera")}
REDIS_URL = env.redis("REDIS_URL", "redis://127.0.0.1:6379/0")
LIBVIRT_URI = env.text("LIBVIRT_URI", "qemu:///system")

# Folders, and one file
VAR_DIR = env.folder("VAR_DIR", Path("/var/lib/tessera") if PACKED.is_dir() else BASE_DIR / "var")
SSH_DIR = env.folder("SSH_DIR", VAR_DIR / "ssh")
RUN_DIR = env.folder("RUN_DIR", Path("/run/tessera") / INSTANCE)
IMAGES_DIR = env.folder("IMAGES_DIR", VAR_DIR / "images")
STORAGE_DIR = env.folder("STORAGE_DIR", VAR_DIR / "storage")
LICENCE_TOKEN = env.folder("LICENCE_TOKEN", Path("/etc/tessera/client_configuration_token.tok"))

# Bookings
TIME_ZONE = env.zone("TIME_ZONE", "UTC")
SLOT_MINUTES = env.number("SLOT_MINUTES", 15, least=1, most=1440)
if 1440 % SLOT_MINUTES:
    raise ImproperlyConfigured(f"SLOT_MINUTES must divide a day of 1440 minutes; {SLOT_MINUTES} does not.")
MAX_BOOKING_HOURS = env.number("MAX_BOOKING_HOURS", 72, least=1, most=24 * 366)
BOOKING_HORIZON_DAYS = env.number("BOOKING_HORIZON_DAYS", 60, least=1, most=3660)
TURNAROUND_SECONDS = env.number("TURNAROUND_SECONDS", 0, least=0, most=86400)
REGIME_CHANGE_SECONDS = env.number("REGIME_CHANGE_SECONDS", 0, least=0, most=86400)
LOCK_TIMEOUT_SECONDS = env.number("LOCK_TIMEOUT_SECONDS", 3, least=1, most=60)
TOKEN_DAYS = env.number("TOKEN_DAYS", 90, least=1, most=3660)

# Enforcement and consoles
PORTAL_ID = env.text("PORTAL_ID", str(uuid.uuid5(uuid.NAMESPACE_OID, SECRET_KEY)))
try:
    PORTAL_ID = str(uuid.UUID(PORTAL_ID))
except ValueError:
    raise ImproperlyConfigured(f"PORTAL_ID must be a UUID, not {PORTAL_ID!r}.") from None
TICK_SECONDS = env.number("TICK_SECONDS", 10, least=1, most=600)
STOP_GRACE_SECONDS = env.number("STOP_GRACE_SECONDS", 60, least=1, most=3600)
EXPIRE_ALLOWANCE_SECONDS = env.number("EXPIRE_ALLOWANCE_SECONDS", 900, least=60, most=86400)
APPLY_TIMEOUT_SECONDS = env.number("APPLY_TIMEOUT_SECONDS", 120, least=5, most=600)
CONSOLE_TICKET_SECONDS = env.number("CONSOLE_TICKET_SECONDS", 30, least=5, most=300)
GUEST_NETWORK = env.text("GUEST_NETWORK", "tessera")

# Django
INSTALLED_APPS = [
    "whitenoise.runserver_nostatic",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "channels",
    "django_htmx",
    "template_partials",
    "portal.audit",
    "portal.notices",
    "portal.accounts",
    "portal.inventory",
    "portal.machines",
    "portal.bookings",
    "portal.enforcement",
    "portal.consoles",
]
MIDDLEWARE = [
    "portal.middleware.SecurityHeaders",
    "portal.middleware.ApiErrors",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "portal.accounts.middleware.ZoneMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "portal.urls"
ASGI_APPLICATION = "portal.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [PAGES_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "portal.accounts.context.page",
            ],
        },
    },
]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LANGUAGE_CODE = "en"
USE_TZ = True
AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = ["portal.accounts.backends.ThrottledBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "accounts:login"
LOGIN_REDIRECT_URL = "bookings:calendar"
LOGOUT_REDIRECT_URL = "accounts:login"

# Cookies travel only over https where every address is https; with a plain one in the list (127.0.0.1) they must not
# be marked secure, or nobody could log in there.
_ALL_HTTPS = all(origin.startswith("https://") for origin in PUBLIC_ORIGINS)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _ALL_HTTPS
SESSION_COOKIE_HTTPONLY = True
CSRF_FAILURE_VIEW = "portal.accounts.views.csrf_failure"
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
CSRF_TRUSTED_ORIGINS = PUBLIC_ORIGINS
SECURE_HSTS_SECONDS = 31536000 if _ALL_HTTPS else 0
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if _ALL_HTTPS else None
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024

# Static files come from the checkout or the wheel as they are: no collecting step that can be forgotten
STATIC_URL = "/static/"
STATICFILES_DIRS = [PAGES_DIR / "static"] if (PAGES_DIR / "static").is_dir() else []
WHITENOISE_USE_FINDERS = True
# Whitenoise hands out files as synchronous iterators; Django reads them whole, which for files of this size is well
warnings.filterwarnings("ignore", message="StreamingHttpResponse must consume synchronous iterators")
WHITENOISE_AUTOREFRESH = DEBUG

# Pub/sub: a lost nudge costs nothing, and the queueing layer now and then loses the cancelling of a receive, so that
# sockets stay for ever (seen with channels-redis 4.3 and redis-py 8)
CHANNEL_LAYERS = {
    "default": {"BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer", "CONFIG": {"hosts": [REDIS_URL]}}
}

CELERY_BROKER_URL = env.celery_broker(REDIS_URL)
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# A broker that took the connection and never answers would hold whoever has just booked for ever
CELERY_BROKER_TRANSPORT_OPTIONS = {"socket_timeout": 3, "socket_connect_timeout": 3}
CELERY_RESULT_BACKEND = None
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_ACKS_LATE = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TASK_SOFT_TIME_LIMIT = APPLY_TIMEOUT_SECONDS + 30
CELERY_TASK_TIME_LIMIT = APPLY_TIMEOUT_SECONDS + 60
CELERY_ENABLE_UTC = True
CELERY_TIMEZONE = "UTC"  # beat counts seconds; a local zone here once held ticks back for an hour in summer
CELERY_BEAT_SCHEDULE = {
    "tick": {
        "task": "portal.enforcement.tasks.tick",
        "schedule": TICK_SECONDS,
        "options": {"expires": TICK_SECONDS},  # after an outage one tick catches up, not a burst of them
    },
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": LOG_LEVEL},
    "loggers": {
        "django": {"handlers": [], "propagate": True, "level": LOG_LEVEL},
        # The gateway turns each of its failures into a sentence; its own words would be tracebacks
        "paramiko": {"level": "CRITICAL"},
    },
}
