"""Machines outlive reservations: owner, project, flavor, image and disk stay; a reservation lets one run."""

import uuid

from django.conf import settings
from django.db import models

from portal.accounts.models import Project, User
from portal.inventory.models import Flavor, Host, Image, StoragePool


class MachineState(models.TextChoices):
    """What the host last reported."""

    OFF = "off"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    UNKNOWN = "unknown"


class MachineQuerySet(models.QuerySet["VirtualMachine"]):
    def visible_to(self, user: User) -> "MachineQuerySet":
        """Operators see all, others their own and those of their projects."""
        if user.is_operator:
            return self
        return self.filter(models.Q(owner=user) | models.Q(project__in=user.projects.all()))

    def kept(self) -> "MachineQuerySet":
        """Those that still have, or may still get, a disk."""
        return self.filter(deleted=None)


class Screen(models.TextChoices):
    """What a running machine's console shows: all of it, or only the boot, until its vGPU takes over."""

    VGPU = "vgpu"
    BOOT = "boot"


class VirtualMachine(models.Model):
    """Somebody's machine. `host` is where it was placed first, so that is where its disk lies or will lie."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=80)
    hostname = models.CharField(max_length=63)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="machines")
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="machines")
    flavor = models.ForeignKey(Flavor, on_delete=models.PROTECT, related_name="+")
    image = models.ForeignKey(Image, on_delete=models.PROTECT, related_name="+")
    storage_pool = models.ForeignKey(
        StoragePool, null=True, blank=True, on_delete=models.PROTECT, related_name="machines"
    )
    host = models.ForeignKey(Host, null=True, blank=True, on_delete=models.PROTECT, related_name="machines")
    disposable = models.BooleanField(default=False)
    state = models.CharField(max_length=10, choices=MachineState.choices, default=MachineState.OFF)
    observed_at = models.DateTimeField(null=True, blank=True)
    disk_mib = models.PositiveIntegerField(null=True, blank=True)
    disk_missing = models.BooleanField(default=False)  # its folder is there, the disk itself is not
    screen = models.CharField(max_length=10, choices=Screen.choices, blank=True)  # empty: it does not run
    licence = models.CharField(max_length=80, blank=True)  # of its vGPU, as the host's driver says; empty: nothing
    retain_until = models.DateTimeField(null=True, blank=True)
    deleted = models.DateTimeField(null=True, blank=True)
    created = models.DateTimeField()

    objects = MachineQuerySet.as_manager()

    class Meta:
        ordering = ["-created"]
        constraints = [
            models.UniqueConstraint(
                fields=["hostname"], condition=models.Q(deleted=None), name="one_machine_of_a_hostname"
            ),
        ]

    def __str__(self) -> str:
        return self.hostname
