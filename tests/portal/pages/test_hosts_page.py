"""The operators' page about hosts: how each is reached, by which key it is known, and a call at once."""

from typing import Any

import pytest
from django.conf import settings
from django.urls import reverse

from portal import clock
from portal.audit.models import Entry
from portal.enforcement import signals
from portal.enforcement.models import HostState
from portal.host_address import SSHAddress, fingerprint
from portal.inventory import actions as inventory
from portal.inventory.models import Host, HostKind
from tests import make
from tests.portal.inventory.answering import KEY
from tests.portal.pages.conftest import LogIn


def far_host(**report: Any) -> Host:
    ssh = SSHAddress("root", "2001:db8::7", 2222, KEY)
    host = inventory.add_host("gpu1", HostKind.SSH, ssh=ssh, simulated_gpus=True, by=None, now=clock.now())
    HostState.objects.create(host=host, report=report or None, last_success=clock.now())
    return host


def test_it_tells_where_a_host_is_and_by_which_key_it_is_known(world: make.World, logged_in: LogIn) -> None:
    far_host(vmctl=settings.VERSION)
    page = logged_in(world.people.olga).get("/hosts").content.decode()
    assert "over SSH at <code>root@[2001:db8::7]:2222</code>" in page
    assert fingerprint(KEY) in page
    assert "on the portal's own machine" in page  # the other one
    assert 'tag-simulated">simulated</span>' in page
    assert 'tag-simulated">simulated: t4</span>' in page
    assert f"<dt>vmctl</dt><dd>{settings.VERSION}</dd>" in page


def test_a_difference_of_releases_is_told(world: make.World, logged_in: LogIn) -> None:
    far_host(vmctl="0.0.9")
    page = logged_in(world.people.olga).get("/hosts").content.decode()
    assert f"vmctl there is of release 0.0.9, the portal of {settings.VERSION}." in page


def test_a_removed_host_is_not_shown(world: make.World, logged_in: LogIn) -> None:
    host = far_host()
    inventory.remove_host(host, by=None, now=clock.now())
    olga = logged_in(world.people.olga)
    assert "gpu1" not in olga.get("/hosts").content.decode()
    assert olga.post(reverse("enforcement:call", args=["gpu1"])).status_code == 404


@pytest.mark.field("C06")
@pytest.mark.django_db(transaction=True)
def test_the_connection_is_tested_by_the_service_itself(logged_in: LogIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page only sends for a pass; the worker makes it, with the account, keys and known hosts of every other."""
    world = make.world(clock.now())
    sent: list[list[int]] = []
    monkeypatch.setattr(signals.wanted, "send", lambda sender, host_ids: sent.append(list(host_ids)))
    call = reverse("enforcement:call", args=["sim-t4"])
    assert logged_in(world.people.ada).post(call).status_code == 403
    olga = logged_in(world.people.olga)
    assert olga.get(call).status_code == 405
    page = olga.post(call, follow=True).content.decode()
    assert "sim-t4 is being called." in page
    assert sent == [[world.host.pk]]
    assert Entry.objects.filter(verb="called", actor=world.people.olga).count() == 1
