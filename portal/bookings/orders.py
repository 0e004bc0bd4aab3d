"""A wish that the rules let pass, with all that is slow done before any lock."""

from dataclasses import dataclass
from datetime import datetime

from portal.accounts.models import Project, User
from portal.bookings import rules, scene, seal
from portal.bookings.errors import NoCapacity
from portal.bookings.plan import Period
from portal.bookings.rules import Wish
from portal.bookings.scene import Stage
from portal.inventory.models import Image


@dataclass(frozen=True)
class Order:
    """What is to be booked, for whom, and what the guest's password will be."""

    wish: Wish
    by: User
    now: datetime
    project: Project
    image: Image
    start: datetime
    period: Period
    stage: Stage
    password_sealed: str
    password_hash: str


def prepare(wish: Wish, *, by: User, now: datetime) -> Order:
    """Ask every rule that needs no lock, or raise a Refused."""
    site = rules.policy()
    start = rules.check_period(wish.start, wish.end, site, now=now)
    image = rules.check_choice(wish, by)
    project = rules.project_for(wish, by)
    stage = scene.stage(wish.flavor, wish.machine, now=now)
    if not stage.cards:
        raise NoCapacity(f"No GPU in service offers {wish.flavor.name}.")
    password = seal.new_password()
    return Order(
        wish=wish,
        by=by,
        now=now,
        project=project,
        image=image,
        start=start,
        stage=stage,
        period=rules.stored_period(start, wish.end, site),
        password_sealed=seal.seal(password),
        password_hash=seal.shadow_hash(password),  # slow on purpose
    )
