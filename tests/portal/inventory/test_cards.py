"""How a card is, in words, and how an operator wants it: at the door, in the plan, and in what hosts are told."""

from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse

from portal.audit.models import Entry
from portal.bookings import plane
from portal.bookings.errors import NoCapacity
from portal.inventory import actions, card_settings, sight
from portal.inventory.models import GPU
from tests import make
from tests.make import NOW, World, at


def test_the_regime_it_was_first_seen_in_is_the_one_it_is_brought_back_to(world: World) -> None:
    assert GPU.objects.get().wanted_regime == "equal"
    actions.record_inventory(world.host, {"gpus": [make.gpu_facts(regime="whole")]}, at(1))
    assert GPU.objects.get().wanted_regime == "equal"


def test_only_offered_types_are_booked_and_drawn(world: World) -> None:
    gpu = GPU.objects.get()
    gpu.offered_types = ["T4-8Q"]
    actions.save_gpu(gpu, by=world.people.olga, now=NOW)
    with pytest.raises(NoCapacity):
        world.book()
    assert world.book(flavor=world.big).status == "booked"
    assert [kind.name for card in plane.cards() for kind in card.kinds] == ["T4-8Q"]


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ({"wanted_vfs": 4}, "wanted_vfs"),
        ({"time_slice_us": 3000}, "time_slice_us"),
        ({"scheduler_policy": "best_effort", "time_slice_us": 3000}, "time_slice_us"),
        ({"scheduler_policy": "fixed_share", "time_slice_us": 30}, "time_slice_us"),
        ({"scheduler_policy": "fixed_share", "wanted_regime": "mixed"}, "scheduler_policy"),
        ({"scheduler_policy": "equal_share", "wanted_regime": "mig"}, "scheduler_policy"),
        ({"ecc": True}, "ecc"),
        ({"offered_types": ["T4-4Q", "T4-99Q"]}, "offered_types"),
    ],
)
def test_a_wish_that_cannot_be_is_refused_at_its_field(world: World, wish: dict[str, Any], field: str) -> None:
    gpu = GPU.objects.get()
    for name, value in wish.items():
        setattr(gpu, name, value)
    with pytest.raises(ValidationError) as caught:
        gpu.full_clean()
    assert set(caught.value.message_dict) == {field}


def test_a_wish_that_can_be_is_taken_and_sent(world: World) -> None:
    gpu = GPU.objects.get()
    gpu.scheduler_policy, gpu.time_slice_us, gpu.offered_types = "fixed_share", 3000, ["T4-4Q"]
    gpu.full_clean()
    assert card_settings.wish(gpu) == {
        "gpu": "0000:3b:00.0",
        "regime": "equal",
        "vfs": None,
        "scheduler": {"policy": "fixed_share", "time_slice_us": 3000},
        "ecc": None,
        "types": ["T4-4Q"],
    }


def test_a_card_in_words() -> None:
    found = make.gpu_facts(
        framework="vendor-vfio",
        regime="mig",
        vfs={"total": 16, "enabled": 16, "free": 3},
        mig={"current": True, "pending": False},
        ecc={"current": True, "pending": True},
        scheduler={"policy": "fixed_share", "time_slice_us": 3000},
        unknown={"holders.licence": "The driver says nothing."},
    )
    assert list(sight.words(found)) == [
        "GPU instances (MIG), virtual functions of the vendor's driver",
        "16 of 16 virtual functions on, 3 free",
        "MIG is on, and off after a reset or a reboot of the host",
        "ECC on",
        "scheduler: fixed shares, time slice 3 ms",
    ]
    assert sight.gaps(found) == ["holders.licence: The driver says nothing."]
    odd = {"framework": "none", "reason": "It has no driver.", "vfs": {"total": 4, "enabled": 0}}
    assert list(sight.words(odd)) == ["cannot be shared", "virtual functions are off (4 possible)"]
    assert (sight.reason(odd), sight.gaps(odd), sight.reason(found)) == ("It has no driver.", [], "")


FORM = {
    "enabled": "on",
    "wanted_regime": "equal",
    "wanted_vfs": "",
    "scheduler_policy": "fixed_share",
    "time_slice_us": "2000",
    "ecc": "unknown",
    "offered_types": "T4-4Q, T4-4C",
}


def admin_page(client: Client, world: World, **form: str) -> str:
    """What the admin's form answers to this."""
    client.force_login(world.people.olga)
    address = reverse("admin:inventory_gpu_change", args=[GPU.objects.get().pk])
    return client.post(address, FORM | form, follow=True).content.decode()


def test_an_operator_sets_a_card_in_the_admin(world: World, client: Client) -> None:
    assert "was changed successfully" in admin_page(client, world)
    gpu = GPU.objects.get()
    assert (gpu.scheduler_policy, gpu.time_slice_us, gpu.ecc, gpu.offered_types) == (
        "fixed_share",
        2000,
        None,
        ["T4-4Q", "T4-4C"],
    )
    assert Entry.objects.filter(verb="saved", subject=f"gpu:{gpu.pk}").latest("pk").detail["settings"]["types"]


def test_the_admin_says_what_is_wrong_with_a_wish(world: World, client: Client) -> None:
    page = admin_page(client, world, offered_types="T4-99Q", scheduler_policy="")
    assert "This card does not offer T4-99Q. It offers T4-4C, T4-4Q, T4-8Q." in page
    assert "A time slice needs the policy of equal or of fixed shares." in page
    assert GPU.objects.get().offered_types == []
