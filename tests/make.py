"""Makers of the world that tests need. All go through the apps' actions: a test starts from what can really happen."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from portal.accounts import actions as accounts
from portal.accounts.models import Project, User
from portal.bookings import actions as bookings
from portal.bookings.models import Placement, Reservation
from portal.bookings.rules import Wish
from portal.inventory import actions as inventory
from portal.inventory.models import GPU, Flavor, Host, HostKind, Image

NOW = datetime(2027, 3, 1, 9, 0, tzinfo=UTC)


def at(hours: float) -> datetime:
    """NOW plus hours."""
    return NOW + timedelta(hours=hours)


def user(name: str, *, operator: bool = False, password: str = "", now: datetime = NOW) -> User:
    """A person; without a password nobody can log in as them, which is quick (no hashing)."""
    person = User(username=name, is_staff=operator, is_superuser=operator)
    if password:
        person.set_password(password)
    else:
        person.set_unusable_password()
    return accounts.save_user(person, by=None, now=now)


@dataclass
class Cast:
    """Ada owns, Ben shares her project, Cleo must see nothing of it, Olga operates."""

    ada: User
    ben: User
    cleo: User
    olga: User
    project: Project
    cleos: Project


def cast(now: datetime = NOW) -> Cast:
    """The four people and two projects; Ada is a plain member like Ben."""
    ada, ben, cleo = (user(name, now=now) for name in ("ada", "ben", "cleo"))
    return Cast(
        ada=ada,
        ben=ben,
        cleo=cleo,
        olga=user("olga", operator=True, now=now),
        project=accounts.make_project("vision", [ada, ben], by=None, now=now),
        cleos=accounts.make_project("acoustics", [cleo], by=None, now=now),
    )


T4_TYPES = (("T4-4Q", "4G", 4), ("T4-4C", "4G", 4), ("T4-8Q", "8G", 2))  # name, size group, how many fit


def gpu_facts(address: str = "0000:3b:00.0", **changes: Any) -> dict[str, Any]:
    """One GPU in the form of `vmctl gpus`: a T4 that can be shared in equal sizes."""
    return {
        "address": address,
        "model": "Tesla T4",
        "vendor": "NVIDIA",
        "device": "1eb8",
        "uuid": None,
        "driver": "nvidia",
        "numa_node": 0,
        "iommu_group": address[5:7],
        "group_members": [address],
        "framework": "mdev-pf",
        "reason": "",
        "vfs": None,
        "regime": "equal",
        "regimes": ["equal"],
        "regime_change_seconds": 0,
        "handles": 16,
        "frame_buffer_mib": 16384,
        "mig": None,
        "ecc": None,
        "mixed": None,
        "scheduler": None,
        "types": [type_facts(*row) for row in T4_TYPES],
        "holders": [],
        "unknown": {},
    } | changes


def type_facts(name: str, size_group: str, most: int, **changes: Any) -> dict[str, Any]:
    """One vGPU type in the form of `vmctl gpus`."""
    cells = [[k, k + 1] for k in range(most)]
    return {
        "name": name,
        "id": f"nvidia-{most}",
        "series": name[-1],
        "regime": "equal",
        "frame_buffer_mib": 16384 // most,
        "size_group": size_group,
        "gi_profile": None,
        "media": False,
        "max": most,
        "free": most,
        "cells": cells,
        "free_cells": cells,
        "slots": [[0, 1]],
    } | changes


def host(
    name: str = "sim-t4", gpus: list[dict[str, Any]] | None = None, *, now: datetime = NOW, **capacity: int
) -> Host:
    """A simulated host whose GPUs have just been seen."""
    made = inventory.add_host(name, HostKind.SIMULATED, layout="t4", by=None, now=now)
    inventory.record_inventory(made, {"gpus": [gpu_facts()] if gpus is None else gpus}, now)
    inventory.record_capacity(made, capacity, now=now)
    return made


def seen(now: datetime) -> None:
    """All GPUs and types have been seen again."""
    for gpu in GPU.objects.select_related("host"):
        inventory.record_inventory(gpu.host, {"gpus": [gpu.facts | {"types": _types(gpu)}]}, now)


def _types(gpu: GPU) -> list[dict[str, Any]]:
    names = ("name", "series", "size_group", "regime", "cells", "slots", "gi_profile", "media")
    return [
        {name: getattr(row, name) for name in names} | {"frame_buffer_mib": row.memory_mib} for row in gpu.types.all()
    ]


def flavor(slug: str = "small", types: tuple[str, ...] = ("T4-4Q",), *, now: datetime = NOW, **changes: Any) -> Flavor:
    """A share of a T4 with one processor."""
    fields = {"name": slug.title(), "regime": "equal", "vcpus": 1, "memory_mib": 256, "disk_gib": 4} | changes
    made = Flavor(slug=slug, vgpu_types=list(types), **fields)
    inventory.save_choice(made, by=None, now=now)
    return made


def image(slug: str = "demo", *, now: datetime = NOW, **changes: Any) -> Image:
    """An image that fits into every flavor."""
    made = Image(slug=slug, name=slug.title(), file=slug, **changes)
    inventory.save_choice(made, by=None, now=now)
    return made


@dataclass
class World:
    """People, one host with one T4 (four small shares or two big ones), two flavors, one image."""

    people: Cast
    host: Host
    small: Flavor
    big: Flavor
    image: Image

    def wish(self, start: float | None = 1, end: float = 3, **changes: Any) -> Wish:
        """Ada's usual wish, in hours after NOW."""
        fields: dict[str, Any] = {"flavor": self.small, "image": self.image, "project": None} | changes
        return Wish(start=None if start is None else at(start), end=at(end), **fields)

    def book(
        self, start: float | None = 1, end: float = 3, *, by: User | None = None, now: datetime = NOW, **changes: Any
    ) -> Reservation:
        """Book it, for Ada unless said otherwise."""
        return bookings.book(self.wish(start, end, **changes), by=by or self.people.ada, now=now)


def world(now: datetime = NOW) -> World:
    """Everything a booking needs."""
    return World(cast(now), host(now=now), flavor(now=now), flavor("big", ("T4-8Q",), now=now), image(now=now))


def tile(reservation: Reservation) -> Placement:
    """The one placement of a reservation, as stored."""
    return Placement.objects.get(reservation=reservation)
