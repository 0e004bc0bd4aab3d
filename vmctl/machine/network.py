"""The guest network: which address a machine gets, and the filter it lives behind.  Pure.

The filter's rules are `ip` rules (ebtables on the bridge port), because `tcp`, `udp` and `all` rules act in iptables
and are silently without effect where the kernel does not hand bridged frames to it (br_netfilter not loaded).
"""

import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import IPv4Address, IPv4Network

from vmctl.errors import Code, VmctlError
from vmctl.machine.domain import FILTER, Wiring

BEFORE_ACCEPT = -690
"""clean-traffic drops spoofed addresses at -710 and accepts all other IPv4 at -650: our rules stand between."""


@dataclass(frozen=True)
class GuestNetwork:
    """A libvirt network as its XML tells: the host's own address on it is the guests' gateway."""

    name: str
    gateway: IPv4Address
    subnet: IPv4Network


def read_network(xml: str) -> GuestNetwork:
    """The network of a libvirt XML.  Raises VmctlError when it has no IPv4 subnet."""
    network = ET.fromstring(xml)
    name = network.findtext("name", "")
    for element in network.iterfind("ip"):
        if element.get("family", "ipv4") == "ipv4":
            mask = element.get("netmask") or element.get("prefix", "")
            gateway = element.get("address", "")
            return GuestNetwork(name, IPv4Address(gateway), IPv4Network(f"{gateway}/{mask}", strict=False))
    raise VmctlError(
        Code.FAILED,
        f"The libvirt network {name} has no IPv4 subnet.",
        "Give it an <ip address= netmask=> element.",
    )


def wiring(machine: str, network: GuestNetwork, taken: Iterable[str]) -> Wiring:
    """A place on the network: the same for a machine each time, unless its address was taken meanwhile."""
    digest = sha256(machine.encode()).digest()
    return Wiring(
        network=network.name,
        mac="52:54:00:" + ":".join(f"{byte:02x}" for byte in digest[:3]),
        address=str(_free_address(int.from_bytes(digest[3:8]), network, frozenset(taken))),
        gateway=str(network.gateway),
        subnet=str(network.subnet.network_address),
        netmask=str(network.subnet.netmask),
    )


def _free_address(start: int, network: GuestNetwork, taken: frozenset[str]) -> IPv4Address:
    count = network.subnet.num_addresses - 2  # without the network's own and the broadcast address
    for step in range(count):
        address = network.subnet.network_address + 1 + (start + step) % count
        if address != network.gateway and str(address) not in taken:
            return address
    raise VmctlError(
        Code.NO_CAPACITY,
        f"Every address of {network.subnet} on the network {network.name} is taken.",
        "Wait for a machine to end, or give the network a larger subnet.",
        retry=True,
    )


UUID = "5c0f7d0e-6b1c-5f0e-9d7e-3a7c6e55e2a1"
"""The filter's identity at libvirt, which refuses a second definition of a name under another one."""


def render_filter(host_addresses: Iterable[str], uuid: str = UUID) -> str:
    """The filter of every machine: out to the world, but not to the host itself nor to its neighbours.

    The host's addresses stand in the filter, not in each domain, so that one definition brings all running machines
    up to date when the host gets a new address.
    """
    root = ET.Element("filter", name=FILTER, chain="root")
    ET.SubElement(root, "uuid").text = uuid
    ET.SubElement(root, "filterref", filter="clean-traffic")
    for protocol in ("udp", "tcp"):
        _rule(root, "accept", BEFORE_ACCEPT, dstipaddr="$GATEWAY", protocol=protocol, dstportstart="53")
    forbidden = [("$SUBNET", "$NETMASK"), ("224.0.0.0", "224.0.0.0")]  # neighbours; multicast and broadcast
    forbidden += [(address, "255.255.255.255") for address in sorted(host_addresses)]
    for address, mask in forbidden:
        _rule(root, "drop", BEFORE_ACCEPT + 1, dstipaddr=address, dstipmask=mask)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode") + "\n"


def _rule(root: ET.Element, action: str, priority: int, **match: str) -> None:
    rule = ET.SubElement(root, "rule", action=action, direction="out", priority=str(priority))
    ET.SubElement(rule, "ip", match)


def filter_uuid(xml: str) -> str:
    """The identity that a defined filter has."""
    return ET.fromstring(xml).findtext("uuid", UUID)


def same_filter(ours: str, theirs: str) -> bool:
    """Whether two filters have the same rules, however libvirt writes them."""
    return _rules(ours) == _rules(theirs)


def _rules(xml: str) -> list[tuple[tuple[str, str], ...]]:
    found = []
    for rule in ET.fromstring(xml).iterfind("rule"):
        match = rule.find("ip")
        fields = {key: rule.get(key, "") for key in ("action", "direction", "priority")}
        fields |= dict(match.attrib) if match is not None else {}
        mask = fields.get("dstipmask", "")
        if mask.isdigit():  # libvirt may answer with the prefix length
            fields["dstipmask"] = str(IPv4Network(f"0.0.0.0/{mask}").netmask)
        if fields.get("dstipmask") == "255.255.255.255":
            del fields["dstipmask"]
        found.append(tuple(sorted(fields.items())))
    return sorted(found)
