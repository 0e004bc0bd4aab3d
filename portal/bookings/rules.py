"""What the house allows. Each rule is a function; all are asked on every path that makes or changes a booking."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from django.conf import settings

from portal.accounts.models import Membership, Project, Role, User
from portal.bookings.errors import RuleBroken
from portal.bookings.models import Reservation
from portal.bookings.plan import Period
from portal.errors import Forbidden, NotVisible, WrongInput
from portal.inventory.models import Flavor, Image
from portal.machines.models import VirtualMachine

PAST_GRACE = timedelta(seconds=120)  # a form left open, a clock a little off
YEARS = range(2000, 2101)


@dataclass(frozen=True)
class Policy:
    """The site's settings for periods; `zone` is where steps are counted from midnight."""

    zone: ZoneInfo
    step: timedelta
    longest: timedelta
    horizon: timedelta
    turnaround: timedelta
    regime_change: timedelta


def policy() -> Policy:
    """As the settings say."""
    return Policy(
        zone=ZoneInfo(settings.TIME_ZONE),
        step=timedelta(minutes=settings.SLOT_MINUTES),
        longest=timedelta(hours=settings.MAX_BOOKING_HOURS),
        horizon=timedelta(days=settings.BOOKING_HORIZON_DAYS),
        turnaround=timedelta(seconds=settings.TURNAROUND_SECONDS),
        regime_change=timedelta(seconds=settings.REGIME_CHANGE_SECONDS),
    )


@dataclass(frozen=True)
class Wish:
    """What a person asks for. Either an image, for a new machine, or a machine of theirs; no start: now."""

    flavor: Flavor
    end: datetime
    start: datetime | None = None
    image: Image | None = None
    machine: VirtualMachine | None = None
    project: Project | None = None
    disposable: bool = False


def stored_period(start: datetime, end: datetime, site: Policy) -> Period:
    """The period that keeps others off: turn-around at the end, time for a change of regime before the start."""
    return Period(start, end + site.turnaround, start - site.regime_change)


def check_period(start: datetime | None, end: datetime, site: Policy, *, now: datetime) -> datetime:
    """The start that counts, or a refusal: years, order, steps, the past, length, horizon."""
    for name, moment in (("start", start), ("end", end)):
        if moment is not None:
            _check_moment(name, moment, site, stepped=True)
    begins = now if start is None else start
    if end <= begins:
        raise WrongInput("The end must lie after the start.", fields={"end": "not after the start"})
    if begins < now - PAST_GRACE:
        raise RuleBroken("The start lies in the past.", fields={"start": "in the past"})
    if end - begins > site.longest:
        hours = int(site.longest.total_seconds() // 3600)
        raise RuleBroken(f"A booking lasts at most {hours} hours.", fields={"end": "too long"})
    if end > now + site.horizon:
        raise RuleBroken(f"Bookings end at most {site.horizon.days} days ahead.", fields={"end": "too far ahead"})
    return begins


def _check_moment(name: str, moment: datetime, site: Policy, *, stepped: bool) -> None:
    if moment.utcoffset() is None:
        raise WrongInput(f"The {name} needs an offset from UTC.", fields={name: "no offset"})
    if moment.year not in YEARS:
        raise WrongInput(f"The {name} must lie between the years 2000 and 2100.", fields={name: "year"})
    if stepped and off_step(moment, site):
        minutes = int(site.step.total_seconds() // 60)
        raise WrongInput(f"The {name} must be on a step of {minutes} minutes.", fields={name: "not on a step"})


def off_step(moment: datetime, site: Policy) -> timedelta:
    """How far past the last step of the site's local day; zero: on it."""
    local = moment.astimezone(site.zone)
    since_midnight = timedelta(
        hours=local.hour, minutes=local.minute, seconds=local.second, microseconds=local.microsecond
    )
    return since_midnight % site.step


def next_step(moment: datetime, site: Policy) -> datetime:
    """The first step at or after a moment."""
    past = off_step(moment, site)
    return moment + (site.step - past) if past else moment


def project_for(wish: Wish, by: User) -> Project:
    """The project a booking counts for: the machine's, the one named, or the person's only one."""
    mine = Project.objects.visible_to(by)
    if wish.machine is not None:
        if wish.project is not None and wish.project != wish.machine.project:
            raise WrongInput("This machine belongs to another project.", fields={"project": "not the machine's"})
        if not mine.filter(pk=wish.machine.project_id).exists():
            what = f"This machine counts for the project {wish.machine.project}, which you have left."
            raise RuleBroken(what, fields={"machine": "of a project you left"})
        return wish.machine.project
    if wish.project is not None:
        if not mine.filter(pk=wish.project.pk).exists():
            raise NotVisible("You are in no project of that name.")
        return wish.project
    found = list(Project.objects.filter(members=by)[:2])
    if len(found) != 1:
        what = (
            "You are in several projects; say which." if found else "You are in no project; ask an operator to add you."
        )
        raise WrongInput(what, fields={"project": "required"})
    return found[0]


def check_choice(wish: Wish, by: User) -> Image:
    """The image that will run, or a refusal: choices withdrawn, disk too small, somebody else's machine."""
    image = wish.machine.image if wish.machine is not None else wish.image
    if image is None or (wish.machine is not None and wish.image is not None):
        raise WrongInput("Give either an image or a machine.", fields={"image": "or machine"})
    if not wish.flavor.enabled:
        raise RuleBroken("This flavor is not offered any more.", fields={"flavor": "withdrawn"})
    if wish.machine is None and not image.enabled:
        raise RuleBroken("This image is not offered any more.", fields={"image": "withdrawn"})
    if wish.flavor.disk_gib < image.min_disk_gib:
        raise RuleBroken(f"This image needs a disk of {image.min_disk_gib} GiB.", fields={"flavor": "disk too small"})
    if wish.machine is not None:
        check_machine(wish.machine, by, disposable=wish.disposable)
    return image


def check_machine(machine: VirtualMachine, by: User, *, disposable: bool) -> None:
    """Who may let a kept machine run, and that it is still kept."""
    if not may_steer(machine.owner_id, machine.project_id, by):
        raise Forbidden("Only its owner, a manager of the project or an operator may book this machine.")
    if machine.deleted is not None or machine.disposable:
        raise RuleBroken("This machine is not kept; book a new one.", fields={"machine": "gone"})
    if disposable:
        raise WrongInput("A kept machine cannot be booked as disposable.", fields={"disposable": "kept machine"})


def check_machine_free(machine: VirtualMachine, period: Period) -> None:
    """A machine has one disk and runs once at a time. Asked under the lock of its project."""
    other = Reservation.objects.holding().filter(machine=machine, start__lt=period.end, end__gt=period.start)
    if other.exists():
        raise RuleBroken("This machine is booked already in that time.", fields={"machine": "in use"})


def may_steer(owner_id: int, project_id: int, by: User) -> bool:
    """Its owner, managers of its project and operators may cancel, end, reuse and use the screen."""
    if by.pk == owner_id or by.is_operator:
        return True
    return Membership.objects.filter(project=project_id, user=by, role=Role.MANAGER).exists()


def check_may_steer(reservation: Reservation, by: User) -> None:
    """Raises Forbidden for those who may only look."""
    if not may_steer(reservation.owner_id, reservation.project_id, by):
        raise Forbidden("Only its owner, a manager of the project or an operator may do this.")


def stop_grace(image: Image) -> timedelta:
    """How long a machine may take to shut down before it is forced off."""
    seconds = settings.STOP_GRACE_SECONDS if image.stop_grace_seconds is None else image.stop_grace_seconds
    return timedelta(seconds=seconds)
