"""Pages about people: log-in and log-out, profile, API tokens."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST

from portal import clock
from portal.accounts import actions
from portal.accounts.forms import LogInForm, ProfileForm, TokenForm
from portal.accounts.models import ApiToken
from portal.accounts.people import person

log_in = LoginView.as_view(
    template_name="accounts/login.html", authentication_form=LogInForm, redirect_authenticated_user=True
)


def _profile_page(request: HttpRequest, *, status: int = 200, **context: object) -> HttpResponse:
    user = person(request)
    page = {
        "form": ProfileForm(initial={"time_zone": user.time_zone, "ssh_keys": user.ssh_keys}),
        "token_form": TokenForm(),
        "tokens": user.tokens.all(),
    } | context
    return render(request, "accounts/profile.html", page, status=status)


@login_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def profile(request: HttpRequest) -> HttpResponse:
    """Time zone, SSH keys, tokens."""
    if request.method != "POST":
        return _profile_page(request)
    form = ProfileForm(request.POST)
    if not form.is_valid():
        return _profile_page(request, form=form, status=422)
    actions.save_profile(person(request), **form.cleaned_data, now=clock.now())
    messages.success(request, "Saved.")
    return redirect("accounts:profile")


@login_required
@never_cache
@require_POST
@sensitive_variables("secret")
def token_make(request: HttpRequest) -> HttpResponse:
    """A new token, shown in this answer and never again."""
    form = TokenForm(request.POST)
    if not form.is_valid():
        return _profile_page(request, token_form=form, status=422)
    user = person(request)
    _, secret = actions.make_token(user, **form.cleaned_data, days=None, by=user, now=clock.now())
    return _profile_page(request, new_token=secret)


@login_required
@require_POST
def token_revoke(request: HttpRequest, token_id: int) -> HttpResponse:
    """Withdraw one of one's own tokens."""
    user = person(request)
    actions.revoke_token(get_object_or_404(ApiToken, pk=token_id, user=user), by=user, now=clock.now())
    messages.success(request, "Revoked. Programs with this token are refused from now on.")
    return redirect("accounts:profile")


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form came without its proof: too old, or cookies are off."""
    return render(request, "403_csrf.html", {"back": request.path}, status=403)
