"""A wish that the rules let pass, with all that needs no lock read before any."""

from dataclasses import dataclass
from datetime import datetime

from portal.accounts.models import Project, User
from portal.bookings import rules, scene
from portal.bookings.errors import NoCapacity
from portal.bookings.plan import Period
from portal.bookings.rules import Wish
from portal.bookings.scene import Stage
from portal.inventory.models import Image


@dataclass(frozen=True)
class Order:
    """What is to be booked, for whom, and on what it may go."""

    wish: Wish
    by: User
    now: datetime
    project: Project
    image: Image
    start: datetime
    period: Period
    stage: Stage


def prepare(wish: Wish, *, by: User, now: datetime) -> Order:
    """Ask every rule that needs no lock, or raise a Refused."""
    site = rules.policy()
    start = rules.check_period(wish.start, wish.end, site, now=now)
    image = rules.check_choice(wish, by)
    project = rules.project_for(wish, by)
    stage = scene.stage(wish.flavor, wish.machine, now=now)
    if not stage.cards:
        raise NoCapacity(f"No GPU in service offers {wish.flavor.name}.")
    return Order(
        wish=wish,
        by=by,
        now=now,
        project=project,
        image=image,
        start=start,
        stage=stage,
        period=rules.stored_period(start, wish.end, site),
    )
