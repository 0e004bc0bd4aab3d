"""People, projects and roles, API tokens. Operators are users with `is_staff`."""

from datetime import datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils import timezone


class User(AbstractUser):
    """A person who logs in; `time_zone` empty means the site's, `ssh_keys` holds one public key a line."""

    time_zone = models.CharField(max_length=64, blank=True)
    ssh_keys = models.TextField(blank=True)

    @property
    def is_operator(self) -> bool:
        """May look after everybody's bookings and the hosts."""
        return self.is_active and self.is_staff

    @property
    def zone(self) -> tzinfo:
        """Where this person reads times: the chosen zone; the site's where none is chosen, or this machine lacks it."""
        if self.time_zone:
            try:
                return ZoneInfo(self.time_zone)
            except (ZoneInfoNotFoundError, ValueError, OSError):  # chosen on a machine that knew more zones
                pass
        return timezone.get_default_timezone()


class ProjectQuerySet(models.QuerySet["Project"]):
    def visible_to(self, user: User) -> "ProjectQuerySet":
        """Operators see all projects, others their own."""
        return self if user.is_operator else self.filter(members=user)


class Project(models.Model):
    """People who share bookings and machines."""

    name = models.CharField(max_length=80, unique=True)
    members: "models.ManyToManyField[User, Any]" = models.ManyToManyField(
        settings.AUTH_USER_MODEL, through="Membership", related_name="projects"
    )

    objects = ProjectQuerySet.as_manager()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Role(models.TextChoices):
    MEMBER = "member"
    MANAGER = "manager"  # may also cancel and end what other members booked


class Membership(models.Model):
    project = models.ForeignKey(Project, on_delete=models.CASCADE)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    role = models.CharField(max_length=10, choices=Role.choices, default=Role.MEMBER)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "user"], name="one_role_in_a_project")]

    def __str__(self) -> str:
        return f"{self.user} in {self.project}"


class Scope(models.TextChoices):
    READ = "read"
    BOOK = "book"
    CONSOLE = "console"


class ApiToken(models.Model):
    """A bearer token. Only its SHA-256 is stored; the text is shown once, when it is made."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=80)
    digest = models.CharField(max_length=64, unique=True)
    scopes = ArrayField(models.CharField(max_length=20, choices=Scope.choices))
    created = models.DateTimeField()
    expires = models.DateTimeField()
    last_used = models.DateTimeField(null=True, blank=True)
    revoked = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created"]

    def __str__(self) -> str:
        return f"{self.name} of {self.user}"

    def live(self, now: datetime) -> bool:
        """Neither withdrawn nor past its life, and its owner may still log in."""
        return self.revoked is None and now < self.expires and self.user.is_active


class LoginFailure(models.Model):
    """A refused log-in, kept for as long as it slows down the next try."""

    username = models.CharField(max_length=150)
    address = models.CharField(max_length=64)
    at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["username", "address", "at"])]

    def __str__(self) -> str:
        return f"{self.username} from {self.address}"
