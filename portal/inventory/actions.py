"""The only writer of hosts, GPUs, flavors and images."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.backends.postgresql.psycopg_any import NumericRange

from portal.accounts.models import User
from portal.audit import actions as audit
from portal.errors import Refused, WrongInput
from portal.host_address import SSHAddress, fingerprint
from portal.inventory import card_settings, sight, signals
from portal.inventory.models import (
    GPU,
    Flavor,
    Holding,
    HoldingKind,
    Host,
    HostKind,
    Image,
    Pool,
    StoragePool,
    VGPUType,
)

EDITED = ("ssh_user", "ssh_host", "ssh_port", "host_key", "simulated_gpus", "enabled")
"""What an operator may change of a host. Its facts are the host's own word, and newer than any form."""


def check_vacant(name: str) -> None:
    """Raises WrongInput where a host of this name is in use."""
    if Host.objects.filter(name=name, removed=None).exists():
        raise WrongInput(f"There is a host {name} already.", fields={"name": "taken"})


@transaction.atomic
def add_host(
    name: str,
    kind: HostKind,
    *,
    layout: str = "",
    ssh: SSHAddress | None = None,
    simulated_gpus: bool = False,
    by: User | None,
    now: datetime,
) -> Host:
    """A host with its pool and storage pool. Its GPUs come with record_inventory, once vmctl has looked.

    A name that was removed before is the same host again: its past bookings and its generation go on.
    """
    check_vacant(name)
    host = Host.objects.filter(name=name).first() or Host(name=name, created=now)
    host.kind, host.layout, host.simulated_gpus = kind, layout, simulated_gpus
    host.enabled, host.removed, host.facts = True, None, {}
    _place(host, ssh)
    _check(host)
    host.save()
    _tell_host("added", host, by, now)
    Pool.objects.get_or_create(name=name, host=host)
    if not host.storage_pools.exists():
        StoragePool.objects.create(name=name).hosts.add(host)
    transaction.on_commit(partial(signals.added.send, Host, host_id=host.pk))
    return host


@transaction.atomic
def change_host(
    host: Host, *, ssh: SSHAddress | None = None, enabled: bool | None = None, by: User | None, now: datetime
) -> Host:
    """Another address, whose key has been confirmed, or in and out of use; None leaves a thing as it is now.

    The row is read anew: between its reading and now a person may have compared a key for minutes.
    """
    host = Host.objects.select_for_update().get(pk=host.pk)
    if host.removed is not None:
        raise Refused(f"{host} has been removed meanwhile; add_host takes it into use again.")
    if ssh is not None:
        _place(host, ssh)
    if enabled is not None:
        host.enabled = enabled
    return save_host(host, by=by, now=now)


@transaction.atomic
def save_host(host: Host, *, by: User | None, now: datetime) -> Host:
    """Store a host as an operator edited it."""
    _check(host)
    host.save(update_fields=EDITED)
    _tell_host("saved", host, by, now)
    transaction.on_commit(partial(signals.changed.send, Host, host_id=host.pk))
    return host


@transaction.atomic
def remove_host(host: Host, *, by: User | None, now: datetime) -> None:
    """Take a host away for good. Enforcement's action of that name calls it, once nothing of ours is there."""
    host.enabled, host.removed = False, now
    host.save(update_fields=["enabled", "removed"])
    _tell_host("removed", host, by, now)


def _place(host: Host, ssh: SSHAddress | None) -> None:
    host.ssh_user, host.ssh_host = (ssh.user, ssh.host) if ssh else ("", "")
    host.ssh_port, host.host_key = (ssh.port, ssh.host_key) if ssh else (None, "")


def _check(host: Host) -> None:
    try:
        host.full_clean()
    except ValidationError as error:
        fields = dict.fromkeys(error.message_dict.keys() & {field.name for field in Host._meta.fields}, "invalid")
        raise WrongInput(f"The host {host.name!r} cannot be so. {' '.join(error.messages)}", fields=fields) from error


def _tell_host(verb: str, host: Host, by: User | None, now: datetime) -> None:
    """An audit entry: where the host is, and by which key it is known."""
    ssh = host.address.ssh
    where = {"address": str(ssh), "fingerprint": fingerprint(ssh.host_key)} if ssh else {}
    audit.record(by, verb, host, now=now, name=host.name, kind=host.kind, enabled=host.enabled, **where)


WISHED = ("wanted_regime", "wanted_vfs", "scheduler_policy", "time_slice_us", "ecc", "offered_types")
"""How an operator wants a GPU set. All else but `enabled` is the host's word, and newer than any form."""


@transaction.atomic
def save_gpu(gpu: GPU, *, by: User | None, now: datetime) -> GPU:
    """Store what an operator edited of a GPU."""
    gpu.save(update_fields=["enabled", *WISHED])
    audit.record(by, "saved", gpu, now=now, address=gpu.address, enabled=gpu.enabled, settings=card_settings.wish(gpu))
    transaction.on_commit(partial(signals.changed.send, GPU, host_id=gpu.host_id))
    return gpu


@transaction.atomic
def save_choice(thing: Flavor | Image, *, by: User | None, now: datetime) -> None:
    """Store a flavor or an image. Bookings that have not started yet get the new size; what runs keeps its own."""
    thing.save()
    audit.record(by, "saved", thing, now=now, slug=thing.slug, enabled=thing.enabled)


@transaction.atomic
def delete_choice(thing: Flavor | Image, *, by: User, now: datetime) -> None:
    """Remove a flavor or an image that nothing points to."""
    audit.record(by, "deleted", thing, now=now, slug=thing.slug)
    thing.delete()


def record_capacity(host: Host, capacity: Mapping[str, Any], *, now: datetime) -> None:
    """What a host said it has: vcpus, memory_mib, disk_free_mib. Written only when it changed, but for free disk."""
    facts = host.facts | {key: value for key, value in capacity.items() if value is not None}
    if facts != host.facts:
        Host.objects.filter(pk=host.pk).update(facts=facts)
        host.facts = facts


@transaction.atomic
def record_inventory(host: Host, document: Mapping[str, Any], now: datetime) -> list[GPU]:
    """Store what `vmctl gpus` found. A GPU that is missing keeps its row and its old `seen`, and so is not booked on.

    `document` has the form of docs/schemas: {"gpus": [{"address", "model", "types": [...], ...}]}.
    """
    pool = host.pools.get()
    return [_record_gpu(host, pool, gpu, now) for gpu in document["gpus"]]


def _record_gpu(host: Host, pool: Pool, found: Mapping[str, Any], now: datetime) -> GPU:
    before = GPU.objects.filter(host=host, address=found["address"]).first()
    fields = {
        "model": found.get("model") or "",
        "memory_mib": found.get("frame_buffer_mib"),
        "numa_node": found.get("numa_node"),
        "iommu_key": f"{host.name}:{found.get('iommu_group') or found['address']}",
        "handles": found.get("handles"),
        "regimes": list(found.get("regimes") or []),
        "last_regime": sight.regime_now(found) or (before.last_regime if before is not None else ""),
        "seen": now,
        "facts": {key: value for key, value in found.items() if key not in ("types", "holders")},
    }
    hidden = before is not None and sight.hides_types(found, before.wanted_regime)
    if before is not None and hidden:
        fields |= {"handles": before.handles, "regimes": before.regimes, "memory_mib": before.memory_mib}
    gpu, _ = GPU.objects.update_or_create(
        host=host, address=found["address"], defaults=fields, create_defaults=fields | {"pool": pool}
    )
    if before is not None and hidden:
        gpu.types.filter(seen__gte=before.seen or now).update(seen=now)
    else:
        _record_types(gpu, found.get("types") or [], now)
    return gpu


def _record_types(gpu: GPU, found: Iterable[Mapping[str, Any]], now: datetime) -> None:
    """Types the driver no longer offers keep their row and their old `seen`: a booking may still name them."""
    known = {(row.name, row.regime): row for row in gpu.types.all()}
    same = []
    for vgpu in found:
        row = known.get((vgpu["name"], vgpu["regime"]))
        fields = {key: vgpu[key] for key in ("series", "size_group", "cells", "slots", "media")}
        fields |= {"memory_mib": vgpu["frame_buffer_mib"], "gi_profile": vgpu["gi_profile"] or ""}
        if row is not None and all(getattr(row, key) == value for key, value in fields.items()):
            same.append(row.pk)
        else:
            VGPUType.objects.update_or_create(
                gpu=gpu, name=vgpu["name"], regime=vgpu["regime"], defaults=fields | {"seen": now}
            )
    VGPUType.objects.filter(pk__in=same).update(seen=now)


@dataclass(frozen=True)
class Fact:
    """One thing seen on a GPU that the plan does not explain."""

    gpu_id: UUID
    kind: str
    vgpu: UUID | None = None
    device: str = ""
    regime: str = ""
    size_group: str = ""
    cell: tuple[int, int] | None = None
    slot: tuple[int, int] | None = None
    handle: int | None = None
    detail: str = ""

    def fields(self) -> dict[str, Any]:
        """What may change while it stands."""
        ranges = {"cell": self.cell and NumericRange(*self.cell), "slot": self.slot and NumericRange(*self.slot)}
        rest = {"regime": self.regime, "size_group": self.size_group, "handle": self.handle, "detail": self.detail}
        return ranges | rest


@transaction.atomic
def set_holdings(
    host: Host,
    facts: Iterable[Fact],
    *,
    now: datetime,
    seen: Collection[UUID | None] = (),
    complete: bool = True,
) -> None:
    """Make the holdings of a host these; one that was there before keeps its `since`. Quarantines stay.

    Where the host's lists are not `complete`, only holdings whose vGPU was `seen` may go.
    """
    stored = Holding.objects.filter(gpu__host=host).exclude(kind=HoldingKind.QUARANTINE)
    before = {(row.gpu_id, row.kind, row.vgpu, row.device): row for row in stored}
    for fact in facts:
        row, fields = before.pop((fact.gpu_id, fact.kind, fact.vgpu, fact.device), None), fact.fields()
        if row is None:
            names = {"gpu_id": fact.gpu_id, "kind": fact.kind, "vgpu": fact.vgpu, "device": fact.device}
            Holding.objects.create(since=now, **names, **fields)
        elif any(getattr(row, key) != value for key, value in fields.items()):
            Holding.objects.filter(pk=row.pk).update(**fields)
    gone = [row.pk for row in before.values() if complete or row.vgpu in seen]
    Holding.objects.filter(pk__in=gone).delete()


@transaction.atomic
def quarantine(gpu: GPU, *, why: str, by: User, now: datetime) -> None:
    """Nobody can book this GPU until the quarantine is lifted; what runs there goes on."""
    Holding.objects.create(gpu=gpu, kind=HoldingKind.QUARANTINE, detail=why, since=now)
    audit.record(by, "quarantined", gpu, now=now, why=why)


@transaction.atomic
def lift_quarantine(gpu: GPU, *, by: User, now: datetime) -> None:
    """The GPU can be booked again."""
    Holding.objects.filter(gpu=gpu, kind=HoldingKind.QUARANTINE).delete()
    audit.record(by, "lifted quarantine", gpu, now=now)
