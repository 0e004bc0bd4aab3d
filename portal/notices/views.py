"""Pages about what people were told."""

from typing import TYPE_CHECKING, cast

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from portal import clock
from portal.notices import actions
from portal.notices.models import Notice

if TYPE_CHECKING:
    from portal.accounts.models import User

PAGE_SIZE = 25


@login_required
@require_safe
def notices(request: HttpRequest) -> HttpResponse:
    """All notices of this person, newest first."""
    mine = Notice.objects.filter(user=cast("User", request.user))
    return render(
        request, "notices/list.html", {"notices": Paginator(mine, PAGE_SIZE).get_page(request.GET.get("page"))}
    )


@login_required
@require_safe
def menu(request: HttpRequest) -> HttpResponse:
    """The notices in the top bar, rendered again after a nudge."""
    return render(request, "notices/menu.html")


@login_required
@require_POST
def read(request: HttpRequest) -> HttpResponse:
    """Mark all as read."""
    actions.mark_read(cast("User", request.user), now=clock.now())
    return redirect("notices:list")
