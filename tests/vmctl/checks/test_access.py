"""Confinement, sshd's limits, and tools."""

from __future__ import annotations

import pytest

from tests.vmctl.checks.hosts import BUS, GPU, denied, one, said, seen, spoil
from vmctl.checks import Status
from vmctl.checks.look import SMI, SSHD
from vmctl.commands import Missing, TooSlow
from vmctl.errors import Code
from vmctl.host import Host

MISSING = Missing(Code.COULD_NOT_TELL, "The command is not there.", "Install it.")
HUNG = TooSlow(Code.FAILED, "It gave no answer in 4 s.", "Look at it.")
REFUSED = 'audit: apparmor="DENIED" operation="open" profile="libvirt-1234" name="/dev/nvidia0"'
SELINUX_REFUSED = 'avc:  denied  { read } for comm="qemu-kvm" scontext=system_u:system_r:svirt_t:s0'


@pytest.mark.parametrize(
    ("changes", "log", "status"),
    [
        ("", said("[1.0] fine\n"), Status.PASS),
        ("", said(f"[1.0] {REFUSED}\n"), Status.WARN),
        ("", said("", 1, "dmesg: read kernel buffer failed: Operation not permitted"), Status.UNKNOWN),
        ("", denied("dmesg"), Status.UNKNOWN),
        ("/sys/module/apparmor/parameters/enabled = N", denied("dmesg"), Status.PASS),
        ("/sys/fs/selinux/enforce = 1", said(f"[1.0] {SELINUX_REFUSED}\n"), Status.WARN),
        ("/sys/module/apparmor/parameters/enabled/ = <dir>", said(), Status.UNKNOWN),
    ],
)
def test_refusals_of_the_walls_are_told(good: Host, changes: str, log: object, status: Status) -> None:
    spoil(good, changes)
    assert one(seen(good, dmesg=log), "confinement").status is status


@pytest.mark.parametrize(
    ("changes", "answer", "status"),
    [
        ("", said("maxsessions 60\nmaxstartups 60:30:120\n"), Status.PASS),
        ("", said("maxsessions 10\nmaxstartups 10:30:100\n"), Status.WARN),
        ("", said("maxsessions 60\nmaxstartups 10:30:100\n"), Status.WARN),
        ("", said("", 255, "sshd: no hostkeys available -- exiting."), Status.WARN),  # its files: the defaults
        ("/etc/ssh/sshd_config = MaxSessions 60\\nMaxStartups=60:30:120", denied("sshd"), Status.PASS),
        ("/etc/ssh/sshd_config.d/t.conf = MaxSessions 60\\nMaxStartups 60", denied("sshd"), Status.PASS),
        ("/etc/ssh/sshd_config = Match User x\\nMaxSessions 60\\nMaxStartups 60", denied("sshd"), Status.WARN),
        ("/etc/ssh/sshd_config = MaxSessions 60\\nMaxSessions 10\\nMaxStartups 60", denied("sshd"), Status.PASS),
        ("/etc/ssh/sshd_config/ = <dir>", denied("sshd"), Status.UNKNOWN),
        ("- /etc/ssh/sshd_config\n/usr/sbin/sshd = <binary>", denied("sshd"), Status.UNKNOWN),
        ("- /etc/ssh/sshd_config", MISSING, Status.NOT_APPLICABLE),
    ],
)
def test_a_class_gets_its_sessions(good: Host, changes: str, answer: object, status: Status) -> None:
    spoil(good, changes)
    found = one(seen(good, **{SSHD: answer}), "sshd.limits")
    assert found.status is status
    assert ("MaxSessions 60" in found.remedy) == (status is Status.WARN)


VFS = f"{BUS}/{GPU}/sriov_totalvfs = 16\n{BUS}/{GPU}/sriov_numvfs = 16"


@pytest.mark.field("H07")
@pytest.mark.parametrize(
    ("changes", "answers", "status", "told"),
    [
        ("", {}, Status.PASS, ""),
        ("", {"mdevctl --version": MISSING}, Status.WARN, "apt-get install mdevctl"),
        ("", {"qemu-img --version": MISSING}, Status.FAIL, "apt-get install qemu-utils"),
        ("/etc/os-release = ID=rhel", {"qemu-img --version": MISSING}, Status.FAIL, "dnf install qemu-img"),
        ("/usr/sbin/mdevctl = <binary>", {"mdevctl --version": MISSING}, Status.PASS, ""),  # not in a user's path
        ("", {"mdevctl --version": denied("mdevctl")}, Status.UNKNOWN, ""),
        ("", {SMI: MISSING}, Status.FAIL, "brings nvidia-smi"),
        ("", {SMI: HUNG}, Status.PASS, ""),  # it is there; that it hangs is another finding
        (VFS, {}, Status.FAIL, "brings sriov-manage"),
        (f"{VFS}\n/usr/lib/nvidia/sriov-manage = <tool>", {}, Status.PASS, ""),
    ],
)
def test_tools_are_missed_before_a_user_meets_it(
    good: Host, changes: str, answers: dict[str, object], status: Status, told: str
) -> None:
    spoil(good, changes)
    found = one(seen(good, **answers), "tools.present")
    assert found.status is status
    assert told in found.remedy


def test_without_mediated_devices_nobody_needs_mdevctl(good: Host) -> None:
    spoil(good, f"- {BUS}/{GPU}/mdev_supported_types")
    assert one(seen(good, **{"mdevctl --version": MISSING}), "tools.present").status is Status.PASS
