"""What there is: hosts, their GPUs and vGPU types as vmctl last saw them, and what people can choose from."""

import uuid
from typing import Any

from django.contrib.postgres.fields import ArrayField, IntegerRangeField
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models

from portal.inventory import card_settings, sight
from portal.inventory.reached import SSH, Reached

# The same words go into file names and domain XML, so they are kept to one alphabet at the door
SAFE_NAME = RegexValidator(r"^[a-z0-9][a-z0-9.-]{0,62}\Z", "Use lower-case letters, digits, dots and hyphens.")
FILE_NAME = RegexValidator(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z", "Use letters, digits, dots, hyphens, underscores.")
# As vmctl takes it: one odd name would have it refuse everything that is wanted of the host
TYPE_NAME = RegexValidator(
    r"^[A-Za-z0-9][A-Za-z0-9 ._+-]{0,63}\Z", "Use letters, digits, spaces, dots, underscores, plus signs, hyphens."
)
LOGIN_NAME = RegexValidator(r"^[a-z_][a-z0-9_-]{0,31}\Z", "Use a Linux log-in name.")


class HostKind(models.TextChoices):
    """How a host is reached; on a simulated one the portal's machine plays the GPUs."""

    LOCAL = "local"
    SIMULATED = "simulated"
    SSH = SSH, "over SSH"


class Regime(models.TextChoices):
    """How a GPU is shared, one way at a time."""

    EQUAL = "equal"
    MIXED = "mixed"
    MIG = "mig"
    VF = "vf"
    WHOLE = "whole"


class Firmware(models.TextChoices):
    """What a machine boots by."""

    BIOS = "bios", "BIOS"
    UEFI = "uefi", "UEFI"
    SECURE = "uefi-secure", "UEFI with Secure Boot"


class Licence(models.IntegerChoices):
    """FeatureType of NVIDIA's guest driver."""

    UNLICENSED = 0, "unlicensed"
    VGPU = 1, "vGPU: the type decides"
    WORKSTATION = 2, "RTX Virtual Workstation"
    COMPUTE = 4, "compute"


class Host(Reached):
    """A machine with GPUs on which vmctl runs. `facts` holds what it last reported: vcpus, memory_mib, ...

    A host that was `removed` stays as a row, because finished bookings tell where they ran; adding one of its name
    takes it into use again.
    """

    name = models.CharField(max_length=63, unique=True, validators=[SAFE_NAME])
    kind = models.CharField(max_length=10, choices=HostKind.choices)
    layout = models.CharField(max_length=40, blank=True)
    simulated_gpus = models.BooleanField(
        "simulated GPUs", default=False, help_text="Its GPUs are not real; pages and the API say so."
    )
    enabled = models.BooleanField(default=True)
    removed = models.DateTimeField(null=True, blank=True, editable=False)
    facts = models.JSONField(default=dict, blank=True)
    created = models.DateTimeField()

    class Meta:
        ordering = ["name"]
        constraints = [
            *Reached.Meta.constraints,
            models.CheckConstraint(
                name="removed_is_out_of_use", condition=models.Q(removed=None) | models.Q(enabled=False)
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def simulated(self) -> bool:
        """Its GPUs are not real; pages, API and machines say so."""
        return self.kind == HostKind.SIMULATED or self.simulated_gpus


class Pool(models.Model):
    """GPUs that are booked and locked together."""

    name = models.CharField(max_length=80, unique=True)
    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="pools")

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class StoragePool(models.Model):
    """A place for disks and the hosts that reach it."""

    name = models.CharField(max_length=80, unique=True)
    hosts: "models.ManyToManyField[Host, Any]" = models.ManyToManyField(Host, related_name="storage_pools")

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class GPU(models.Model):
    """One card. `handles` is how many vGPUs can exist on it (None: not told); `seen` when vmctl last found it.

    `wanted_regime` to `offered_types` say how it should be set; vmctl changes what differs once nobody uses the card.
    They are an operator's alone. `last_regime` is what the host last found it in; a reboot does not change that.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="gpus")
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="gpus")
    address = models.CharField(max_length=20)  # sysfs form: 0000:3b:00.0
    model = models.CharField(max_length=80, blank=True)
    memory_mib = models.PositiveIntegerField(null=True, blank=True)
    numa_node = models.IntegerField(null=True, blank=True)
    iommu_key = models.CharField(max_length=120)  # "host:group", or "host:address" where there is no group
    handles = models.PositiveIntegerField(null=True, default=0)
    regimes = ArrayField(models.CharField(max_length=10, choices=Regime.choices), default=list, blank=True)
    enabled = models.BooleanField(default=True)
    seen = models.DateTimeField(null=True, blank=True)
    facts = models.JSONField(default=dict, blank=True)
    last_regime = models.CharField(max_length=10, choices=list(sight.REGIMES.items()), blank=True, editable=False)
    wanted_regime = models.CharField(
        max_length=10,
        choices=list(sight.REGIMES.items()),
        blank=True,
        help_text="How the card is shared. Empty: as it is found, and after a reboot as it was before.",
    )
    wanted_vfs = models.PositiveIntegerField(
        "parts", null=True, blank=True, help_text="Plain SR-IOV only: into how many parts the card is cut."
    )
    scheduler_policy = models.CharField(
        max_length=12, choices=list(sight.POLICIES.items()), blank=True, help_text="Empty: as it is."
    )
    time_slice_us = models.PositiveIntegerField(
        "time slice",
        null=True,
        blank=True,
        validators=[MinValueValidator(1000), MaxValueValidator(30000)],
        help_text="Microseconds, 1000 to 30000; for equal and fixed shares. Empty: the driver's own.",
    )
    ecc = models.BooleanField("ECC", null=True, blank=True, help_text="A change takes a reboot of the host.")
    offered_types = ArrayField(
        models.CharField(max_length=60, validators=[TYPE_NAME]),
        default=list,
        blank=True,
        help_text="The only vGPU types that may be booked, with commas between. Empty: all on offer.",
    )

    class Meta:
        ordering = ["host__name", "address"]
        constraints = [models.UniqueConstraint(fields=["host", "address"], name="one_gpu_at_an_address")]

    def clean(self) -> None:
        """Settings that cannot be kept together, or not on this card, are refused with their field."""
        wrong = card_settings.mistakes(self, known=[row.name for row in self.types.all()])
        if wrong:
            raise ValidationError(wrong)

    def __str__(self) -> str:
        return f"{self.host.name} {self.address} {self.model}".rstrip()


class VGPUType(models.Model):
    """A vGPU type that a driver offers on one GPU, with the cells it may take: [[0, 1], [1, 2], ...]."""

    gpu = models.ForeignKey(GPU, on_delete=models.CASCADE, related_name="types")
    name = models.CharField(max_length=60)
    series = models.CharField(max_length=10, blank=True)
    memory_mib = models.PositiveIntegerField(null=True, blank=True)
    size_group = models.CharField(max_length=60)
    regime = models.CharField(max_length=10, choices=Regime.choices)
    cells = models.JSONField(default=list)
    slots = models.JSONField(default=list)  # inside a cell, finer than [[0, 1]] where GPU instances are shared
    gi_profile = models.CharField(max_length=40, blank=True)  # mig: the profile of its GPU instance
    media = models.BooleanField(default=False)  # mig: a profile with media engines, of which a GPU has one
    seen = models.DateTimeField()

    class Meta:
        ordering = ["gpu", "name"]
        constraints = [models.UniqueConstraint(fields=["gpu", "name", "regime"], name="one_row_for_a_type")]

    def __str__(self) -> str:
        return self.name


class Flavor(models.Model):
    """What a person asks for: a share of a GPU with processors, memory and disk to match."""

    slug = models.SlugField(max_length=60, unique=True)
    name = models.CharField(max_length=80)
    description = models.TextField(blank=True)
    vgpu_types = ArrayField(models.CharField(max_length=60), blank=True, default=list)  # in order of preference
    regime = models.CharField(max_length=10, choices=Regime.choices)
    vcpus = models.PositiveIntegerField(validators=[MinValueValidator(1), MaxValueValidator(512)])
    memory_mib = models.PositiveIntegerField(validators=[MinValueValidator(64), MaxValueValidator(16 * 1024 * 1024)])
    disk_gib = models.PositiveIntegerField(validators=[MinValueValidator(1), MaxValueValidator(65536)])
    enabled = models.BooleanField(default=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Image(models.Model):
    """A disk image that machines start from; `user` is the log-in name inside it."""

    slug = models.SlugField(max_length=60, unique=True)
    name = models.CharField(max_length=80)
    file = models.CharField(max_length=100, validators=[FILE_NAME])  # in IMAGES_DIR, without .qcow2
    user = models.CharField(max_length=32, default="user", validators=[LOGIN_NAME])
    min_disk_gib = models.PositiveIntegerField(default=1)
    stop_grace_seconds = models.PositiveIntegerField(null=True, blank=True)  # empty: the site's
    firmware = models.CharField(max_length=12, choices=Firmware.choices, default=Firmware.BIOS)
    tpm = models.BooleanField(
        "TPM", default=False, help_text="Machines get a TPM 2.0; what it keeps goes with their disk."
    )
    licence = models.PositiveSmallIntegerField(
        choices=Licence.choices,
        null=True,
        blank=True,
        help_text="Machines get the host's licence token for NVIDIA's guest driver. Empty: they get none.",
    )
    enabled = models.BooleanField(default=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class HoldingKind(models.TextChoices):
    FOREIGN = "foreign"  # a vGPU or machine that is not ours
    OVERDUE = "overdue"  # our machine, past its end
    STUCK = "stuck"  # a vGPU that would not release
    MISPLACED = "misplaced"  # a booking's vGPU on a place that is promised to another
    QUARANTINE = "quarantine"  # nobody may book this GPU


class Holding(models.Model):
    """What was last observed on a GPU beside the plan. Facts may overlap plans, so nothing here excludes.

    `device` tells apart what bears no uuid. Cell and slot: None where it has no place of its own, or is of no size.
    """

    gpu = models.ForeignKey(GPU, on_delete=models.CASCADE, related_name="holdings")
    vgpu = models.UUIDField(null=True, blank=True)
    device = models.CharField(max_length=100, blank=True)
    kind = models.CharField(max_length=12, choices=HoldingKind.choices)
    regime = models.CharField(max_length=10, choices=Regime.choices, blank=True)
    size_group = models.CharField(max_length=60, blank=True)
    cell = IntegerRangeField(null=True, blank=True)
    slot = IntegerRangeField(null=True, blank=True)
    handle = models.PositiveIntegerField(null=True, blank=True)
    detail = models.TextField(blank=True)
    since = models.DateTimeField()

    class Meta:
        ordering = ["gpu", "since"]

    def __str__(self) -> str:
        return f"{self.kind} on {self.gpu}"
