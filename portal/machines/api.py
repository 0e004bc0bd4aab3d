"""The caller's machines."""

from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from ninja import Query, Router, Schema

from portal.accounts.access import Access, caller
from portal.accounts.models import Scope
from portal.machines.models import MachineState, VirtualMachine
from portal.schemas import Listed, Paging, part

router = Router(auth=Access(Scope.READ), tags=["machines"])


class MachineOut(Schema):
    id: UUID
    name: str
    hostname: str
    owner: str
    project: str
    flavor: str
    image: str
    host: str | None
    disposable: bool
    state: MachineState
    observed_at: datetime | None
    disk_mib: int | None
    retain_until: datetime | None
    created: datetime

    @staticmethod
    def resolve_owner(machine: VirtualMachine) -> str:
        return machine.owner.username

    @staticmethod
    def resolve_project(machine: VirtualMachine) -> str:
        return machine.project.name

    @staticmethod
    def resolve_flavor(machine: VirtualMachine) -> str:
        return machine.flavor.slug

    @staticmethod
    def resolve_image(machine: VirtualMachine) -> str:
        return machine.image.slug

    @staticmethod
    def resolve_host(machine: VirtualMachine) -> str | None:
        return machine.host.name if machine.host else None


@router.get("/machines", response=Listed[MachineOut])
def machines(request: HttpRequest, paging: Query[Paging]) -> dict[str, Any]:
    """Machines that the caller may see and that are not deleted, newest first."""
    rows = VirtualMachine.objects.visible_to(caller(request)).kept().distinct()
    rows = rows.select_related("owner", "project", "flavor", "image", "host").order_by("-created", "pk")
    return part(rows, paging)
