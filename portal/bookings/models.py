"""Reservations, and the tiles they hold. PostgreSQL keeps tiles apart whoever writes."""

import uuid
from typing import Any

from django.conf import settings
from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import DateTimeRangeField, IntegerRangeField, RangeOperators
from django.db import models
from django.db.models import Deferrable, F, Func, Q, TextField, Value
from django.db.models.functions import Cast, Coalesce, Concat

from portal.accounts.models import Project, User
from portal.bookings.states import HOLDING, Status
from portal.inventory.models import GPU, Flavor, Image, Regime
from portal.machines.models import VirtualMachine


class ReservationQuerySet(models.QuerySet["Reservation"]):
    def visible_to(self, user: User) -> "ReservationQuerySet":
        """Operators see all, others their own and those of their projects."""
        if user.is_operator:
            return self
        return self.filter(Q(owner=user) | Q(project__in=user.projects.all()))

    def holding(self) -> "ReservationQuerySet":
        """Those that keep others off their tiles."""
        return self.filter(status__in=sorted(HOLDING))


class Reservation(models.Model):
    """A machine may run with its vGPU from `start` to `end` (half-open). `end` is when it really ended, once it has.

    `confirmed_end` is the end that the host has reported back; `version` rises with every change of the plan.
    `password_sealed` can be opened once by its owner and is empty afterwards; `password_hash` goes into the seed.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    machine = models.ForeignKey(VirtualMachine, on_delete=models.PROTECT, related_name="reservations")
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="reservations")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="reservations")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    flavor = models.ForeignKey(Flavor, on_delete=models.PROTECT, related_name="+")
    image = models.ForeignKey(Image, on_delete=models.PROTECT, related_name="+")
    status = models.CharField(
        max_length=12, choices=[(s.value, s.value.replace("_", " ")) for s in Status], db_index=True
    )
    start = models.DateTimeField()
    end = models.DateTimeField()
    confirmed_end = models.DateTimeField(null=True, blank=True)
    version = models.PositiveIntegerField(default=1)
    disposable = models.BooleanField(default=False)
    password_hash = models.CharField(max_length=200, blank=True)
    password_sealed = models.TextField(blank=True)
    stop_asked = models.DateTimeField(null=True, blank=True)
    force_at = models.DateTimeField(null=True, blank=True)
    ended_by_person = models.BooleanField(default=False)
    reason = models.TextField(blank=True)
    created = models.DateTimeField()
    updated = models.DateTimeField()

    objects = ReservationQuerySet.as_manager()

    class Meta:
        ordering = ["-start"]
        indexes = [models.Index(fields=["start", "end"])]
        constraints = [
            models.CheckConstraint(condition=Q(end__gt=F("start")), name="ends_after_its_start"),
            ExclusionConstraint(
                name="one_run",  # a machine has one disk: two reservations may not let it run at once
                expressions=[
                    ("machine", RangeOperators.EQUAL),
                    (Func(F("start"), F("end"), function="tstzrange"), RangeOperators.OVERLAPS),
                ],
                condition=Q(status__in=sorted(HOLDING)),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.flavor_id} {self.start:%Y-%m-%d %H:%M} {self.status}"


def _text(value: str) -> Value:
    return Value(value, output_field=TextField())


def _bound(name: str) -> Coalesce:
    """One end of the cell as text; empty where it is open."""
    return Coalesce(Cast(Func(F("cell"), function=name), TextField()), _text(""))


def _keyed(*, other: F | Value, **regimes: Concat) -> models.Case:
    """One expression for each regime named, another for the rest."""
    whens = [models.When(regime=regime, then=key) for regime, key in regimes.items()]
    return models.Case(*whens, default=other, output_field=TextField())


_EQUAL = Concat(_text("equal:"), F("size_group"))
_WHOLE = Concat(_text("whole:"), Cast(F("reservation_id"), TextField()))
_STORED: dict[str, Any] = {"output_field": TextField(), "db_persist": True}


def _exclusion(name: str, *expressions: tuple[str, str], when: Q | None = None) -> ExclusionConstraint:
    """Deferrable, so that tiles can be moved in one transaction; checked at once unless asked otherwise."""
    return ExclusionConstraint(
        name=name,
        expressions=list(expressions),
        condition=Q(held=True) & when if when else Q(held=True),
        deferrable=Deferrable.IMMEDIATE,
    )


_SAME_GPU = ("gpu", RangeOperators.EQUAL)
_SAME_TIME = ("period", RangeOperators.OVERLAPS)


class Placement(models.Model):
    """A tile: where on a GPU, and when, for one reservation. Its id is also the vGPU's uuid on the host.

    Regime, cell and slot are the three levels of "where"; `period` includes the turn-around, `guard` is the period with
    its start moved earlier by the time a change of regime takes. The keys let a constraint say "same or apart".
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    reservation = models.ForeignKey(Reservation, on_delete=models.CASCADE, related_name="placements")
    gpu = models.ForeignKey(GPU, on_delete=models.PROTECT, related_name="placements")
    vgpu_type = models.CharField(max_length=80)
    regime = models.TextField(choices=Regime.choices)
    size_group = models.TextField()  # equal: all vGPUs on a GPU share it; mig: all in one GPU instance
    cell = IntegerRangeField()  # equal [k,k+1), whole (,)
    cell_profile = models.TextField(blank=True)  # mig: the GPU instance's profile
    slot = IntegerRangeField()  # place inside the cell
    handle = models.IntegerField()  # which of the GPU's VFs or vGPU handles
    media = models.BooleanField(default=False)  # mig "+me": one per GPU
    iommu_group = models.TextField()
    period = DateTimeRangeField()
    guard = DateTimeRangeField()
    held = models.BooleanField(default=True)  # False: given back
    regime_key = models.GeneratedField(expression=_keyed(equal=_EQUAL, whole=_WHOLE, other=F("regime")), **_STORED)
    cell_key = models.GeneratedField(
        expression=Concat(
            F("regime"), _text(":"), F("cell_profile"), _text("@"), _bound("lower"), _text("+"), _bound("upper")
        ),
        **_STORED,
    )
    iommu_key = models.GeneratedField(expression=_keyed(whole=_WHOLE, other=_text("shared")), **_STORED)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(regime__in=[r.value for r in Regime]), name="known_regime"),
            models.CheckConstraint(
                condition=Q(cell__isempty=False)
                & Q(slot__isempty=False)
                & Q(period__isempty=False)
                & Q(guard__contains=F("period"))
                & Q(handle__gte=0),
                name="tile_is_somewhere",
            ),
            _exclusion("one_regime", _SAME_GPU, ("regime_key", "<>"), ("guard", RangeOperators.OVERLAPS)),
            _exclusion("one_cell", _SAME_GPU, ("cell", RangeOperators.OVERLAPS), ("cell_key", "<>"), _SAME_TIME),
            _exclusion(
                "one_slot", _SAME_GPU, ("cell_key", RangeOperators.EQUAL), ("slot", RangeOperators.OVERLAPS), _SAME_TIME
            ),
            _exclusion(
                "one_size",
                _SAME_GPU,
                ("cell_key", RangeOperators.EQUAL),
                ("size_group", "<>"),
                _SAME_TIME,
                when=Q(regime="mig"),
            ),
            _exclusion("one_handle", _SAME_GPU, ("handle", RangeOperators.EQUAL), _SAME_TIME),
            _exclusion("one_media", _SAME_GPU, ("cell_key", "<>"), _SAME_TIME, when=Q(media=True)),
            _exclusion("one_group", ("iommu_group", RangeOperators.EQUAL), ("iommu_key", "<>"), _SAME_TIME),
        ]

    def __str__(self) -> str:
        return f"{self.vgpu_type} on {self.gpu_id}"
