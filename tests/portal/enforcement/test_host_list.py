"""The list of hosts changes while machines run: an address moves, a host goes out of use, leaves and comes back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from portal.bookings.models import Reservation
from portal.enforcement import actions as enforcement
from portal.enforcement.models import HostState
from portal.errors import Refused
from portal.gateway import GatewayError, HostAddress
from portal.host_address import SSHAddress
from portal.inventory import actions as inventory
from portal.inventory.models import Host, HostKind
from portal.machines import actions as machines
from tests import make
from tests.fakes import FakeGateway, FakeHost
from tests.portal.enforcement.conftest import Stage
from tests.portal.inventory.answering import KEY

FAR = SSHAddress("root", "gpu1.example.org", 22, KEY)
MOVED = SSHAddress("root", "gpu1.example.org", 2222, KEY)


class Network(FakeGateway):
    """Hosts over SSH answer at the address where they are, and nowhere else."""

    def __init__(self) -> None:
        super().__init__()
        self.at: dict[str, SSHAddress] = {}

    def apply(self, address: HostAddress, desired: Mapping[str, Any]) -> dict[str, Any]:
        if address.ssh != self.at.get(address.name):
            raise GatewayError("unreachable", f"Nobody answers at {address.ssh}.", "Look.", True)
        return super().apply(address, desired)


@pytest.fixture
def network(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Network:
    network = Network()
    network.hosts = stage.hosts.hosts
    monkeypatch.setattr("portal.gateway.apply", network.apply)
    return network


def far_host(stage: Stage, network: Network) -> Host:
    host = inventory.add_host("gpu1", HostKind.SSH, ssh=FAR, by=None, now=stage.now)
    inventory.record_inventory(host, {"gpus": [make.gpu_facts("0000:5e:00.0", model="Tesla T4")]}, stage.now)
    stage.host(FakeHost("gpu1", gpus=[make.gpu_facts("0000:5e:00.0")]), host)
    network.at["gpu1"] = FAR
    return host


def fill_the_first(stage: Stage) -> list[Reservation]:
    """Bookings until one lies on the second host."""
    made: list[Reservation] = []
    while not any(one.placements.filter(gpu__host__name="gpu1").exists() for one in made):
        made.append(stage.world.book(1, 3))
    return made


@pytest.mark.field("C18")
def test_a_host_that_moves_while_machines_run_is_called_where_it_is_now(stage: Stage, network: Network) -> None:
    host = far_host(stage, network)
    made = fill_the_first(stage)
    stage.at(1).tick()
    assert {stage.status(one) for one in made} == {"active"}
    network.at["gpu1"] = MOVED  # first the machine moves, then an operator says so
    stage.at(1.1).tick()
    assert (HostState.objects.get(host=host).last_error or {})["code"] == "unreachable"
    assert HostState.objects.get(host=stage.world.host).last_error is None  # the others never noticed
    assert {stage.status(one) for one in made} == {"active"}
    inventory.change_host(host, ssh=MOVED, by=None, now=stage.now)
    stage.deliver()  # at once, by the signal; nobody restarts anything
    assert HostState.objects.get(host=host).last_error is None
    assert len(stage.hosts.hosts["gpu1"].guests) == 1
    stage.at(3).tick()
    assert {stage.status(one) for one in made} == {"ended"}


@pytest.mark.field("C18")
def test_a_host_out_of_use_keeps_what_runs_and_leaves_when_it_is_empty(stage: Stage, network: Network) -> None:
    """Nothing new is booked there; what was booked before has its time."""
    host = far_host(stage, network)
    made = fill_the_first(stage)
    mine = next(one for one in made if one.placements.filter(gpu__host=host).exists())
    inventory.change_host(host, enabled=False, by=None, now=stage.now)
    stage.at(1).tick()
    stage.at(1.5).tick()
    assert stage.status(mine) == "active"
    with pytest.raises(Refused, match="is not removed, as this is still there"):
        enforcement.remove_host(host, by=None, now=stage.now)
    stage.at(3).tick()
    assert stage.status(mine) == "ended"
    machines.delete(mine.machine, by=None, now=stage.now)
    stage.at(3.1).tick()  # its disk goes
    enforcement.remove_host(host, by=None, now=stage.now)
    calls = len(stage.hosts.hosts["gpu1"].calls)
    stage.box.append((host.pk, stage.now.isoformat()))  # a late message
    stage.at(3.2).tick()
    assert len(stage.hosts.hosts["gpu1"].calls) == calls


@pytest.mark.field("C18")
def test_a_host_that_comes_back_goes_on_where_it_was(stage: Stage, network: Network) -> None:
    """Its numbers go on: one that begins at 1 again would be refused by the host as an old call."""
    host = far_host(stage, network)
    stage.tick()
    enforcement.remove_host(host, by=None, now=stage.now)
    network.at["gpu1"] = MOVED
    stage.now += timedelta(minutes=5)
    again = inventory.add_host("gpu1", HostKind.SSH, ssh=MOVED, by=None, now=stage.now)
    stage.deliver()
    assert HostState.objects.get(host=again).last_error is None
    make.seen(stage.now)
    made = fill_the_first(stage)
    stage.at(1).tick()
    assert {stage.status(one) for one in made} == {"active"}
