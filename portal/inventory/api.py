"""What can be chosen from."""

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router, Schema

from portal.accounts.access import Access
from portal.accounts.models import Scope
from portal.inventory.models import Flavor, Image, Regime
from portal.schemas import Listed, Paging, part

router = Router(auth=Access(Scope.READ), tags=["inventory"])


class FlavorOut(Schema):
    slug: str
    name: str
    description: str
    vgpu_types: list[str]
    regime: Regime
    vcpus: int
    memory_mib: int
    disk_gib: int


class ImageOut(Schema):
    slug: str
    name: str
    user: str
    min_disk_gib: int


@router.get("/flavors", response=Listed[FlavorOut])
def flavors(request: HttpRequest, paging: Query[Paging]) -> dict[str, Any]:
    """Flavors that can be booked."""
    return part(Flavor.objects.filter(enabled=True).order_by("slug"), paging)


@router.get("/images", response=Listed[ImageOut])
def images(request: HttpRequest, paging: Query[Paging]) -> dict[str, Any]:
    """Images for new machines."""
    return part(Image.objects.filter(enabled=True).order_by("slug"), paging)
