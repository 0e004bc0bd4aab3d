"""Who calls the API: a bearer token with a scope, or the session of a page of ours."""

from typing import Any

from django.http import HttpRequest
from ninja.security import HttpBearer
from ninja.utils import check_csrf

from portal import clock
from portal.accounts import actions
from portal.accounts.models import ApiToken, Scope, User
from portal.errors import Forbidden, NotVisible

TOKEN = "tessera.token"  # no header can be called so


class Access(HttpBearer):
    """Lets in who may do what `scope` names; `request.user` is then they. Sessions may do all, with CSRF proof."""

    def __init__(self, scope: Scope) -> None:
        super().__init__()
        self.scope = scope

    def __call__(self, request: HttpRequest) -> User | None:
        if "Authorization" in request.headers:
            return super().__call__(request)
        return self._session(request)

    def authenticate(self, request: HttpRequest, token: str) -> User | None:
        try:
            found = actions.token_of(token, now=clock.now())
        except NotVisible:
            return None
        if self.scope not in found.scopes:
            raise Forbidden(f"This token lacks the scope {self.scope}.")
        request.user = found.user
        request.META[TOKEN] = found
        return found.user

    def _session(self, request: HttpRequest) -> User | None:
        if not isinstance(request.user, User):
            return None
        if check_csrf(request) is not None:
            raise Forbidden("The CSRF token is missing or wrong.")
        return request.user


def token_used(request: HttpRequest) -> ApiToken | None:
    """The bearer token that Access let in; None: a session."""
    found = request.META.get(TOKEN)
    return found if isinstance(found, ApiToken) else None


def caller(request: HttpRequest) -> User:
    """The person behind a request that Access let in."""
    user: Any = request.user
    if not isinstance(user, User):
        raise TypeError("Access has let in nobody.")
    return user
