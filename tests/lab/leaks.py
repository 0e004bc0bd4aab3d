"""What is left in a lab, asked by plain shell and none of our code: how it looks now, beside how it looked before."""

from __future__ import annotations

import shlex
from collections.abc import Collection

from tests.lab.machine import Lab
from tests.lab.world import MACHINES

DEVICES, DRIVERS, RUN = "/sys/bus/pci/devices", "/sys/bus/pci/drivers", "/run/tessera"
LOOKS = {
    "domain": "virsh -q list --all --name --uuid",
    "QEMU process": "ps axww -o args= | awk '/^[^ ]*qemu-system/ { print substr($0, 1, 120) }'",
    "mediated device": "ls -1 /sys/bus/mdev/devices",
    "share": f"for card in {DEVICES}/*/lab; do cat $card/vgpus; done",
    "type of a function": f"""
        for file in {DEVICES}/*/nvidia/current_vgpu_type; do
            [ ! -e $file ] || awk '$1 != 0 {{ print FILENAME, $1 }}' $file
        done""",
    "function on vfio-pci": f"find {DRIVERS}/vfio-pci -name '0000:*' -printf '%f\\n'",
    "driver override": f"awk '!/null/ {{ print FILENAME, $0 }}' {DEVICES}/*/driver_override",
    "console socket": f"[ ! -d {RUN}/console ] || ls -A1 {RUN}/console",
    "file of a machine": f"[ ! -d {MACHINES} ] || find {MACHINES} -mindepth 1 -printf '%P\\n'",
    "note of a share": "[ ! -e /var/lib/tessera/state/vgpus.json ] ||"
    " grep -oE '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}' /var/lib/tessera/state/vgpus.json || true",
    "lease": "virsh -q net-dhcp-leases tessera",
    "interface of a machine": "for net in /sys/class/net/*; do [ ! -e $net/tun_flags ] || basename $net; done",
    "filter binding": "virsh -q nwfilter-binding-list",
    "file of libvirt": "find /var/lib/libvirt/qemu /run/libvirt/qemu -name '*domain-*-*' -printf '%p\\n'",
    "complaint of the kernel": "dmesg | grep -E 'BUG:|WARNING:|Oops|general protection|refcount_t|hung_task' || true",
}
"""Each prints a line for everything of its kind; one that cannot be asked fails as a whole."""

Look = dict[str, frozenset[str]]


def look(lab: Lab) -> Look:
    """Everything of every kind. Raises LabError when something could not be asked: that is not "nothing found"."""
    script = "\n".join(f"echo {shlex.quote(f'= {kind}')}\n{asked}" for kind, asked in LOOKS.items())
    found: dict[str, set[str]] = {kind: set() for kind in LOOKS}
    kind = ""
    for line in lab.shell(script, limit=120).splitlines():
        if line.startswith("= "):
            kind = line[2:]
        elif line.strip():
            found[kind].add(line.strip())
    return {kind: frozenset(lines) for kind, lines in found.items()}


def left(before: Look, after: Look, *, kept: Collection[str] = ()) -> list[str]:
    """A line for everything that is there and was not, or the other way round; the disks of `kept` machines may be."""
    disks = {line for machine in kept for line in (machine, f"{machine}/disk.qcow2")}
    lines = []
    for kind in LOOKS:
        lines += [f"{kind} is left: {line}" for line in sorted(after[kind] - before[kind] - disks)]
        lines += [f"{kind} is gone: {line}" for line in sorted(before[kind] - after[kind])]
    return lines
