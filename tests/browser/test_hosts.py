"""The operators' hosts page with a host over SSH: to be read at every width, and its connection tested."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from portal import clock
from portal.enforcement.models import HostState
from portal.host_address import SSHAddress, fingerprint
from portal.inventory import actions as inventory
from portal.inventory.models import Host, HostKind
from tests import make
from tests.browser.conftest import Backstage, OpenPage
from tests.portal.inventory.answering import KEY

CHECKS = Path(__file__).with_name("reading.js").read_text()
TROUBLE = {
    "code": "host_key",
    "what": f"gpu-with-a-long-name.laboratory.example.org shows the host key SHA256:{'b' * 43}, not the pinned one.",
    "remedy": "Compare it with the host's own; only if it is the same: manage.py change_host gpu1 --fingerprint …",
    "retry": False,
}


def far_host() -> Host:
    """A host over SSH with a long name, an older vmctl, and somebody else answering there."""
    now = clock.now()
    ssh = SSHAddress("tessera", "gpu-with-a-long-name.laboratory.example.org", 2222, KEY)
    host = inventory.add_host("gpu1", HostKind.SSH, ssh=ssh, simulated_gpus=True, by=None, now=now)
    inventory.record_inventory(host, {"gpus": [make.gpu_facts("0000:5e:00.0")]}, now)
    HostState.objects.create(host=host, report={"vmctl": "0.0.9"}, last_success=now, last_error=TROUBLE)
    return host


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_a_host_over_ssh_can_be_read(
    width: int, scheme: str, world: make.World, open_page: OpenPage, backstage: Backstage
) -> None:
    backstage(far_host)
    page: Page = open_page(world.people.olga, viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.goto("/hosts")
    page.wait_for_timeout(300)
    assert page.evaluate(CHECKS) == []
    panel = page.get_by_role("region", name="gpu1")
    expect(panel).to_contain_text(f"host key {fingerprint(KEY)}")
    expect(panel).to_contain_text("vmctl there is of release 0.0.9")


def test_the_connection_is_tested_from_the_page(world: make.World, open_page: OpenPage) -> None:
    page = open_page(world.people.olga)
    page.goto("/hosts")
    page.get_by_role("region", name="sim-t4").get_by_role("button", name="Test connection").click()
    expect(page.get_by_text("sim-t4 is being called.")).to_be_visible()
