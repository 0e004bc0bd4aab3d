"""The checker of what is left sees a leak of every kind: each is planted, and seen as what it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab import leaks
from tests.lab.machine import Lab
from tests.lab.world import MACHINES

UUID = "6b2c1f0e-0000-4000-8000-0000000000aa"
T4, V100, L40S = "0000:04:00.0", "0000:03:02.0", "0000:06:00.0"
PCI = "/sys/bus/pci/devices"
TINY = "<memory unit='MiB'>64</memory><os><type machine='q35'>hvm</type></os>"
BINDING = f"""<filterbinding><owner><name>planted</name><uuid>{UUID}</uuid></owner><portdev name='planted1'/>
<mac address='52:54:00:00:00:aa'/><filterref filter='clean-traffic'/></filterbinding>"""
LEASE = '[{"ip-address": "10.213.7.99", "mac-address": "52:54:00:00:00:aa", "expiry-time": 4000000000}]'
PLANTS = {
    "domain": f"virsh -q define <(echo \"<domain type='kvm'><name>planted</name>{TINY}</domain>\")",
    "QEMU process": "qemu-system-x86_64 -machine none -nodefaults -display none -daemonize",
    "mediated device": f"echo {UUID} >{PCI}/{T4}/mdev_supported_types/nvidia-232/create",
    "type of a function": f"""echo 4 >{PCI}/{L40S}/lab/vfs
        echo 1152 >{PCI}/{L40S}/virtfn0/nvidia/current_vgpu_type""",
    "function on vfio-pci": f"""echo vfio-pci >{PCI}/{V100}/driver_override
        echo {V100} >{PCI}/{V100}/driver/unbind
        echo {V100} >/sys/bus/pci/drivers_probe""",
    "console socket": "mkdir -p /run/tessera/console; touch /run/tessera/console/planted.sock",
    "file of a machine": f"mkdir -p {MACHINES}/planted; touch {MACHINES}/planted/seed.iso",
    "note of a share": f"mkdir -p /var/lib/tessera/state; echo '{{\"{UUID}\": 1}}' >/var/lib/tessera/state/vgpus.json",
    "lease": f"echo '{LEASE}' >/var/lib/libvirt/dnsmasq/tessera.status",
    "interface of a machine": "ip tuntap add planted0 mode tap",
    "filter binding": f'ip tuntap add planted1 mode tap; virsh -q nwfilter-binding-create <(echo "{BINDING}")',
    "file of libvirt": "mkdir /var/lib/libvirt/qemu/domain-9-planted",
    "complaint of the kernel": "echo 'BUG: planted' >/dev/kmsg",
}
COUNTS = {"share": 2, "file of a machine": 2, "interface of a machine": 2}
"""How many lines come of all of these; one where nothing else is said. A device and a type are a share each, a filter
needs an interface, a file a folder, and what is bound to vfio-pci has an override."""


pytestmark = pytest.mark.timeout(1200)  # the first test of all may have to make the lab


@pytest.fixture
def planted(lab: Lab) -> Iterator[Lab]:
    """A lab that is put back after the test, too."""
    yield lab
    lab.reset()


def test_planted_leaks_are_seen_for_what_they_are(planted: Lab) -> None:
    """All at once: a look takes seconds. Each kind sees its own, and no kind sees another's."""
    lab = planted
    before = leaks.look(lab)
    assert leaks.left(before, leaks.look(lab)) == []
    for script in PLANTS.values():
        lab.shell(f"bash -e <<'PLANT'\n{script}\nPLANT")
    after = leaks.look(lab)
    seen = {kind: sorted(after[kind] - before[kind]) for kind in leaks.LOOKS}
    assert {kind: len(lines) for kind, lines in seen.items()} == {kind: COUNTS.get(kind, 1) for kind in leaks.LOOKS}, (
        seen
    )


def test_the_disk_of_a_kept_machine_is_no_leak_and_what_vanished_is_one() -> None:
    none: leaks.Look = {kind: frozenset() for kind in leaks.LOOKS}
    disks = none | {"file of a machine": frozenset({"a", "a/disk.qcow2", "a/seed.iso"})}
    assert leaks.left(none, disks, kept=["a"]) == ["file of a machine is left: a/seed.iso"]
    assert leaks.left(disks, none, kept=["a"])[0] == "file of a machine is gone: a"
