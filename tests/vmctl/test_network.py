"""Addresses on the guest network, and the filter that every machine lives behind."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vmctl.build import name_uuid
from vmctl.errors import VmctlError
from vmctl.machine import network

XML = "<network><name>tessera</name><ip family='ipv6' address='fd00::1' prefix='64'/>{ip}</network>"
WIDE = network.read_network(XML.format(ip="<ip address='10.7.0.1' netmask='255.255.255.0'/>"))
NARROW = network.read_network(XML.format(ip="<ip address='10.7.0.1' prefix='29'/>"))


def test_a_network_without_ipv4_is_refused() -> None:
    with pytest.raises(VmctlError, match="no IPv4 subnet"):
        network.read_network("<network><name>odd</name></network>")


def test_a_machine_gets_the_same_place_each_time() -> None:
    first = network.wiring(name_uuid("a"), WIDE, ())
    assert first == network.wiring(name_uuid("a"), WIDE, ())
    assert first.mac.startswith("52:54:00:")
    assert (first.gateway, first.subnet, first.netmask) == ("10.7.0.1", "10.7.0.0", "255.255.255.0")


@given(st.sets(st.integers(1, 254)), st.uuids())
def test_an_address_is_free_inside_the_subnet_and_never_the_gateways(taken: set[int], machine: object) -> None:
    busy = {f"10.7.0.{number}" for number in taken}
    if len(busy | {"10.7.0.1"}) == 254:
        return
    address = network.wiring(str(machine), WIDE, busy).address
    assert address not in busy | {"10.7.0.0", "10.7.0.1", "10.7.0.255"}
    assert address.startswith("10.7.0.")


def test_a_full_network_says_so() -> None:
    with pytest.raises(VmctlError, match="is taken"):
        network.wiring(name_uuid("a"), NARROW, {f"10.7.0.{number}" for number in range(1, 7)})


def test_the_filter(golden: Callable[[str, str], None]) -> None:
    golden(network.render_filter({"192.0.2.10", "10.7.0.1", "127.0.0.1"}), "nwfilter.xml")


def test_a_filter_is_the_same_however_libvirt_writes_it() -> None:
    ours = network.render_filter({"192.0.2.10"})
    theirs = ours.replace("255.255.255.255", "32").replace('mask="224.0.0.0"', 'mask="3"')
    assert theirs != ours
    assert network.same_filter(ours, theirs)
    assert not network.same_filter(ours, network.render_filter({"192.0.2.11"}))
    assert not network.same_filter(ours, ours.replace("drop", "accept"))
