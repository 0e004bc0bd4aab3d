"""The only writer of machines."""

import re
from datetime import datetime
from uuid import UUID, uuid4

from django.db import transaction

from portal.accounts.models import Project, User
from portal.audit import actions as audit
from portal.inventory.models import Flavor, Image, StoragePool
from portal.machines.models import MachineState, VirtualMachine

LABEL = 63  # letters in one part of a host name (RFC 1123)


def hostname_for(user: User, image: Image, machine_id: UUID) -> str:
    """A safe name inside and outside of the guest; the end of it, from the machine's id, makes it the only one."""
    words = re.sub(r"[^a-z0-9]+", "-", f"{user.username}-{image.slug}".lower()).strip("-")
    return f"{words[: LABEL - 7].strip('-') or 'machine'}-{machine_id.hex[:6]}"


@transaction.atomic
def make(
    *,
    owner: User,
    project: Project,
    flavor: Flavor,
    image: Image,
    disposable: bool,
    host_id: int,
    by: User,
    now: datetime,
) -> VirtualMachine:
    """A machine without a disk yet; it will lie in the storage of the host where it runs first."""
    machine_id = uuid4()
    hostname = hostname_for(owner, image, machine_id)
    machine = VirtualMachine.objects.create(
        id=machine_id,
        name=hostname,
        hostname=hostname,
        owner=owner,
        project=project,
        flavor=flavor,
        image=image,
        disposable=disposable,
        host_id=host_id,
        storage_pool=StoragePool.objects.filter(hosts=host_id).order_by("pk").first(),
        created=now,
    )
    audit.record(by, "made", machine, now=now, hostname=hostname, image=image.slug, disposable=disposable)
    return machine


def observed(
    machine_id: UUID,
    *,
    state: MachineState,
    disk_mib: int | None = None,
    disk_missing: bool = False,
    screen: str = "",
    licence: str = "",
    now: datetime,
) -> None:
    """What the host last said about a machine. `disk_mib` None: nothing of its disk; the rest empty: not running."""
    seen = {"state": state, "disk_missing": disk_missing, "screen": screen, "licence": licence, "observed_at": now}
    if disk_mib is not None:
        seen["disk_mib"] = disk_mib
    VirtualMachine.objects.filter(pk=machine_id).update(**seen)


@transaction.atomic
def delete(machine: VirtualMachine, *, by: User | None, now: datetime) -> bool:
    """The machine's disk is to go; the row stays for the record. False: it was deleted before."""
    changed = VirtualMachine.objects.filter(pk=machine.pk, deleted=None).update(deleted=now)
    if changed:
        machine.deleted = now
        audit.record(by, "deleted", machine, now=now, hostname=machine.hostname)
    return changed == 1


def disk_gone(machine_id: UUID, *, now: datetime) -> None:
    """The host has no disk of this machine any more."""
    gone = {"disk_mib": None, "disk_missing": False, "screen": "", "licence": ""}
    VirtualMachine.objects.filter(pk=machine_id).update(**gone, state=MachineState.OFF, observed_at=now)
