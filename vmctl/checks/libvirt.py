"""libvirt on this host: whether it answers, whether it is new enough, which of its daemons, what it does at the end."""

from __future__ import annotations

import grp
import re

from vmctl.card import Framework
from vmctl.checks import distribution, units
from vmctl.checks.finding import Evidence, Verdict, failed, not_applicable, passed, unknown, warned
from vmctl.checks.look import LIBVIRT_UNITS, Look
from vmctl.errors import VmctlError
from vmctl.machine.launch import VENDOR_VFIO_SINCE
from vmctl.machine.picture import FUNCTIONS_SINCE

Version = tuple[int, int, int]
OLDEST: Version = (9, 0, 0)  # Debian 12's; older ones were never tried
SOCKETS = ("/run/libvirt/libvirt-sock", "/run/libvirt/virtqemud-sock")
GUESTS = ("/etc/default/libvirt-guests", "/etc/sysconfig/libvirt-guests")
REFUSED = re.compile(r"permission denied|authentication|access denied|polkit", re.IGNORECASE)


def version(look: Look) -> Verdict:
    """Whether it answers, and is new enough for the cards that are here."""
    uri = look.site.libvirt_uri
    try:
        found = look.libvirt.version
    except VmctlError as error:
        if REFUSED.search(error.what):
            return unknown(_let_in(look), (uri, error.what))
        if error.code == "could_not_tell":
            raise
        return failed(error.remedy, (uri, error.what))
    evidence = [Evidence(uri, f"libvirt {_text(found)}")]
    vendor = [gpu.address for gpu in look.gpus if gpu.framework is Framework.VENDOR_VFIO]
    evidence += [Evidence(address, "shares by the vendor's VFIO framework") for address in vendor]
    if vendor and found < VENDOR_VFIO_SINCE:
        remedy = f"Update libvirt to {_text(VENDOR_VFIO_SINCE)} or newer: older ones refuse these shares."
        return failed(remedy, *evidence)
    if found < OLDEST:
        return warned(f"Update libvirt to {_text(OLDEST)} or newer.", *evidence)
    if vendor and found < FUNCTIONS_SINCE:
        remedy = f"Update libvirt to {_text(FUNCTIONS_SINCE)} or newer for a vGPU's picture"
        return warned(f"{remedy}; until then the boot console stays.", *evidence)
    return passed(*evidence)


def _text(found: Version) -> str:
    return ".".join(map(str, found))


def _let_in(look: Look) -> str:
    """By the group of the socket itself: its name is not the same everywhere (field log H11)."""
    for name in SOCKETS:
        try:
            group = grp.getgrgid(look.host.path(name).stat().st_gid).gr_name
        except (OSError, KeyError):
            continue
        if group != "root":
            return f"Run vmctl check as root, or put this user into the group {group} and start its services anew."
    return "Run vmctl check as root, or as a user whom libvirt lets in."


def daemons(look: Look) -> Verdict:
    """One daemon for all, or one for each part; both at once work until the next boot (field log H12)."""
    found = {name: units.unit(look, name) for name in LIBVIRT_UNITS}
    there = {name: each for name, each in found.items() if units.is_there(each)}
    evidence = [Evidence(name, units.told(each)) for name, each in there.items()]
    if not there:
        install = distribution.install(look.host, "libvirt-daemon")
        return failed(f"Install libvirt: {install}.", ("systemctl", f"none of {', '.join(LIBVIRT_UNITS)}"))
    awake = {name.split(".")[0] for name, each in there.items() if units.is_active(each) or units.is_enabled(each)}
    if {"libvirtd", "virtqemud"} <= awake:
        remedy = "Keep one of them: systemctl disable --now libvirtd.service libvirtd.socket, or the same of virtqemud."
        return warned(f"{remedy} Running machines go on.", *evidence)
    used = (name for name in there if name.split(".")[0] in awake)
    failed_ones = " ".join(name for name in used if units.has_failed(there[name]))
    if failed_ones:
        why = f"systemd has given up on it; journalctl -u {failed_ones.split()[0]} tells why. Machines run on."
        start = f"systemctl reset-failed {failed_ones}; systemctl start {failed_ones}"
        return failed(f"{why} Run: {start}", *evidence)
    if not awake & {"libvirtd", "virtqemud"}:
        unit = "virtqemud.socket" if "virtqemud.socket" in there else "libvirtd.socket"
        return failed(f"Run: systemctl enable --now {unit}", *evidence)
    mediated = any(gpu.framework in (Framework.MDEV_PF, Framework.MDEV_VF) for gpu in look.gpus)
    if mediated and "virtqemud" in awake and "virtnodedevd" not in awake:
        return warned("Mediated devices need it: systemctl enable --now virtnodedevd.socket", *evidence)
    return passed(*evidence)


def shutdown(look: Look) -> Verdict:
    """A machine with a device cannot be suspended: at the host's end it must be shut down (field log A18)."""
    if not look.gpus:
        return not_applicable(("/sys/bus/pci/devices", "no GPU"))
    unit = units.unit(look, "libvirt-guests.service")
    seen = Evidence("libvirt-guests.service", units.told(unit))
    remedy = "Put ON_SHUTDOWN=shutdown and SHUTDOWN_TIMEOUT=120 into it and run: systemctl enable --now libvirt-guests"
    if not units.is_there(unit) or not (units.is_enabled(unit) or units.is_active(unit)):
        return warned(f"Nobody shuts machines down with the host, and licences stay taken. {GUESTS[0]}: {remedy}", seen)
    source = next((name for name in GUESTS if look.there(name)), None)
    said = re.findall(r"""^\s*ON_SHUTDOWN=["']?(\w*)""", look.text(source) or "" if source else "", re.MULTILINE)
    action = said[-1] if said and said[-1] else "suspend"
    evidence = (seen, Evidence(source or GUESTS[0], action if said else "not set, which means suspend"))
    return passed(*evidence) if action == "shutdown" else failed(f"{source or GUESTS[0]}: {remedy}", *evidence)
