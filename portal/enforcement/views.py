"""The operators' page about hosts: what each last said, what went wrong, what waits for a decision."""

from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from portal import clock
from portal.accounts.models import User
from portal.accounts.people import person
from portal.enforcement import actions
from portal.enforcement.models import HostState
from portal.errors import Refused
from portal.host_address import fingerprint
from portal.inventory import release, sight
from portal.inventory.models import GPU, Host
from portal.machines.models import VirtualMachine

LATEST_STEPS = 15
DRIFT_WORTH_SAYING = 2.0  # seconds between the host's clock and the portal's


@login_required
@never_cache
@require_safe
def hosts(request: HttpRequest) -> HttpResponse:
    """All hosts, with what the last call brought."""
    _operator(request)
    found = Host.objects.filter(removed=None).select_related("enforcement").prefetch_related("gpus__holdings")
    rows = [_row(host) for host in found]
    template = (
        "enforcement/hosts.html#list" if request.headers.get("HX-Request") == "true" else "enforcement/hosts.html"
    )
    return render(request, template, {"rows": rows})


def _row(host: Host) -> dict[str, Any]:
    state = getattr(host, "enforcement", None) or HostState(host=host)
    report: dict[str, Any] = state.report or {}
    word, tone = _condition(host, state)
    return {
        "host": host,
        "state": state,
        "ssh": host.address.ssh,
        "fingerprint": fingerprint(host.host_key) if host.host_key else "",
        "calling": state.lease_until is not None and state.lease_until > clock.now(),
        "vmctl": report.get("vmctl"),
        "differs": release.difference(str(report.get("vmctl") or ""), settings.VERSION) if report else "",
        "word": word,
        "tone": tone,
        "asked": VirtualMachine.objects.filter(pk__in=state.needs_confirmation).select_related("owner"),
        "running": len(report.get("machines", [])),
        "foreign": len(report.get("foreign", [])),
        "gpus": [_card(gpu) for gpu in host.gpus.all()],
        "waits": [step for step in report.get("steps", []) if step["kind"] == actions.WAITS],
        "unknown": report.get("unknown", []),
        "accelerator": _accelerator(report),
        "clock": _clock(state),
        "steps": host.steps.all()[:LATEST_STEPS],
    }


def _card(gpu: GPU) -> dict[str, Any]:
    """One GPU in words, and how an operator wants it where that differs."""
    now = gpu.facts.get("regime")
    wanted = gpu.wanted_regime if now and gpu.wanted_regime and now != gpu.wanted_regime else ""
    return {
        "gpu": gpu,
        "words": list(sight.words(gpu.facts)),
        "reason": sight.reason(gpu.facts),
        "gaps": sight.gaps(gpu.facts),
        "wanted": sight.REGIMES.get(wanted, ""),
        "holdings": gpu.holdings.all(),
    }


def _condition(host: Host, state: HostState) -> tuple[str, str]:
    """One word for the host, and its colour."""
    if not host.enabled:
        return "out of use", "off"
    if state.last_error:
        return "not answering" if state.last_error.get("retry") else "trouble", "error"
    if state.needs_confirmation:
        return "needs you", "booked"
    return ("well", "good") if state.last_success else ("new", "off")


def _accelerator(report: dict[str, Any]) -> str:
    found = report.get("accelerator")
    if not found:
        return "not known yet"
    kind = "KVM" if found.get("kvm") else "emulation, which is many times slower"
    return f"{kind}: {found['reason']}" if found.get("reason") else kind


def _clock(state: HostState) -> str:
    if state.last_success is None:
        return "not known yet"
    if abs(state.drift_seconds) < DRIFT_WORTH_SAYING:
        return "agrees with the portal's"
    side = "ahead of" if state.drift_seconds > 0 else "behind"
    return f"{abs(state.drift_seconds):.0f} s {side} the portal's; set up time synchronisation on the host"


@login_required
@require_POST
def confirm(request: HttpRequest, name: str) -> HttpResponse:
    """Let exactly the machines named in the form be stopped."""
    operator = _operator(request)
    host = get_object_or_404(Host, name=name, removed=None)
    try:
        actions.confirm_stops(
            host, [UUID(text) for text in request.POST.getlist("machine")], by=operator, now=clock.now()
        )
    except ValueError:  # not an id; the page makes only ids
        messages.error(request, "That list cannot be read; load the page again.")
    except Refused as refused:
        messages.error(request, refused.detail)
    else:
        messages.success(request, "Confirmed. These machines are stopped with the next call to the host.")
    return redirect("enforcement:hosts")


@login_required
@require_POST
def call(request: HttpRequest, name: str) -> HttpResponse:
    """Test the connection: the service itself calls the host now, and the page shows what came of it."""
    operator = _operator(request)
    host = get_object_or_404(Host, name=name, removed=None)
    actions.ask_look(host, by=operator, now=clock.now())
    messages.success(request, f"{host} is being called. What it answers shows here in a moment.")
    return redirect("enforcement:hosts")


def _operator(request: HttpRequest) -> User:
    user = person(request)
    if not user.is_operator:
        raise PermissionDenied
    return user
