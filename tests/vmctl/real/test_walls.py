"""What keeps guests apart, away from the host, and honest, tried with real frames.

A machine's own port is looked at, and a network namespace is put behind the same filter on the same bridge, so that a
whole Linux can try what a guest could. Each refusal has its control: the same try gets through without the filter.
"""

from __future__ import annotations

import socket
import subprocess
import threading
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.vmctl.real.place import Place, virsh
from vmctl.machine.domain import FILTER

OUTSIDE, HOST_OUTSIDE = "198.51.100.2", "198.51.100.1"
SECONDS = 1.0

TALK = """
import socket, sys
try:
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), float(sys.argv[3])) as link:
        sys.exit(0 if len(sys.argv) > 4 or link.recv(2) == b"ok" else 1)
except OSError:
    sys.exit(1)
"""

SERVE = """
import socket
with socket.create_server(("0.0.0.0", 7)) as server:
    print("ready", flush=True)
    while True:
        link, _ = server.accept()
        link.sendall(b"ok")
        link.close()
"""

SHOUT = """
import socket, sys
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
    wire.bind(("guest", 0))
    mac = bytes.fromhex(sys.argv[1].replace(":", ""))
    me, you = (socket.inet_aton(word) for word in sys.argv[2:4])
    arp = bytes.fromhex("0001 0800 06 04 0001") + mac + me + bytes(6) + you
    for _ in range(3):
        wire.send(b"\\xff" * 6 + mac + b"\\x08\\x06" + arp.ljust(46, b"\\0"))
"""

LISTEN = """
import socket, sys
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as wire:
    wire.bind(("guest", 0))
    wire.settimeout(3)
    print("ready", flush=True)
    try:
        while bytes.fromhex(sys.argv[1].replace(":", "")) != wire.recv(2000)[6:12]:
            pass
        print("heard")
    except TimeoutError:
        print("silence")
"""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=20)


@dataclass
class Namespace:
    """A Linux of its own with one network card called `guest`."""

    name: str
    address: str
    mac: str

    def python(self, program: str, *words: str) -> subprocess.Popen[str]:
        command = ["ip", "netns", "exec", self.name, "python3", "-c", program, *words]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def reaches(self, address: str, port: int) -> bool:
        return self.python(TALK, address, str(port), str(SECONDS)).wait(20) == 0

    def opens(self, address: str, port: int) -> bool:
        """Whether somebody takes the call, whatever they say then."""
        return self.python(TALK, address, str(port), str(SECONDS), "silent").wait(20) == 0

    def set(self, *words: str) -> None:
        ip("-n", self.name, *words)


@contextmanager
def namespace(name: str, port: str, address: str, mac: str, gateway: str) -> Iterator[Namespace]:
    """A namespace whose card's other end is the host's `port`; guest and port may share a name."""
    ip("netns", "add", name)
    try:
        ip("link", "add", port, "type", "veth", "peer", "name", "guest", "netns", name)
        found = Namespace(name, address, mac)
        found.set("link", "set", "guest", "address", mac, "up")
        found.set("address", "add", f"{address}/24", "dev", "guest")
        found.set("route", "add", "default", "via", gateway)
        ip("link", "set", port, "up")
        yield found
    finally:
        ip("netns", "del", name)


@contextmanager
def served(address: str, port: int = 0) -> Iterator[int]:
    """A service of the host that says "ok"."""
    with socket.create_server((address, port)) as server:

        def answer() -> None:
            while True:
                try:
                    link, _ = server.accept()
                except OSError:
                    return
                with link:
                    link.sendall(b"ok")

        threading.Thread(target=answer, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


@contextmanager
def behind_the_filter(port: str, guest: Namespace, example: ET.Element) -> Iterator[None]:
    """Put a port behind the filter with the parameters of a machine's own, but this guest's address."""
    binding = ET.Element("filterbinding")
    owner = ET.SubElement(binding, "owner")
    ET.SubElement(owner, "name").text = guest.name
    ET.SubElement(owner, "uuid").text = "0f6df715-cb5e-5be7-844a-06bad1b4e576"
    ET.SubElement(binding, "portdev", name=port)
    ET.SubElement(binding, "mac", address=guest.mac)
    binding.append(example)
    for parameter in example.iterfind("parameter[@name='IP']"):
        parameter.set("value", guest.address)
    path = Path(f"/tmp/{guest.name}.xml")
    path.write_text(ET.tostring(binding, encoding="unicode"))
    try:
        virsh("nwfilter-binding-create", str(path))
        yield
    finally:
        path.unlink()
        virsh("nwfilter-binding-delete", port)


@dataclass
class Street:
    """A machine's port, two guests on its bridge, a world outside, and a service of the host."""

    machine_port: str
    filter: ET.Element
    gateway: str
    here: Namespace
    there: Namespace
    service: int


@pytest.fixture
def street(place: Place) -> Iterator[Street]:
    tag = place.tag
    with ExitStack() as stack:
        _world(stack, f"o{tag}")
        place.settle(place.machine("a"))  # the host has its address in that world now, so the filter names it
        interface = place.xml("a").find("devices/interface")
        assert interface is not None
        filtered = interface.find("filterref")
        assert filtered is not None
        facts = {each.get("name"): each.get("value", "") for each in filtered}
        guests = []
        for number, name in ((251, f"h{tag}"), (252, f"t{tag}")):
            address = f"{facts['SUBNET'].rsplit('.', 1)[0]}.{number}"
            mac = f"52:54:00:00:00:{number - 250:02x}"
            guests.append(stack.enter_context(namespace(name, name, address, mac, facts["GATEWAY"])))
            ip("link", "set", name, "master", attribute(interface, "source", "bridge"))
        yield Street(
            machine_port=attribute(interface, "target", "dev"),
            filter=filtered,
            gateway=facts["GATEWAY"],
            here=guests[0],
            there=guests[1],
            service=stack.enter_context(served("0.0.0.0")),
        )


def _world(stack: ExitStack, name: str) -> None:
    """Somebody outside who answers on port 7, and the host's address on the way there."""
    ip("netns", "add", name)
    stack.callback(ip, "netns", "del", name)
    ip("link", "add", name, "type", "veth", "peer", "name", "guest", "netns", name)
    ip("address", "add", f"{HOST_OUTSIDE}/30", "dev", name)
    ip("link", "set", name, "up")
    world = Namespace(name, OUTSIDE, "")
    world.set("address", "add", f"{OUTSIDE}/30", "dev", "guest")
    world.set("link", "set", "guest", "up")
    world.set("route", "add", "default", "via", HOST_OUTSIDE)
    server = world.python(SERVE)
    stack.callback(server.wait)
    stack.callback(server.kill)
    assert server.stdout is not None
    assert server.stdout.readline() == "ready\n"


def attribute(parent: ET.Element, tag: str, name: str) -> str:
    found = parent.find(tag)
    assert found is not None
    return found.attrib[name]


def heard(speaker: Namespace, listener: Namespace) -> bool:
    """Whether one guest's broadcast comes to the other."""
    ear = listener.python(LISTEN, speaker.mac)
    assert ear.stdout is not None
    assert ear.stdout.readline() == "ready\n"
    assert speaker.python(SHOUT, speaker.mac, speaker.address, listener.address).wait(10) == 0
    return ear.communicate(timeout=20)[0].strip() == "heard"


def test_guests_are_apart_from_each_other_and_from_the_host_but_reach_the_world(street: Street) -> None:
    here, there = street.here, street.there
    port = Path("/sys/class/net") / street.machine_port / "brport/isolated"
    assert port.read_text().strip() == "1"
    assert f"{street.machine_port} {FILTER}" in " ".join(virsh("nwfilter-binding-list").split())

    assert here.reaches(street.gateway, street.service)  # the controls: nothing stands in the way yet
    assert here.reaches(HOST_OUTSIDE, street.service)
    assert here.reaches(OUTSIDE, 7)
    assert heard(here, there)
    for each in (here.name, there.name):
        subprocess.run(["bridge", "link", "set", "dev", each, "isolated", "on"], check=True, timeout=20)
    assert not heard(here, there)

    with behind_the_filter(here.name, here, street.filter):
        assert here.reaches(OUTSIDE, 7)
        assert here.opens(street.gateway, 53)
        assert not here.reaches(street.gateway, street.service)
        assert not here.reaches(HOST_OUTSIDE, street.service)
        assert not here.reaches(there.address, 7)

        here.set("address", "add", f"{there.address}/32", "dev", "guest")
        here.set("route", "change", "default", "via", street.gateway, "src", there.address)
        assert not here.reaches(OUTSIDE, 7), "a foreign address got out"
        here.set("route", "change", "default", "via", street.gateway, "src", here.address)
        assert here.reaches(OUTSIDE, 7)
        here.set("link", "set", "guest", "address", "52:54:00:00:00:99")
        here.set("route", "replace", "default", "via", street.gateway, "src", here.address)
        assert not here.reaches(OUTSIDE, 7), "a foreign card got out"
