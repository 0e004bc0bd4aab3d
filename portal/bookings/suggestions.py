"""What to offer instead when nothing is free: the next start times at which the same wish would fit."""

from portal.bookings import planner, rules, scene
from portal.bookings.orders import Order

TOLD = 3  # start times offered
TRIED = 100  # moments looked at; a calendar that is full beyond them gets no suggestion rather than a slow answer


def next_starts(order: Order) -> list[str]:
    """Start times in ISO 8601, soonest first, all after the wished one: room comes free only where something ends."""
    site = rules.policy()
    need, length = scene.need_of(order.wish.flavor), order.wish.end - order.start
    whole = scene.fill(order.stage, since=order.now, until=None, now=order.now)
    ends = {tile.period.end + site.regime_change for tile in whole.tiles}
    found: list[str] = []
    for moment in sorted({rules.next_step(end, site) for end in ends if end > order.start})[:TRIED]:
        end = rules.next_step(moment + length, site)  # a wish for "now" is of an odd length
        if end > order.now + site.horizon or len(found) == TOLD:
            break
        period = rules.stored_period(moment, end, site)
        if planner.choose(need, period, whole) or planner.makes_way(need, period, whole):
            found.append(moment.astimezone(site.zone).isoformat())
    return found
