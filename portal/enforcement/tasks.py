"""The tick, and one pass over one host. Both may run late, twice, or on several workers at once."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from uuid import UUID

from celery import shared_task
from django.conf import settings
from django.db import OperationalError

from portal import clock, gateway
from portal.enforcement import actions, reading, reconciling
from portal.enforcement.actions import Superseded, Turn
from portal.enforcement.report import Report, parse
from portal.enforcement.verdict import misfit
from portal.gateway import GatewayError
from portal.inventory.models import Host

log = logging.getLogger(__name__)

ALARM_AFTER_SKIPS = 3


@shared_task
def tick() -> None:
    """Look at every host soon. The promise of the whole: what any message lost, a tick mends."""
    now = clock.now()
    asked = now - timedelta(seconds=settings.TICK_SECONDS / 2)  # a second beat's tick finds the pass already made
    for host_id in reading.hosts_to_watch(now):
        soon(host_id, asked, patient=True)
    reconciling.miss_overdue(now)  # last: whatever is wrong with one old booking, hosts are looked at


def soon(host_id: int, asked: datetime, *, patient: bool = False) -> None:
    """Send for a pass that begins after `asked`; worthless after a tick, which sends for the next.

    patient: a host that did not answer lately may be left in peace for a while; otherwise somebody wants to know now.
    """
    enforce.apply_async((host_id, asked.isoformat(), patient), expires=settings.TICK_SECONDS)


@shared_task
def enforce(host_id: int, asked: str, patient: bool = False) -> None:
    """One pass over one host, unless one is under way or was begun after `asked`."""
    host = Host.objects.get(pk=host_id)
    if not patient:
        gateway.try_at_once(host.address)
    try:
        turn = actions.take_turn(host, asked=datetime.fromisoformat(asked), now=clock.now())
    except OperationalError as error:  # the row is locked for seconds: somebody is recording, or frozen while doing so
        log.warning("%s: skipped, its row is locked: %s", host, error)
        return
    if turn is None:
        _tell_skips(host)
        return
    try:
        _pass(turn)
    except Superseded as overtaken:
        log.warning("%s The late answer was dropped.", overtaken)
    except Exception:
        log.exception("%s: the pass of generation %s failed", host, turn.generation)
    finally:
        actions.end_turn(turn)
        _heed_skips(turn, clock.now())


def _heed_skips(turn: Turn, now: datetime) -> None:
    """Whoever knocked during this pass may have brought something new: look again at once. After a pass longer than a
    tick the tick will do, or a slow host would never rest."""
    if reading.skips(turn.host) and now - turn.began < timedelta(seconds=settings.TICK_SECONDS):
        soon(turn.host.pk, now, patient=True)


def _tell_skips(host: Host) -> None:
    skipped = reading.skips(host)
    if skipped:
        level = logging.ERROR if skipped >= ALARM_AFTER_SKIPS else logging.INFO
        log.log(level, "%s: skipped %s time(s), another pass is under way", host, skipped)


def _pass(turn: Turn) -> None:
    question = reconciling.prepare(turn, now=clock.now())
    try:
        document, report = _ask(turn, question)
    except GatewayError as error:
        log.warning("%s: %s %s", turn.host, error.what, error.remedy)
        actions.record_failure(turn, error.as_dict(), now=clock.now())
        return
    reconciling.record(turn, question, document, report, now=clock.now())


def _ask(turn: Turn, question: reconciling.Question) -> tuple[gateway.Report, Report]:
    """The host's answer, parsed and found to be one to this question."""
    document = _applied(turn, question)
    try:
        report = parse(document)
    except ValueError as error:
        raise GatewayError(
            "garbage", f"vmctl apply on {turn.host}: {error}", "Portal and host need the same release.", False
        ) from error
    wrong = misfit(report, host=turn.host.name, portal=UUID(settings.PORTAL_ID), generation=turn.generation)
    if wrong:
        raise GatewayError("garbage", wrong, "Look which portal this host belongs to.", False)
    return document, report


def _applied(turn: Turn, question: reconciling.Question) -> gateway.Report:
    """Call the host and keep the turn alive while it works; a frozen worker does not, and so loses it."""
    address = turn.host.address
    with ThreadPoolExecutor(max_workers=1) as line:
        call = line.submit(gateway.apply, address, question.document)
        while True:
            try:
                return call.result(timeout=actions.lease_length().total_seconds() / 4)
            except TimeoutError:
                actions.renew_turn(turn, now=clock.now())
