"""How a card is, in words, and how an operator wants it: at the door, in the plan, and in what hosts are told."""

import re
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from portal.audit.models import Entry
from portal.bookings import plane
from portal.bookings.errors import NoCapacity
from portal.inventory import actions, card_settings, sight
from portal.inventory.models import GPU, TYPE_NAME
from tests import make
from tests.make import NOW, World, at
from vmctl.plan import desired as documents

OFF: dict[str, Any] = {"vfs": {"total": 32, "enabled": 0, "free": None}, "types": []}
ON: dict[str, Any] = {"vfs": {"total": 32, "enabled": 32, "free": 32}}
SETTLED = {"current": True, "pending": True}
NO_MIG = {"current": False, "pending": False}


def look(world: World, **found: Any) -> GPU:
    """The card as the host finds it now."""
    actions.record_inventory(world.host, {"gpus": [make.gpu_facts(framework="vendor-vfio", **found)]}, at(1))
    return GPU.objects.get()


def test_what_is_found_is_no_wish(world: World) -> None:
    """A card in one regime is not ordered to be in it: whoever then turns MIG on at the host would lose it again."""
    for regime in ("equal", "mixed", "whole"):
        gpu = look(world, **ON, regime=regime)
        assert (gpu.wanted_regime, card_settings.wish(gpu)["regime"]) == ("", None)
    assert gpu.last_regime == "mixed"  # lent out whole, it shows nothing of it


def test_a_cleared_wish_stays_cleared(world: World) -> None:
    gpu = look(world, **ON, regime="mixed", mixed=True)
    for wanted in ("mixed", ""):
        gpu.wanted_regime = wanted
        actions.save_gpu(gpu, by=world.people.olga, now=NOW)
        assert look(world, **ON, regime="mixed", mixed=True).wanted_regime == wanted


@pytest.mark.field("A05")
@pytest.mark.parametrize(
    ("last", "found", "brought_back"),
    [
        ("mixed", OFF | {"regime": "equal", "mixed": False}, "mixed"),
        ("mig", OFF | {"regime": "equal", "mig": NO_MIG}, "mig"),
        ("mig", OFF | {"regime": "mig", "mig": SETTLED}, "mig"),
        ("equal", OFF | {"regime": "equal"}, None),  # it comes up so by itself
        ("mixed", OFF | {"regime": None}, "mixed"),
        ("mixed", OFF | {"regime": "mig", "mig": SETTLED}, "mig"),  # somebody turned MIG on: it is what is there now
        ("mixed", OFF | {"regime": "equal", "mig": {"current": False, "pending": True}}, None),
        ("mig", ON | {"regime": "equal", "mig": NO_MIG}, None),  # somebody turned MIG off
        ("vf", OFF | {"regime": "vf"}, None),  # into how many parts, its machine says
    ],
)
def test_a_reboot_brings_back_what_was_there_and_nothing_else(
    world: World, last: str, found: dict[str, Any], brought_back: str | None
) -> None:
    assert look(world, **ON, regime=last).last_regime == last
    assert card_settings.wish(look(world, **found))["regime"] == brought_back


def test_an_operators_wish_wins_over_what_was_there(world: World) -> None:
    gpu = look(world, **ON, regime="mixed", mixed=True)
    gpu.wanted_regime = "equal"
    actions.save_gpu(gpu, by=world.people.olga, now=NOW)
    assert card_settings.wish(look(world, **OFF, regime="equal"), used="mixed")["regime"] == "equal"


def test_what_machines_still_need_is_brought_back_before_the_reboot_is_seen(world: World) -> None:
    gpu = look(world, **ON, regime="mixed", mixed=True)
    assert card_settings.wish(gpu, used="mixed")["regime"] == "mixed"
    assert card_settings.wish(gpu, used="equal")["regime"] is None


@pytest.mark.parametrize(
    ("wanted", "found", "said"),
    [
        ("mixed", {}, "no shares of several sizes|takes no shares"),
        ("mig", {}, "no MIG"),
        ("vf", {}, "plain parts"),
        ("whole", {}, "given away whole"),
        ("equal", {"framework": "sriov", "regime": "vf"}, "makes no shares"),
        ("whole", {"regimes": ["equal", "whole"]}, ""),
        ("mixed", {"mixed": False}, ""),
        ("mixed", {"unknown": {"mixed": "The driver does not answer."}}, ""),
        ("mig", {"mig": NO_MIG}, ""),
        ("vf", {"framework": "sriov"}, ""),
        ("mig", {"driver": "vfio-pci", "regime": "whole"}, ""),  # no driver has told what it can
    ],
)
def test_a_regime_that_a_card_can_never_be_in_is_refused(
    world: World, wanted: str, found: dict[str, Any], said: str
) -> None:
    actions.record_inventory(world.host, {"gpus": [make.gpu_facts(**found)]}, at(1))
    gpu = GPU.objects.get()
    gpu.wanted_regime = wanted
    wrong = card_settings.mistakes(gpu, known=[])
    assert set(wrong) == ({"wanted_regime"} if said else set())
    assert not said or re.search(said, wrong["wanted_regime"])


@given(st.from_regex(TYPE_NAME.regex, fullmatch=True))
def test_no_type_taken_here_makes_a_document_that_a_host_refuses(name: str) -> None:
    assert re.fullmatch(documents.TYPE, name)


@pytest.mark.parametrize("name", ["A40/8Q", "-8Q", "A40\n", "ä"])
def test_a_type_that_a_host_would_refuse_is_refused_though_no_types_are_known(world: World, name: str) -> None:
    """It would refuse the whole document: nothing would start or stop there any more."""
    GPU.objects.get().types.all().delete()
    gpu = GPU.objects.get()
    gpu.offered_types = [name]
    with pytest.raises(ValidationError) as caught:
        gpu.full_clean()
    assert set(caught.value.message_dict) == {"offered_types"}


def test_what_a_host_cannot_count_is_unknown_and_not_none(world: World, client: Client) -> None:
    untold = [make.type_facts(name, size, most, free=None, max=None) for name, size, most in make.T4_TYPES]
    actions.record_inventory(world.host, {"gpus": [make.gpu_facts(handles=None, types=untold)]}, at(0.5))
    assert GPU.objects.get().handles is None
    with pytest.raises(NoCapacity):
        world.book(now=at(0.5))
    client.force_login(world.people.olga)
    address = reverse("admin:inventory_gpu_change", args=[GPU.objects.get().pk])
    for page in (address, reverse("admin:inventory_gpu_changelist")):
        assert ">unknown<" in client.get(page).content.decode()


def test_gaps_of_a_former_release_get_their_names(world: World, client: Client) -> None:
    """A card that was not seen since: the page of hosts shows it as any other."""
    GPU.objects.update(facts=make.gpu_facts(unknown=[{"what": "types", "reason": "The driver is gone."}]))
    import_module("portal.inventory.migrations.0003_last_regime").name_gaps(apps, None)
    client.force_login(world.people.olga)
    assert "types: The driver is gone." in client.get(reverse("enforcement:hosts")).content.decode()


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
    gpu = look(world, mixed=False, mig=NO_MIG)
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
        "regime": None,
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
