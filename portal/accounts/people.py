"""Who sends a request."""

from django.http import HttpRequest

from portal.accounts.models import User


def person(request: HttpRequest) -> User:
    """The logged-in person; the caller stands behind `login_required`."""
    if not isinstance(request.user, User):
        raise TypeError("Nobody is logged in.")
    return request.user
