"""Log-in by name and password, slowed down after repeated failures from one address."""

from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from portal import clock
from portal.accounts import actions
from portal.accounts.models import User


class ThrottledBackend(ModelBackend):
    """Refuses even the right password while a name is locked from an address."""

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **kwargs: Any
    ) -> User | None:
        if username is None or password is None:
            return None
        address = request.META.get("REMOTE_ADDR", "") if request else ""
        now = clock.now()
        if actions.locked_until(username, address, now) is not None:
            raise PermissionDenied
        user = super().authenticate(request, username=username, password=password, **kwargs)
        if user is None:
            actions.login_failed(username, address, now)
            return None
        actions.login_succeeded(user, address, now)
        return user
