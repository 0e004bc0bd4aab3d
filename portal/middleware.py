"""Two things every answer gets: security headers, and for the API one shape of error whoever refused."""

from collections.abc import Callable
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase

GetResponse = Callable[[HttpRequest], HttpResponseBase]

# Everything comes from our own origin; data: and blob: are for pictures drawn by the console and by Bootstrap's icons.
POLICY = "; ".join(
    (
        "default-src 'self'",
        "img-src 'self' data: blob:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)


class SecurityHeaders:
    """Content-Security-Policy and Permissions-Policy; the others come from Django's own middleware."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", POLICY)
        response.headers.setdefault("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
        return response


CODES = {
    400: ("bad_request", "The request cannot be read."),
    401: ("unauthorized", "Send a bearer token or log in."),
    403: ("forbidden", "You may not do this."),
    404: ("not_found", "There is nothing here."),
    405: ("method_not_allowed", "This address does not take that method."),
    413: ("too_large", "The request is too large."),
    429: ("throttled", "Too many tries; wait a while."),
}


class ApiErrors:
    """Refusals that Django itself makes below /api/ (no such address, bad Host, wrong method) in the API's shape."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if not request.path.startswith("/api/") or response.status_code < HTTPStatus.BAD_REQUEST:
            return response
        if response.headers.get("Content-Type", "").startswith("application/json"):
            return response
        return _shaped(response)


def _shaped(response: HttpResponseBase) -> HttpResponse:
    code, detail = CODES.get(response.status_code, ("failed", "Something went wrong on our side; the log says what."))
    shaped = JsonResponse({"code": code, "detail": detail}, status=response.status_code)
    for header, value in response.headers.items():
        if header not in ("Content-Type", "Content-Length"):
            shaped.headers[header] = value
    shaped.cookies = response.cookies
    return shaped
