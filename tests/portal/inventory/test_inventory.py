"""What vmctl finds becomes GPUs and types; what is gone keeps its row and is not booked."""

import re
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st

from portal.accounts.models import User
from portal.audit.models import Entry
from portal.bookings.errors import NoCapacity
from portal.errors import WrongInput
from portal.gateway import GatewayError
from portal.inventory import actions
from portal.inventory.models import (
    FILE_NAME,
    GPU,
    LOGIN_NAME,
    SAFE_NAME,
    Flavor,
    Holding,
    Host,
    HostKind,
    VGPUType,
)
from tests import make
from tests.make import NOW, World, at
from vmctl.plan import desired as documents


@given(
    *(st.from_regex(rule.regex, fullmatch=True) for rule in (SAFE_NAME, FILE_NAME, LOGIN_NAME)),
)
def test_no_name_that_is_taken_here_makes_a_document_that_a_host_refuses(host: str, file: str, login: str) -> None:
    """A refused document stops everything on its host, not only the machine with the odd name."""
    assert re.fullmatch(documents.HOST, host)
    assert re.fullmatch(documents.IMAGE, file)
    assert re.fullmatch(documents.LOGIN, login)


def test_a_second_look_changes_nothing_but_the_time(world: World) -> None:
    before = {row.pk: row.seen for row in VGPUType.objects.all()}
    gpu = world.host.gpus.get()
    actions.record_inventory(world.host, {"gpus": [make.gpu_facts()]}, at(1))
    assert {row.pk for row in VGPUType.objects.all()} == set(before)
    assert {row.seen for row in VGPUType.objects.all()} == {at(1)}
    assert world.host.gpus.get() == gpu
    assert (gpu.iommu_key, gpu.handles, gpu.pool.host) == ("sim-t4:3b", 16, world.host)


def test_an_operators_decision_outlives_a_look(world: World) -> None:
    gpu = world.host.gpus.get()
    gpu.enabled = False
    actions.save_gpu(gpu, by=world.people.olga, now=NOW)
    actions.record_inventory(world.host, {"gpus": [make.gpu_facts()]}, at(1))
    assert not GPU.objects.get().enabled


@pytest.mark.field("A07")
def test_what_is_gone_keeps_its_old_time(world: World) -> None:
    other = make.gpu_facts("0000:5e:00.0", types=[])
    actions.record_inventory(world.host, {"gpus": [other]}, at(1))
    assert {gpu.address: gpu.seen for gpu in GPU.objects.all()} == {"0000:3b:00.0": NOW, "0000:5e:00.0": at(1)}


OFF: dict[str, Any] = {"types": [], "handles": 0, "regimes": [], "vfs": {"total": 32, "enabled": 0, "free": None}}


@pytest.mark.field("A05")
@pytest.mark.parametrize(
    "found",
    [
        OFF,
        {"types": [], "handles": 0, "regimes": ["whole"], "regime": "whole", "frame_buffer_mib": None},
        {"types": [], "unknown": {"types": "The driver does not answer."}},
    ],
    ids=["functions off after a reboot", "lent out whole", "not told"],
)
def test_a_card_that_cannot_show_its_types_now_keeps_them(world: World, found: dict[str, Any]) -> None:
    """It is brought back before the next machine starts, so it can be booked on meanwhile."""
    actions.record_inventory(world.host, {"gpus": [make.gpu_facts(**found)]}, at(0.5))
    gpu = GPU.objects.get()
    assert (gpu.handles, gpu.regimes, gpu.memory_mib) == (16, ["equal"], 16384)
    assert {row.seen for row in VGPUType.objects.all()} == {at(0.5)}
    assert gpu.facts["regime"] == found.get("regime", "equal")
    assert world.book(now=at(0.5)).status == "booked"


@pytest.mark.field("A19")
def test_a_card_whose_mig_mode_waits_for_a_reset_is_not_booked(world: World) -> None:
    pending: dict[str, Any] = {
        "mig": {"current": False, "pending": True},
        "unknown": {"mig": "It needs a reset."},
        "types": [],
    }
    actions.record_inventory(world.host, {"gpus": [make.gpu_facts(**OFF | pending)]}, at(0.5))
    with pytest.raises(NoCapacity):
        world.book(now=at(0.5))


@pytest.mark.field("A07")
def test_a_type_that_a_new_driver_does_not_offer_is_not_booked(world: World) -> None:
    left = [make.type_facts("T4-8Q", "8G", 2)]
    actions.record_inventory(world.host, {"gpus": [make.gpu_facts(types=left)]}, at(0.5))
    with pytest.raises(NoCapacity):
        world.book(now=at(0.5))
    assert world.book(flavor=world.big, now=at(0.5)).status == "booked"


def test_without_an_iommu_group_the_address_stands_for_it(world: World) -> None:
    actions.record_inventory(world.host, {"gpus": [make.gpu_facts(iommu_group=None)]}, at(1))
    assert GPU.objects.get().iommu_key == "sim-t4:0000:3b:00.0"


def test_holdings_keep_their_since_and_quarantines_stay(world: World) -> None:
    gpu = world.host.gpus.get()
    actions.quarantine(gpu, why="smells", by=world.people.olga, now=NOW)
    fact = actions.Fact(gpu.pk, "foreign", size_group="4G", handle=2)
    actions.set_holdings(world.host, [fact], now=at(1))
    actions.set_holdings(world.host, [actions.Fact(gpu.pk, "foreign", size_group="4G", handle=3)], now=at(2))
    assert Holding.objects.get(kind="foreign").since == at(1)
    actions.set_holdings(world.host, [], now=at(3))
    assert [holding.kind for holding in Holding.objects.all()] == ["quarantine"]
    actions.lift_quarantine(gpu, by=world.people.olga, now=at(4))
    assert not Holding.objects.exists()


def test_two_shares_without_a_uuid_are_two_holdings_and_stay_two(world: World) -> None:
    gpu = world.host.gpus.get()
    facts = [actions.Fact(gpu.pk, "foreign", device=f"gpu-instance {k}", regime="mig", cell=(k, k + 1)) for k in (1, 2)]
    for hour in (1, 2, 3):
        actions.set_holdings(world.host, facts, now=at(hour))
    rows = Holding.objects.order_by("device")
    assert [(row.device, row.cell.lower, row.since) for row in rows] == [
        ("gpu-instance 1", 1, at(1)),
        ("gpu-instance 2", 2, at(1)),
    ]
    actions.set_holdings(world.host, facts[1:], now=at(4))
    assert [row.device for row in Holding.objects.all()] == ["gpu-instance 2"]


def test_capacity_forgets_nothing_it_was_not_told(world: World) -> None:
    actions.record_capacity(world.host, {"vcpus": 8, "memory_mib": 1000}, now=NOW)
    actions.record_capacity(world.host, {"vcpus": None, "memory_mib": 2000}, now=NOW)
    assert Host.objects.get().facts == {"vcpus": 8, "memory_mib": 2000}


@pytest.mark.field("G09", "G10")
@pytest.mark.parametrize(
    "name", ["", "a b", "-oProxyCommand=x", "../x", "A", "a;b", "$(id)", "x" * 64, "a\n", "sim-t4"]
)
def test_host_names_are_kept_to_one_alphabet(world: World, name: str) -> None:
    with pytest.raises(WrongInput, match=r"\.$"):
        actions.add_host(name, HostKind.LOCAL, by=None, now=NOW)
    assert Host.objects.count() == 1


def answers(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    """vmctl gpus says this, or raises it."""

    def gpus(address: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr("portal.inventory.discovery.gateway.gpus", gpus)


def test_add_host_stores_what_it_finds(
    db: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers(monkeypatch, {"gpus": [make.gpu_facts()]})
    call_command("add_host", "gpu1", "--simulate", "t4")
    assert capsys.readouterr().out.endswith("Added gpu1 with 1 GPU(s).\n")
    assert (Host.objects.get().layout, GPU.objects.get().model) == ("t4", "Tesla T4")


def test_a_host_that_cannot_be_asked_is_not_added(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, GatewayError("bad_input", "There is no layout x.", "Choose t4.", False))
    with pytest.raises(CommandError, match=r"There is no layout x\. Choose t4\."):
        call_command("add_host", "gpu1", "--simulate", "x")
    assert not Host.objects.exists()


def test_demo_data_is_made_once(
    db: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    settings: Any,
) -> None:
    settings.VAR_DIR, settings.IMAGES_DIR = tmp_path / "var", tmp_path
    (tmp_path / "demo.qcow2").touch()
    answers(monkeypatch, GatewayError("unreachable", "libvirt does not answer.", "Start it.", True))
    call_command("demo_data")
    first = capsys.readouterr().out
    call_command("demo_data")
    assert capsys.readouterr().out == first
    rows = {line.split()[0]: line.split()[1] for line in first.splitlines() if line}
    assert list(rows) == ["log-in", "admin", "teacher", "student1", "student2"]
    assert User.objects.get(username="teacher").check_password(rows["teacher"])
    assert (Host.objects.count(), Flavor.objects.count()) == (2, 3)
    file = tmp_path / "var" / "demo-logins.txt"
    assert (file.stat().st_mode & 0o777, file.read_text() in first) == (0o600, True)


def test_admin_writes_through_actions(world: World, client: Any) -> None:
    client.force_login(world.people.olga)
    page = f"/admin/inventory/flavor/{world.small.pk}/change/"
    form = {"slug": "small", "name": "Small", "vgpu_types": "T4-4Q", "regime": "equal", "vcpus": 2, "memory_mib": 512}
    assert client.post(page, form | {"disk_gib": 4, "enabled": "on"}).status_code == 302
    entry = Entry.objects.filter(subject=f"flavor:{world.small.pk}").latest("pk")
    assert (entry.verb, entry.actor, Flavor.objects.get(slug="small").vcpus) == ("saved", world.people.olga, 2)
    made = client.post("/admin/inventory/host/add/", {"name": "gpu9", "kind": "local", "layout": "", "enabled": "on"})
    assert made.status_code == 302
    assert Host.objects.get(name="gpu9").pools.count() == 1
    bad = client.post("/admin/inventory/host/add/", {"name": "-x", "kind": "local", "layout": "", "enabled": "on"})
    assert b"Use lower-case letters" in bad.content


@pytest.mark.parametrize(
    "app",
    [
        "accounts/user",
        "accounts/project",
        "accounts/membership",
        "accounts/apitoken",
        "audit/entry",
        "bookings/reservation",
        "inventory/host",
        "inventory/gpu",
        "inventory/flavor",
        "inventory/image",
        "inventory/holding",
        "machines/virtualmachine",
        "enforcement/hoststate",
        "enforcement/steplog",
    ],
)
def test_admin_pages_open_for_operators_only(world: World, client: Any, app: str) -> None:
    world.book()
    client.force_login(world.people.olga)
    assert client.get(f"/admin/{app}/").status_code == 200
    client.force_login(world.people.ada)
    assert client.get(f"/admin/{app}/").status_code == 302


def test_operators_end_reservations_in_the_admin(world: World, client: Any) -> None:
    reservation = world.book()
    client.force_login(world.people.olga)
    page = client.get(f"/admin/bookings/reservation/{reservation.pk}/change/").content.decode()
    assert reservation.password_sealed not in page
    assert reservation.password_hash not in page
    client.post("/admin/bookings/reservation/", {"action": "end", "_selected_action": [str(reservation.pk)]})
    reservation.refresh_from_db()
    assert reservation.status == "cancelled"
