"""Machines: safe names, a place with their first booking, one end."""

from uuid import UUID

import pytest

from portal.accounts.models import User
from portal.audit.models import Entry
from portal.inventory.models import Image
from portal.machines import actions
from portal.machines.models import MachineState, VirtualMachine
from tests.make import NOW, World, at


@pytest.mark.field("G08", "G09", "G11")
@pytest.mark.parametrize(
    "name", ["ada", "a; touch /tmp/x", "$(id)", "<&>'\"]]>", "ä\n\t🙂", "x" * 150, "-oProxyCommand=x", "A.B@c"]
)
def test_hostnames_are_safe_and_unique(name: str) -> None:
    ids = [UUID(int=k << 104) for k in (1, 2)]
    names = {actions.hostname_for(User(username=name), Image(slug="demo_1"), one) for one in ids}
    assert len(names) == 2
    for hostname in names:
        assert len(hostname) <= 63
        assert hostname == hostname.lower().strip("-")
        assert set(hostname) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


def test_a_machine_lives_where_it_was_first_booked(world: World) -> None:
    machine = world.book().machine
    assert machine.host == world.host
    assert machine.storage_pool == world.host.storage_pools.get()


def test_deleted_once(world: World) -> None:
    machine = world.book().machine
    assert actions.delete(machine, by=world.people.ada, now=at(1))
    assert not actions.delete(machine, by=world.people.ada, now=at(2))
    assert VirtualMachine.objects.get().deleted == at(1)
    assert Entry.objects.filter(subject=f"virtualmachine:{machine.pk}", verb="deleted").count() == 1


def test_what_the_host_said_is_kept_with_its_time(world: World) -> None:
    machine = world.book().machine
    actions.observed(machine.pk, state=MachineState.RUNNING, disk_mib=700, now=at(1))
    actions.observed(machine.pk, state=MachineState.STOPPING, now=at(2))
    machine.refresh_from_db()
    assert (machine.state, machine.disk_mib, machine.observed_at) == ("stopping", 700, at(2))
    actions.disk_gone(machine.pk, now=NOW)
    machine.refresh_from_db()
    assert (machine.state, machine.disk_mib) == ("off", None)
