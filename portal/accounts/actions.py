"""The only writer of people, projects and tokens."""

import hashlib
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from portal import nudge
from portal.accounts.models import ApiToken, LoginFailure, Membership, Project, Role, Scope, User
from portal.accounts.signals import deactivated
from portal.audit import actions as audit
from portal.errors import NotVisible, WrongInput

FAILURES = 5  # of one name from one address ...
FAILURE_LIFE = timedelta(minutes=5)  # ... within this time lock that pair out until the oldest has passed
TOKEN_USE_STEP = timedelta(minutes=1)  # how exactly the last use of a token is remembered


@transaction.atomic
def save_user(user: User, *, by: User | None, now: datetime) -> User:
    """Store a person as an operator or a command edited them; without `is_active` they hold nothing any more."""
    was_active = user.pk is not None and User.objects.filter(pk=user.pk, is_active=True).exists()
    user.save()
    audit.record(by, "saved", user, now=now, username=user.username, staff=user.is_staff, active=user.is_active)
    if was_active and not user.is_active:
        deactivated.send(User, user=user, by=by, now=now)
    return user


@transaction.atomic
def make_user(username: str, password: str, *, by: User | None, now: datetime, operator: bool = False) -> User:
    """A new person who can log in; an operator also reaches the admin pages."""
    user = User(username=username, is_staff=operator, is_superuser=operator)
    user.set_password(password)
    return save_user(user, by=by, now=now)


def deactivate_user(user: User, *, by: User, now: datetime) -> User:
    """People are never deleted, or the audit would name nobody; they can no longer log in and hold nothing."""
    user.is_active = False
    return save_user(user, by=by, now=now)


@transaction.atomic
def save_profile(user: User, *, time_zone: str, ssh_keys: str, now: datetime) -> User:
    """What a person may change about themselves, and no other column: an operator may be closing the account now."""
    user.time_zone, user.ssh_keys = time_zone, ssh_keys
    user.save(update_fields=["time_zone", "ssh_keys"])
    audit.record(user, "saved", user, now=now, time_zone=time_zone, ssh_keys=len(ssh_keys.splitlines()))
    return user


@transaction.atomic
def save_project(project: Project, *, by: User | None, now: datetime) -> Project:
    """Store a project as an operator edited it."""
    project.save()
    audit.record(by, "saved", project, now=now, name=project.name)
    return project


@transaction.atomic
def delete_project(project: Project, *, by: User, now: datetime) -> None:
    """Remove a project that nothing points to; machines and reservations protect theirs."""
    audit.record(by, "deleted", project, now=now, name=project.name)
    project.delete()


@transaction.atomic
def save_membership(membership: Membership, *, by: User | None, now: datetime) -> Membership:
    """Store who is in a project, in which role."""
    membership.save()
    audit.record(by, "joined", membership.project, now=now, user=membership.user.username, role=membership.role)
    return membership


@transaction.atomic
def delete_membership(membership: Membership, *, by: User, now: datetime) -> None:
    """Take somebody out of a project."""
    audit.record(by, "left", membership.project, now=now, user=membership.user.username)
    membership.delete()


@transaction.atomic
def make_project(
    name: str, members: Sequence[User], *, managers: Sequence[User] = (), by: User | None, now: datetime
) -> Project:
    """A new project with its people."""
    project = save_project(Project(name=name), by=by, now=now)
    for user in [*members, *managers]:
        role = Role.MANAGER if user in managers else Role.MEMBER
        save_membership(Membership(project=project, user=user, role=role), by=by, now=now)
    return project


def digest(secret: str) -> str:
    """What is stored of a token."""
    return hashlib.sha256(secret.encode()).hexdigest()


@transaction.atomic
def make_token(
    user: User, *, name: str, scopes: Sequence[str], days: int | None, by: User | None, now: datetime
) -> tuple[ApiToken, str]:
    """A new token and its text, which nobody can read again. `days` left out: TOKEN_DAYS."""
    unknown = sorted(set(scopes) - set(Scope.values))
    if unknown or not scopes:
        raise WrongInput(
            f"Scopes are {', '.join(Scope.values)}; not {', '.join(unknown) or 'none'}.", fields={"scopes": "unknown"}
        )
    life = timedelta(days=settings.TOKEN_DAYS if days is None else days)
    secret = f"tsr_{secrets.token_urlsafe(32)}"
    token = ApiToken.objects.create(
        user=user, name=name, digest=digest(secret), scopes=sorted(set(scopes)), created=now, expires=now + life
    )
    audit.record(by, "made token", token, now=now, user=user.username, scopes=token.scopes)
    return token, secret


@transaction.atomic
def revoke_token(token: ApiToken, *, by: User, now: datetime) -> None:
    """Withdraw a token for good."""
    ApiToken.objects.filter(pk=token.pk, revoked=None).update(revoked=now)
    nudge.recheck(nudge.sockets_of_user(token.user_id))
    audit.record(by, "revoked token", token, now=now)


def token_of(secret: str, *, now: datetime) -> ApiToken:
    """The live token with this text; its use is remembered to the minute."""
    token = ApiToken.objects.select_related("user").filter(digest=digest(secret)).first()
    if token is None or not token.live(now):
        raise NotVisible("This token is unknown, withdrawn or past its life.")
    if token.last_used is None or now - token.last_used > TOKEN_USE_STEP:
        ApiToken.objects.filter(pk=token.pk).update(last_used=now)
    return token


def locked_until(username: str, address: str, now: datetime) -> datetime | None:
    """When this name may try again from this address; None: now."""
    recent = LoginFailure.objects.filter(username=username[:150], address=address, at__gt=now - FAILURE_LIFE)
    times = sorted(recent.values_list("at", flat=True))
    return times[-FAILURES] + FAILURE_LIFE if len(times) >= FAILURES else None


@transaction.atomic
def login_failed(username: str, address: str, now: datetime) -> None:
    """Remember a refused log-in, forget those too old to matter."""
    LoginFailure.objects.filter(at__lt=now - FAILURE_LIFE).delete()
    LoginFailure.objects.create(username=username[:150], address=address, at=now)
    audit.record(None, "log-in refused", f"user:{username[:100]}", now=now, address=address)


@transaction.atomic
def login_succeeded(user: User, address: str, now: datetime) -> None:
    """A right password clears the count."""
    LoginFailure.objects.filter(username=user.username, address=address).delete()
    audit.record(user, "logged in", user, now=now, address=address)
