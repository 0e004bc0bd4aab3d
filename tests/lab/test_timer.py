"""The host's own timer: while the portal is silent it ends what is past its end, and nothing else."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from tests.lab.desired import ON_CARD, Answer, Caller, Json, machine

pytestmark = pytest.mark.timeout(1200)
SERVICE = "vmctl-expire.service"
LIMIT = 120.0
SOON = timedelta(seconds=60)
"""Longer than the call that tells it: an end that is past already would be no news to vmctl."""
GRACE = timedelta(seconds=3)


def portal_falls_silent(caller: Caller, *wishes: Json) -> None:
    """The portal calls a last time; from then on it counts as silent at once."""
    caller.wishes = list(wishes)
    answer = Answer(caller.call("apply", caller.document() | {"expire_allowance_seconds": 0}, limit=LIMIT))
    assert answer.errors == []


def running(caller: Caller) -> set[str]:
    return set(caller.lab.shell("virsh -q list --uuid").split())


def test_the_timer_is_on(caller: Caller) -> None:
    assert caller.lab.shell("systemctl is-enabled vmctl-expire.timer").strip() == "enabled"


def test_a_machine_past_its_end_is_ended_and_another_one_is_not(caller: Caller) -> None:
    over, lasting = machine(ON_CARD), machine()
    caller.until_running(over, lasting)
    both = {over["machine"], lasting["machine"]}
    portal_falls_silent(caller, over, lasting)
    caller.lab.shell(f"systemctl start {SERVICE}", limit=LIMIT)
    assert running(caller) == both
    end = datetime.now(UTC) + SOON
    portal_falls_silent(caller, over | {"end": end.isoformat()}, lasting)
    while datetime.now(UTC) < end + GRACE:  # the guest obeys no power button: past the grace it is switched off
        time.sleep(0.5)
    caller.lab.shell(f"systemctl start {SERVICE}", limit=LIMIT)
    assert running(caller) == {lasting["machine"]}
