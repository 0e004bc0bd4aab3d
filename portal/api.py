"""The API under /api/v1/: routers of the apps, one shape for every refusal."""

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from portal.bookings.api import router as bookings
from portal.consoles.api import router as consoles
from portal.errors import Refused
from portal.inventory.api import router as inventory
from portal.machines.api import router as machines
from portal.middleware import CODES

# No page of API documentation: ninja's would fetch its scripts from elsewhere
v1 = NinjaAPI(title="Tessera", version="1", docs_url=None, openapi_url="/openapi.json", urls_namespace="api")
for router in (inventory, machines, bookings, consoles):
    v1.add_router("", router)


def _answer(request: HttpRequest, status: int, document: Mapping[str, Any]) -> HttpResponse:
    return v1.create_response(request, {key: value for key, value in document.items() if value}, status=status)


@v1.exception_handler(Refused)
def refused(request: HttpRequest, error: Refused) -> HttpResponse:
    """A refusal of an action, as it stands."""
    document = {"code": error.code, "detail": error.detail, "fields": error.fields, "suggestions": error.suggestions}
    return _answer(request, error.status, document)


@v1.exception_handler(ValidationError)
def invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    """The content does not fit the schema: which field, and why."""
    fields = {_field(one["loc"]): str(one["msg"]) for one in error.errors}
    named = ", ".join(sorted(fields))
    return _answer(request, 422, {"code": "invalid", "detail": f"Not understood: {named}.", "fields": fields})


def _field(location: tuple[str | int, ...]) -> str:
    """The part of a pydantic location after where it came from ("body", "query") and the parameter's name."""
    parts = [str(part) for part in location]
    return ".".join(parts[2:] or parts[-1:])


@v1.exception_handler(AuthenticationError)
def unauthorized(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
    """Nobody, or a token that is not live."""
    code, detail = CODES[401]
    answer = _answer(request, 401, {"code": code, "detail": detail})
    answer.headers["WWW-Authenticate"] = "Bearer"
    return answer


@v1.exception_handler(HttpError)
def unreadable(request: HttpRequest, error: HttpError) -> HttpResponse:
    """What ninja itself refuses, above all a body that is no JSON."""
    code, detail = CODES.get(error.status_code, ("bad_request", error.message))
    return _answer(request, error.status_code, {"code": code, "detail": detail})


@v1.exception_handler(RequestDataTooBig)
def too_large(request: HttpRequest, error: RequestDataTooBig) -> HttpResponse:
    """A body beyond DATA_UPLOAD_MAX_MEMORY_SIZE."""
    code, detail = CODES[413]
    return _answer(request, 413, {"code": code, "detail": detail})
