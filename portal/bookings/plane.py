"""What the calendar shows to one person: reads GPUs and placements, hides what is not theirs to see."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Lower
from django.urls import reverse
from django.utils import timezone

from portal.accounts.models import User
from portal.bookings.models import Placement, Reservation
from portal.bookings.shares import Card, Kind, Tile
from portal.inventory.models import GPU, Flavor, Holding, VGPUType


def cards() -> list[Card]:
    """All GPUs in use on hosts in use, with the types that somebody may book on them."""
    flavors = list(Flavor.objects.filter(enabled=True))
    gpus = GPU.objects.filter(enabled=True, host__enabled=True).select_related("host").prefetch_related("types")
    return [_card(gpu, list(gpu.types.all()), flavors) for gpu in gpus]


def _card(gpu: GPU, types: Iterable[VGPUType], flavors: Iterable[Flavor]) -> Card:
    offered = [kind for kind in types if kind.name in (gpu.offered_types or [kind.name])]
    known = {(kind.name, kind.regime): _kind(kind) for kind in offered}
    fitting = [flavor for flavor in flavors if _fits(flavor, known, gpu)]
    wanted = {(name, flavor.regime) for flavor in fitting for name in flavor.vgpu_types}
    kinds = tuple(kind for key, kind in known.items() if key in wanted)
    return Card(
        id=gpu.id,
        title=gpu.model or "GPU",
        address=gpu.address,
        host=gpu.host.name,
        simulated=gpu.host.simulated,
        kinds=kinds,
        flavors=tuple(flavor.slug for flavor in sorted(fitting, key=lambda flavor: _size(flavor, known))),
    )


def _size(flavor: Flavor, known: dict[tuple[str, str], Kind]) -> tuple[float, int]:
    """Smallest share first: by how many of its kind fit on the GPU, then by the machine's memory."""
    most = max(
        (len(known[name, flavor.regime].cells) for name in flavor.vgpu_types if (name, flavor.regime) in known),
        default=1,
    )
    return (1 / max(most, 1), flavor.memory_mib)


def _fits(flavor: Flavor, known: dict[tuple[str, str], Kind], gpu: GPU) -> bool:
    if flavor.regime == "whole":
        return "whole" in gpu.regimes and (not flavor.vgpu_types or gpu.model in flavor.vgpu_types)
    return any((name, flavor.regime) in known for name in flavor.vgpu_types)


def _kind(row: VGPUType) -> Kind:
    return Kind(row.name, row.regime, row.size_group, tuple((lower, upper) for lower, upper in row.cells))


def tiles(user: User, start: datetime, end: datetime) -> list[Tile]:
    """Tiles that meet the window: those held, and those given back that this person may see; in the page's zone."""
    seen = set(Reservation.objects.visible_to(user).filter(start__lt=end, end__gt=start).values_list("pk", flat=True))
    placements = (
        Placement.objects.filter(Q(held=True) | Q(reservation__in=seen), period__overlap=(start, end))
        .exclude(reservation__status__in=("cancelled", "declined", "expired"))
        .select_related("reservation__machine", "reservation__flavor", "reservation__owner")
        .order_by(Lower("period"), "gpu")
    )
    return [_tile(placement, user, seen) for placement in placements]


def _tile(placement: Placement, user: User, seen: set[UUID]) -> Tile:
    reservation = placement.reservation
    mine, visible = reservation.owner_id == user.pk, reservation.pk in seen
    name = (
        reservation.machine.hostname if mine else f"{reservation.owner.get_username()}: {reservation.machine.hostname}"
    )
    return Tile(
        id=placement.id,
        card=placement.gpu_id,
        vgpu_type=placement.vgpu_type,
        regime=placement.regime,
        cell=(placement.cell.lower, placement.cell.upper),
        start=timezone.localtime(placement.period.lower),
        end=timezone.localtime(placement.period.upper),
        held=placement.held,
        whose="mine" if mine else "project" if visible else "other",
        title=name if visible else "taken",
        note=f"{reservation.flavor.name}, {reservation.get_status_display()}" if visible else "",
        url=reverse("bookings:reservation", args=[reservation.pk]) if visible else "",
    )


def out_of_use(start: datetime, end: datetime) -> list[dict[str, object]]:
    """What was observed on GPUs beside the plan, drawn on the GPU's own row until the window ends."""
    return [
        {
            "id": f"holding:{holding.pk}",
            "resourceIds": [str(holding.gpu_id)],
            "start": timezone.localtime(max(holding.since, start)).isoformat(timespec="seconds"),
            "end": timezone.localtime(end).isoformat(timespec="seconds"),
            "title": f"{holding.get_kind_display()}: {holding.detail}"
            if holding.detail
            else holding.get_kind_display(),
            "classNames": ["whose-held"],
        }
        for holding in Holding.objects.filter(since__lt=end)
    ]


def agenda(shown: Iterable[Card], day_tiles: Iterable[Tile], start: datetime, end: datetime) -> list[dict[str, object]]:
    """The same day, from `start` to `end`, as lists, one per GPU: for phones, and for browsers without a script."""
    by_card: dict[UUID, list[dict[str, str]]] = defaultdict(list)
    for tile in day_tiles:
        by_card[tile.card].append(
            {
                "hours": _hours(tile, start, end),
                "title": tile.title,
                "note": tile.note or tile.vgpu_type,
                "url": tile.url,
                "whose": tile.whose,
            }
        )
    return [
        {
            "title": card.title,
            "address": card.short_address,
            "host": card.host,
            "simulated": card.simulated,
            "tiles": by_card[card.id],
        }
        for card in shown
    ]


def _hours(tile: Tile, start: datetime, end: datetime) -> str:
    """The part of the day that a tile takes."""
    if tile.start < start:
        return "all day" if tile.end > end else f"until {tile.end:%H:%M}"
    return f"from {tile.start:%H:%M}" if tile.end > end else f"{tile.start:%H:%M}–{tile.end:%H:%M}"
