"""What this host's distribution calls things, so that a remedy can be typed as it stands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

from vmctl.host import Host


class Family(StrEnum):
    """Distributions that install and name alike."""

    DEBIAN = "debian"  # Ubuntu and Proxmox too
    RHEL = "rhel"  # Fedora, CentOS, Alma, Rocky, Oracle
    SUSE = "suse"
    OTHER = "other"


MEMBERS = {
    "debian": Family.DEBIAN,
    "ubuntu": Family.DEBIAN,
    "rhel": Family.RHEL,
    "fedora": Family.RHEL,
    "centos": Family.RHEL,
    "suse": Family.SUSE,
    "opensuse": Family.SUSE,
    "sles": Family.SUSE,
}

INSTALL = {Family.DEBIAN: "apt-get install", Family.RHEL: "dnf install", Family.SUSE: "zypper install"}

# Only where the name differs from the tool's.
PACKAGES: Mapping[str, Mapping[Family, str]] = {
    "qemu-img": {Family.DEBIAN: "qemu-utils", Family.RHEL: "qemu-img", Family.SUSE: "qemu-img"},
    "libvirt-daemon": {
        Family.DEBIAN: "libvirt-daemon-system",
        Family.RHEL: "libvirt-daemon-kvm",
        Family.SUSE: "libvirt-daemon-qemu",
    },
    "kernel-headers": {
        Family.DEBIAN: "linux-headers-$(uname -r)",
        Family.RHEL: "kernel-devel-$(uname -r)",
        Family.SUSE: "kernel-default-devel",
    },
}

HOLD = {
    Family.DEBIAN: "apt-mark hold",
    Family.RHEL: "dnf versionlock add",
    Family.SUSE: "zypper addlock",
}


def family(host: Host) -> Family:
    """By os-release: ID first, then ID_LIKE, word by word."""
    told = host.read_or_none(host.path("/etc/os-release")) or host.read_or_none(host.path("/usr/lib/os-release")) or ""
    fields = dict(re.findall(r"""^(ID|ID_LIKE)=["']?([^"'\n]*)""", told, re.MULTILINE))
    for word in f"{fields.get('ID', '')} {fields.get('ID_LIKE', '')}".lower().split():
        found = MEMBERS.get(word) or MEMBERS.get(word.split("-")[0])
        if found is not None:
            return found
    return Family.OTHER


def install(host: Host, *tools: str) -> str:
    """The command that installs what provides these tools, as the end of a sentence."""
    kind = family(host)
    names = " ".join(PACKAGES.get(tool, {}).get(kind, tool) for tool in tools)
    return f"run: {INSTALL[kind]} {names}" if kind in INSTALL else f"install {names} by your distribution's way"


def hold(host: Host, packages: str) -> str:
    """The command that keeps automatic updates away from packages, as a clause."""
    kind = family(host)
    return f"{HOLD[kind]} {packages}" if kind in HOLD else f"a lock on {packages} in your package manager"


def rebuild_initial_disk(host: Host) -> str:
    """The command that puts changed module options into the initial RAM disk."""
    kind = family(host)
    if kind is Family.DEBIAN:
        proxmox = host.path("/etc/kernel/proxmox-boot-uuids").exists()
        return "update-initramfs -u -k all" + (" and proxmox-boot-tool refresh" if proxmox else "")
    if kind in (Family.RHEL, Family.SUSE):
        return "dracut -f"
    return "update-initramfs -u, or dracut -f"
