"""What can be booked in a lab, and by whom; run by `manage.py shell`, inside the portal."""

from __future__ import annotations

import json
import secrets

from portal import clock
from portal.accounts import actions as accounts
from portal.inventory import actions, demo
from portal.inventory.models import GPU, Flavor, Regime

MEMBERS, OPERATOR = ("ada", "ben"), "olga"
SHARES = {"t4": "T4-4Q", "a40": "A40-8Q", "l40s": "L40S-8Q"}
"""Flavors by their slug, and the one vGPU type of each."""
WHOLE = "t4-whole"
SIZE = {"vcpus": 1, "memory_mib": 256, "disk_gib": 1}


def fill() -> None:
    """People in one project, a flavor for each way of sharing, the demo image. Prints the passwords as JSON."""
    now = clock.now()
    words = {name: secrets.token_urlsafe(9) for name in (*MEMBERS, OPERATOR)}
    people = {
        name: accounts.make_user(name, word, by=None, now=now, operator=name == OPERATOR)
        for name, word in words.items()
    }
    members = [people[name] for name in MEMBERS]
    accounts.make_project("lab", members, managers=[people[OPERATOR]], by=None, now=now)
    for slug, kind in SHARES.items():
        actions.save_choice(
            Flavor(slug=slug, name=kind, vgpu_types=[kind], regime=Regime.EQUAL, **SIZE), by=None, now=now
        )
    whole = Flavor(slug=WHOLE, name="A whole T4", vgpu_types=["Tesla T4"], regime=Regime.WHOLE, **SIZE)
    actions.save_choice(whole, by=None, now=now)
    actions.save_choice(demo.image(), by=None, now=now)
    print(json.dumps(words))


def cut(*addresses: str) -> None:
    """Wish that cards are shared in equal sizes, as an operator does: the host switches their functions on."""
    for gpu in GPU.objects.filter(host__name="lab", address__in=addresses):
        gpu.wanted_regime = Regime.EQUAL
        actions.save_gpu(gpu, by=None, now=clock.now())
