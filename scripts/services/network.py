"""The machines' network: a bridge of our own on a free subnet.  What its machines may reach, vmctl's filter says."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import subprocess
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator

from scripts.instance import Instance
from scripts.services import libvirt
from scripts.terminal import Refusal, say

Network = ipaddress.IPv4Network
# Private ranges to look for a free /24 in; the first is seldom used at its upper end.
RANGES = [
    Network("10.192.0.0/10"),
    Network("172.16.0.0/12"),
    Network("192.168.0.0/16"),
    Network("10.0.0.0/8"),
]


def provide(instance: Instance) -> None:
    """Make the network, or keep the one that an earlier start left (its machines hang on it)."""
    active = libvirt.virsh(instance, "net-list", "--name").stdout.split()
    if instance.network not in active:
        forget_bridge(instance)
        subnet = free_subnet(taken(), instance.name)
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write(xml(instance, subnet))
            file.flush()
            made = libvirt.virsh(instance, "net-create", file.name)
        if made.returncode != 0:
            raise Refusal(f"The machines' network: {made.stderr.strip()}", f"See {instance.logs}/libvirtd.log.")
        say(f"network {instance.network}: bridge {instance.bridge}, {subnet}")


def remove(instance: Instance) -> None:
    """libvirt takes its bridge, dnsmasq and packet filters with it."""
    libvirt.virsh(instance, "net-destroy", instance.network)


def forget_bridge(instance: Instance) -> None:
    """One without its network, of a start that was cut off: libvirt would refuse to make it again."""
    command = ["ip", "link", "delete", "dev", instance.bridge, "type", "bridge"]
    subprocess.run(command, check=False, capture_output=True)  # mostly there is none


def xml(instance: Instance, subnet: Network) -> str:
    """NAT to the outside; ports are isolated, so machines do not reach each other."""
    network = ET.Element("network")
    ET.SubElement(network, "name").text = instance.network
    ET.SubElement(network, "bridge", name=instance.bridge, stp="off", delay="0")
    ET.SubElement(network, "forward", mode="nat")
    ET.SubElement(network, "port", isolated="yes")
    ip = ET.SubElement(network, "ip", address=str(subnet[1]), netmask=str(subnet.netmask))
    dhcp = ET.SubElement(ip, "dhcp")
    ET.SubElement(dhcp, "range", start=str(subnet[10]), end=str(subnet[250]))
    return ET.tostring(network, encoding="unicode")


def taken() -> list[Network]:
    """Every network that this machine has a route to, the default route aside."""
    shown = subprocess.run(
        ["ip", "-json", "-4", "route", "show", "table", "all"], check=True, capture_output=True, text=True
    )
    networks = []
    for route in json.loads(shown.stdout or "[]"):
        if route["dst"] != "default":
            networks.append(Network(route["dst"], strict=False))
    return [network for network in networks if network.prefixlen > 0]


def free_subnet(routes: list[Network], name: str) -> Network:
    """The first free /24, looked for from a place that hangs on the name: two copies seldom begin at the same."""
    for candidate in candidates(name):
        if not any(candidate.overlaps(route) for route in routes):
            return candidate
    raise Refusal("No private network of 256 addresses is free here.", "Look at `ip route show table all`.")


def candidates(name: str) -> Iterator[Network]:
    for whole in RANGES:
        count = 1 << (24 - whole.prefixlen)
        start = int(hashlib.sha256(name.encode()).hexdigest(), 16) % count
        for step in range(count):
            address = int(whole.network_address) + ((start + step) % count) * 256
            yield Network((address, 24))
