"""The rest of the host: KVM, libvirt, disk space, clock."""

from __future__ import annotations

import os

from vmctl import kvm
from vmctl.checks.finding import Evidence, Finding, Verdict
from vmctl.errors import VmctlError
from vmctl.host import TIME_ERROR, Host
from vmctl.site import Site

OLDEST_LIBVIRT = (9, 0, 0)  # Debian 12's; older ones were never tried
LOW_GIB = 10
TOO_LOW_GIB = 1


def virtualisation(host: Host) -> Finding:
    """Whether machines run on KVM or are emulated: right either way, but ten times slower."""
    verdict = kvm.accelerator(host)
    evidence = (Evidence("/dev/kvm", verdict.reason),)
    if verdict.kvm:
        return Finding("kvm", Verdict.PASS, evidence)
    again = f"After a change remove {kvm.memory(host)} to test again."
    remedy = f"Switch on VT-x or AMD-V in the firmware (or nesting, in a virtual machine) and load kvm. {again}"
    return Finding("kvm", Verdict.WARN, evidence, remedy)


def libvirt(uri: str, version: tuple[int, int, int] | VmctlError) -> Finding:
    """Whether libvirt answers, and which it is."""
    if isinstance(version, VmctlError):
        return Finding("libvirt", Verdict.FAIL, (Evidence(uri, version.what),), version.remedy)
    evidence = (Evidence(uri, f"libvirt {'.'.join(map(str, version))}"),)
    if version < OLDEST_LIBVIRT:
        oldest = ".".join(map(str, OLDEST_LIBVIRT))
        return Finding("libvirt", Verdict.WARN, evidence, f"Update libvirt to {oldest} or newer.")
    return Finding("libvirt", Verdict.PASS, evidence)


def disk(site: Site) -> Finding:
    """Free space where machines' disks lie; of a folder that is not there yet, where it will be."""
    folder = next(path for path in (site.storage, *site.storage.parents) if path.exists())
    try:
        numbers = os.statvfs(folder)
    except OSError as error:
        seen = (Evidence(str(folder), str(error)),)
        return Finding("disk", Verdict.UNKNOWN, seen, "Let this user look into that folder.")
    free = numbers.f_bavail * numbers.f_frsize / 2**30
    evidence = (Evidence(str(folder), f"{free:.1f} GiB free"),)
    if free >= LOW_GIB:
        return Finding("disk", Verdict.PASS, evidence)
    verdict = Verdict.FAIL if free < TOO_LOW_GIB else Verdict.WARN
    return Finding("disk", verdict, evidence, "Delete disks of machines nobody needs, or enlarge the file system.")


def clock(host: Host) -> Finding:
    """Ends of bookings are times: a clock that nobody sets drifts. Asked of the kernel, whoever sets it."""
    state = host.clock_state()
    if state is None:
        return Finding("clock", Verdict.UNKNOWN, (Evidence("adjtimex", "not to be had"),), "Look at timedatectl.")
    if state == TIME_ERROR:
        seen = (Evidence("adjtimex", "the clock is not synchronised"),)
        return Finding("clock", Verdict.WARN, seen, "Install and start chrony (or systemd-timesyncd).")
    return Finding("clock", Verdict.PASS, (Evidence("adjtimex", "the clock is synchronised"),))
