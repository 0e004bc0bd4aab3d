"""Reservations: look, book, cancel."""

from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from ninja import Query, Router, Schema
from ninja import Status as Answer
from pydantic import Field, StrictBool

from portal import clock
from portal.accounts.access import Access, caller
from portal.accounts.models import Project, Scope, User
from portal.bookings import actions
from portal.bookings.models import Placement, Reservation, ReservationQuerySet
from portal.bookings.rules import Wish
from portal.bookings.states import Status
from portal.errors import NotVisible, WrongInput
from portal.inventory.models import Flavor, Image, Regime
from portal.machines.models import VirtualMachine
from portal.schemas import Document, Listed, Moment, Paging, part

router = Router(tags=["reservations"])

Slug = Field(max_length=60, pattern=r"^[-a-zA-Z0-9_]+$")


class PlacementOut(Schema):
    """Where on which GPU; `cell` is null for a whole card; a simulated vGPU is called so."""

    host: str
    gpu: str
    vgpu_type: str
    regime: Regime
    cell: list[int] | None
    simulated: bool

    @staticmethod
    def resolve_host(placement: Placement) -> str:
        return placement.gpu.host.name

    @staticmethod
    def resolve_gpu(placement: Placement) -> str:
        return placement.gpu.address

    @staticmethod
    def resolve_cell(placement: Placement) -> list[int] | None:
        return None if placement.cell.lower is None else [placement.cell.lower, placement.cell.upper]

    @staticmethod
    def resolve_simulated(placement: Placement) -> bool:
        return placement.gpu.host.simulated


class ReservationOut(Schema):
    id: UUID
    version: int
    status: Status
    start: datetime
    end: datetime
    confirmed_end: datetime | None
    machine: UUID = Field(alias="machine_id")
    owner: str = Field(alias="owner.username")
    project: str = Field(alias="project.name")
    flavor: str = Field(alias="flavor.slug")
    image: str = Field(alias="image.slug")
    disposable: bool
    reason: str
    placements: list[PlacementOut]


class ReservationIn(Document):
    """Either an image, for a new machine, or a machine. Start left out: now. Times on the site's steps."""

    flavor: str = Slug
    image: str | None = Field(None, max_length=60, pattern=Slug.metadata[1].pattern)
    machine: UUID | None = None
    start: Moment | None = None
    end: Moment
    project: str | None = Field(None, min_length=1, max_length=80, pattern=r"^[^\x00]*$")
    disposable: StrictBool = False


class CancelIn(Document):
    """The version that the caller has seen: where it is another by now, nothing is done."""

    version: int | None = Field(None, ge=1, le=2**31 - 1)


class ReservationPaging(Paging):
    status: Status | None = None


def _visible(user: User) -> ReservationQuerySet:
    rows = Reservation.objects.visible_to(user).select_related("owner", "project", "flavor", "image", "machine")
    return rows.prefetch_related("placements__gpu__host")


def _one(user: User, reservation_id: UUID) -> Reservation:
    try:
        return _visible(user).distinct().get(pk=reservation_id)
    except Reservation.DoesNotExist:
        raise NotVisible("There is no such reservation.") from None


@router.get("/reservations", response=Listed[ReservationOut], auth=Access(Scope.READ))
def reservations(request: HttpRequest, paging: Query[ReservationPaging]) -> dict[str, Any]:
    """Reservations that the caller may see, the latest start first."""
    rows = _visible(caller(request)).distinct().order_by("-start", "pk")
    return part(rows if paging.status is None else rows.filter(status=paging.status), paging)


@router.get("/reservations/{uuid:reservation_id}", response=ReservationOut, auth=Access(Scope.READ))
def reservation(request: HttpRequest, reservation_id: UUID) -> Reservation:
    """One reservation."""
    return _one(caller(request), reservation_id)


@router.post("/reservations", response={201: ReservationOut}, auth=Access(Scope.BOOK))
def book(request: HttpRequest, body: ReservationIn) -> Answer[Reservation]:
    """Book a share of a GPU for a period."""
    user = caller(request)
    made = actions.book(_wish(body, user), by=user, now=clock.now())
    return Answer(201, _one(user, made.pk))


@router.post("/reservations/{uuid:reservation_id}/cancel", response=ReservationOut, auth=Access(Scope.BOOK))
def cancel(request: HttpRequest, reservation_id: UUID, body: CancelIn | None = None) -> Reservation:
    """Before the start: cancelled. Running: ends now."""
    user = caller(request)
    version = None if body is None else body.version
    actions.cancel(_one(user, reservation_id), by=user, now=clock.now(), version=version)
    return _one(user, reservation_id)


def _wish(body: ReservationIn, user: User) -> Wish:
    """Names become things; what the caller cannot see does not exist."""
    return Wish(
        flavor=_flavor(body.flavor),
        image=None if body.image is None else _image(body.image),
        machine=None if body.machine is None else _machine(body.machine, user),
        project=None if body.project is None else _project(body.project, user),
        start=body.start,
        end=body.end,
        disposable=body.disposable,
    )


def _flavor(slug: str) -> Flavor:
    found = Flavor.objects.filter(slug=slug).first()
    if found is None:
        raise WrongInput("There is no such flavor.", fields={"flavor": "unknown"})
    return found


def _image(slug: str) -> Image:
    found = Image.objects.filter(slug=slug).first()
    if found is None:
        raise WrongInput("There is no such image.", fields={"image": "unknown"})
    return found


def _machine(machine_id: UUID, user: User) -> VirtualMachine:
    found = VirtualMachine.objects.visible_to(user).kept().filter(pk=machine_id).first()
    if found is None:
        raise NotVisible("There is no such machine.")
    return found


def _project(name: str, user: User) -> Project:
    found = Project.objects.visible_to(user).filter(name=name).first()
    if found is None:
        raise NotVisible("You are in no project of that name.")
    return found
