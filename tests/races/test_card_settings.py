"""A look at a card and an operator who sets it, at once: neither undoes the other. And the control: with rows saved
whole, the later one does."""

from collections.abc import Callable
from functools import partial
from threading import Event
from typing import Any
from unittest.mock import patch

import pytest
from django.db import models

from portal import clock
from portal.inventory import actions, sight
from portal.inventory.models import GPU
from tests import make
from tests.races.crowd import together

pytestmark = pytest.mark.timeout(120)
FOUND = make.gpu_facts(regime="mixed", mixed=True)


def look(here: make.World, read: Event, go_on: Event) -> str:
    """A tick that has read the card, and stores what it found only when told to go on."""

    def slow(found: Any) -> str:
        read.set()
        assert go_on.wait(timeout=30)
        return str(found["regime"])

    with patch.object(sight, "regime_now", slow):
        actions.record_inventory(here.host, {"gpus": [FOUND]}, clock.now())
    return "looked"


def edit(here: make.World, read: Event, go_on: Event) -> str:
    """An operator who loaded the form before the tick, and stores it while the tick has read and not yet written."""
    form = GPU.objects.get()
    form.wanted_regime = "mig"
    assert read.wait(timeout=30)
    actions.save_gpu(form, by=here.people.olga, now=clock.now())
    go_on.set()
    return "edited"


def race(here: make.World) -> GPU:
    """The card after both."""
    events = Event(), Event()
    deeds: list[Callable[[], str]] = [partial(deed, here, *events) for deed in (look, edit)]
    assert sorted(together(deeds)) == ["edited", "looked"]
    return GPU.objects.get()


def test_a_look_keeps_what_an_operator_stores_meanwhile(here: make.World) -> None:
    gpu = race(here)
    assert (gpu.wanted_regime, gpu.last_regime) == ("mig", "mixed")


def test_an_operators_old_form_keeps_what_a_look_stored(here: make.World) -> None:
    form, now = GPU.objects.get(), clock.now()
    actions.record_inventory(here.host, {"gpus": [FOUND]}, now)
    form.wanted_regime = "mig"
    actions.save_gpu(form, by=here.people.olga, now=now)
    gpu = GPU.objects.get()
    assert (gpu.wanted_regime, gpu.last_regime, gpu.seen) == ("mig", "mixed", now)


def test_the_race_is_real(here: make.World) -> None:
    """The control: saved whole, an operator's old form takes the card back to what it was when the form was loaded."""
    save = models.Model.save

    def whole(row: models.Model, *, update_fields: Any = None, **options: Any) -> None:
        save(row, **options)

    form, now = GPU.objects.get(), clock.now()
    actions.record_inventory(here.host, {"gpus": [FOUND]}, now)
    with patch.object(models.Model, "save", whole):
        actions.save_gpu(form, by=here.people.olga, now=now)
    assert GPU.objects.get().seen != now
