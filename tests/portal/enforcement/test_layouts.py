"""Portal and vmctl together on every simulated layout: what is booked from an inventory can be made on that host."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from portal.bookings.models import Reservation
from portal.enforcement import desired, reading
from portal.inventory.models import GPU, Host, VGPUType
from tests import make
from tests.make import NOW, at
from vmctl import gpus
from vmctl.answers import cards as cards_report
from vmctl.card import CardChange, Framework, Knob, ProvidedVGPU
from vmctl.model import DesiredState
from vmctl.observation import Whose
from vmctl.plan import desired as documents
from vmctl.simulate import SimulatedHost, prepare
from vmctl.simulate.layouts import LAYOUTS

PARTS = 4
MOST = 3
"""So many bookings of each size are tried on one layout."""


def inventory_of(host: SimulatedHost) -> list[dict[str, Any]]:
    document = cards_report.gpus_json(host.name, NOW, True, gpus.inventory(host), Whose({}, frozenset()))
    return json.loads(json.dumps(document))["gpus"]  # type: ignore[no-any-return]


def sizes() -> list[tuple[str, str]]:
    """The smallest and the largest type of each regime, and a whole card where one can be given away."""
    found = []
    for regime in sorted(set(VGPUType.objects.values_list("regime", flat=True))):
        names = VGPUType.objects.filter(regime=regime).order_by("memory_mib", "name").values_list("name", flat=True)
        found += [(regime, names[0]), (regime, names[len(names) - 1])]
    whole = GPU.objects.filter(regimes__contains=["whole"]).values_list("model", flat=True).first()
    return found + ([("whole", whole)] if whole else [])


def asked_of(host: Host, reservation: Reservation) -> DesiredState:
    """The desired state that this booking becomes, as vmctl reads it."""
    held = reading.tiles(host)
    call = desired.Call(uuid4(), host.name, 1, make.at(1) - NOW, make.at(1) - NOW, cards=reading.cards(host, {}))
    return documents.parse(json.dumps(desired.document(call, [reading.lease(reservation, held)], held, NOW)))


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_what_is_booked_can_be_made(layout: str, tmp_path: Path, db: None) -> None:
    prepare(tmp_path / "root", layout)
    simulated = SimulatedHost(name=f"sim-{layout}", root=tmp_path / "root", state_dir=tmp_path / "state")
    for gpu in gpus.inventory(simulated):
        if gpu.framework is Framework.SRIOV:  # how many parts is an operator's choice, none by itself
            gpus.change(simulated, CardChange(gpu.address, Knob.VFS, PARTS))
    people = make.cast()
    host = make.host(simulated.name, inventory_of(simulated), vcpus=256, memory_mib=10**6, now=NOW)
    assert GPU.objects.exclude(regimes=[]).exists()
    image, made = make.image(), 0
    for number, (regime, name) in enumerate(sizes()):
        flavor = make.flavor(f"size-{number}", (name,), regime=regime)
        world = make.World(people, host, flavor, flavor, image)
        held: list[ProvidedVGPU] = []
        for _ in range(MOST):
            reservation = world.book(at_hour(number), at_hour(number) + 1)
            (machine,) = asked_of(host, reservation).machines
            for vgpu in machine.vgpus:
                held.append(gpus.provide(simulated, vgpu, machine.machine))
                assert (held[-1].type, held[-1].gpu) == (name, vgpu.gpu)
                assert regime == "equal" or held[-1].cell in (None, vgpu.cell)
                made += 1
            if len(held) == most(name, regime):
                break
        for share in held:
            gpus.release(simulated, share)
    assert made
    assert [share for share in gpus.provided(simulated) if share.uuid] == []


def at_hour(number: int) -> float:
    """Each size has an hour of its own, so that a card may change its size between them."""
    assert at(number) >= NOW
    return 1 + 2.0 * number


def most(name: str, regime: str) -> int:
    """How many of a type fit on the whole host."""
    if regime == "whole":
        return 1
    return sum(len(row.cells) for row in VGPUType.objects.filter(name=name, regime=regime))
