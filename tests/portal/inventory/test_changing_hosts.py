"""A host over SSH moves, gets another key, goes out of use, leaves and comes back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import IntegrityError, transaction

from portal.audit.models import Entry
from portal.bookings import actions as bookings
from portal.bookings.states import Status
from portal.enforcement import actions as enforcement
from portal.errors import Refused
from portal.gateway import GatewayError
from portal.host_address import SSHAddress
from portal.inventory import actions
from portal.inventory.models import Host, HostKind
from portal.machines import actions as machines
from portal.machines.models import MachineState
from tests import make
from tests.make import NOW, World, at
from tests.portal.inventory.answering import KEY, OTHER, OTHER_PRINT, PRINT, WHERE, Answering, add, refusal


@pytest.mark.parametrize("fields", [{"host_key": ""}, {"ssh_port": None}, {"kind": "local"}, {"ssh_user": ""}])
def test_the_database_keeps_address_and_kind_together(db: None, there: Answering, fields: dict[str, Any]) -> None:
    host = add()
    with pytest.raises(IntegrityError), transaction.atomic():
        Host.objects.filter(pk=host.pk).update(**fields)


def test_the_admin_keeps_the_key_only_where_the_address_stays(db: None, there: Answering, client: Any) -> None:
    host = add()
    client.force_login(make.user("olga", operator=True))
    page = f"/admin/inventory/host/{host.pk}/change/"
    assert PRINT in client.get(page).content.decode()
    form = {"ssh_user": "root", "ssh_host": "gpu1.example.org", "ssh_port": 22, "host_key": "", "enabled": ""}
    assert client.post(page, form).status_code == 302
    host.refresh_from_db()
    assert (host.enabled, host.host_key) == (False, KEY)
    moved = form | {"ssh_host": "gpu9.example.org"}
    assert b"Give the host key of this address" in client.post(page, moved).content
    assert client.post(page, moved | {"host_key": f"gpu9.example.org {OTHER}\n"}).status_code == 302
    host.refresh_from_db()
    assert (host.ssh_host, host.host_key) == ("gpu9.example.org", OTHER)
    assert client.post(page, form | {"host_key": "ssh-ed25519 AAAA"}).status_code == 200
    assert client.post(f"/admin/inventory/host/{host.pk}/delete/", {"post": "yes"}).status_code == 403


def test_another_address_of_the_same_machine_needs_no_question(db: None, there: Answering) -> None:
    add()
    call_command("change_host", "gpu1", "--ssh", "root@gpu1b.example.org:2222")
    assert str(Host.objects.get().address.ssh) == "root@gpu1b.example.org:2222"


def test_a_new_host_key_is_confirmed_by_its_fingerprint_alone(db: None, there: Answering) -> None:
    add()
    there.key = OTHER
    assert f"manage.py change_host gpu1 --ssh {WHERE} --fingerprint {OTHER_PRINT}" in refusal(
        "change_host", "gpu1", "--ssh", WHERE
    )
    call_command("change_host", "gpu1", "--fingerprint", OTHER_PRINT)
    assert Host.objects.get().host_key == OTHER


def test_changes_that_cannot_be_are_refused(world: World, there: Answering) -> None:
    assert "Nothing to change" in refusal("change_host", "sim-t4")
    assert "remove it and add it again" in refusal("change_host", "sim-t4", "--ssh", WHERE)
    assert refusal("change_host", "gpu1", "--enable") == "There is no host gpu1."
    host = add()
    there.error = GatewayError("unreachable", "No route.", "Look.", True)
    assert "gpu1 is not changed: No route. Look." in refusal("change_host", "gpu1", "--ssh", "root@gpu2.example.org")
    assert Host.objects.get(pk=host.pk).address == host.address
    call_command("change_host", "gpu1", "--disable")
    assert not Host.objects.get(pk=host.pk).enabled


def test_what_changed_while_a_key_was_compared_stays(db: None, there: Answering) -> None:
    """A person at the terminal takes minutes; the host was read before."""
    before = add()
    actions.change_host(before, enabled=False, by=None, now=NOW)
    moved = actions.change_host(before, ssh=SSHAddress("root", "gpu2", 22, OTHER), by=None, now=NOW)
    assert (moved.enabled, moved.ssh_host) == (False, "gpu2")
    enforcement.remove_host(moved, by=None, now=NOW)
    with pytest.raises(Refused, match="has been removed meanwhile"):
        actions.change_host(before, enabled=True, by=None, now=NOW)


def test_a_machine_that_never_worked_for_us_does_not_take_a_busy_hosts_place(db: None, there: Answering) -> None:
    """Its empty lists would be read as the end of all that runs on the real one."""
    host = add()
    people = make.cast()
    machines.make(
        owner=people.ada,
        project=people.project,
        flavor=make.flavor(),
        image=make.image(),
        disposable=False,
        host_id=host.pk,
        by=people.ada,
        now=NOW,
    )
    assert "never worked for this portal" in refusal("change_host", "gpu1", "--ssh", "root@gpu2.example.org")
    there.report = {"portal": settings.PORTAL_ID}
    call_command("change_host", "gpu1", "--ssh", "root@gpu2.example.org")


def test_a_host_is_removed_only_when_nothing_of_ours_is_left(world: World) -> None:
    reservation = world.book(1, 3)
    told = refusal("remove_host", "sim-t4")
    assert f"- booking of {reservation.machine.hostname} by ada, booked, from 2027-03-01 10:00 UTC" in told
    assert f"- machine {reservation.machine.hostname} of ada" in told
    bookings.move(reservation, Status.BOOKED, Status.CANCELLED, now=NOW)
    machines.observed(reservation.machine_id, state=MachineState.OFF, disk_mib=10, now=NOW)
    machines.delete(reservation.machine, by=None, now=NOW)
    assert "disk of the deleted machine" in refusal("remove_host", "sim-t4")
    call_command("remove_host", "sim-t4", "--lost")
    host = Host.objects.get()
    assert (host.enabled, host.removed is not None) == (False, True)
    assert refusal("remove_host", "sim-t4") == "There is no host sim-t4."


def test_a_removed_host_comes_back_as_itself(world: World, there: Answering) -> None:
    before = world.host.gpus.get()
    enforcement.remove_host(world.host, by=world.people.olga, now=NOW)
    with pytest.raises(Refused):
        world.book(1, 3)
    call_command("add_host", "sim-t4", "--ssh", WHERE, "--fingerprint", PRINT)
    host = Host.objects.get()
    assert (host.pk, host.kind, host.removed, host.layout) == (world.host.pk, HostKind.SSH, None, "")
    assert (host.gpus.get().pk, host.pools.count(), host.storage_pools.count()) == (before.pk, 1, 1)
    verbs = Entry.objects.filter(subject=f"host:{host.pk}").order_by("pk").values_list("verb", flat=True)
    assert list(verbs) == ["added", "removed", "added"]


def test_a_look_at_once_is_for_operators(world: World) -> None:
    with pytest.raises(Refused):
        enforcement.ask_look(world.host, by=world.people.ada, now=at(1))


def test_a_host_over_ssh_is_asked_by_hand_with_the_same_words(
    db: None, there: Answering, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(settings, "SSH_DIR", tmp_path)
    started: list[list[str]] = []
    monkeypatch.setattr(os, "execvp", lambda program, words: started.append(words))
    add()
    call_command("vmctl", "gpu1", "gpus")
    assert started[0][0] == "ssh"
    assert started[0][-3:] == ["--", "gpu1.example.org", "gpus"]
    assert "is not asked for over SSH" in refusal("vmctl", "gpu1", "gpus; touch x")
    assert refusal("vmctl", "gpu2", "gpus") == "There is no host gpu2."
