"""What to offer instead when nothing is free: the next start times at which the same wish would fit."""

from datetime import datetime

from portal.bookings import planner, rules, scene
from portal.bookings.rules import Wish

TOLD = 3  # start times offered
TRIED = 100  # moments looked at; a calendar that is full beyond them gets no suggestion rather than a slow answer


def next_starts(wish: Wish, start: datetime, *, now: datetime) -> list[str]:
    """Start times in ISO 8601, soonest first, all after the wished one: room comes free only where something ends."""
    site = rules.policy()
    gpus = scene.candidates(wish.flavor, wish.machine, now=now)
    need, length = scene.need_of(wish.flavor), wish.end - start
    whole = scene.load(gpus, since=now, until=None, now=now)
    ends = {
        p.end + site.regime_change for p in [*(t.period for t in whole.tiles), *(load.period for load in whole.loads)]
    }
    found: list[str] = []
    for moment in sorted({rules.next_step(end, site) for end in ends if end > start})[:TRIED]:
        if moment + length > now + site.horizon or len(found) == TOLD:
            break
        period = rules.stored_period(moment, moment + length, site)
        if planner.choose(need, period, whole) or planner.makes_way(need, period, whole):
            found.append(moment.astimezone(site.zone).isoformat())
    return found
