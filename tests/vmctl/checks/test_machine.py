"""The host as a machine: KVM, memory, disk, clock."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.vmctl.checks.hosts import denied, no_unit, one, said, seen, spoil, unit
from vmctl.checks import Status
from vmctl.checks.look import LVS, systemctl
from vmctl.errors import Code, VmctlError
from vmctl.host import TIME_ERROR, Host
from vmctl.model import Accelerator

NOBODY = "- /proc/812"
COPY = VmctlError(Code.COULD_NOT_TELL, "It is a copy.", "Run vmctl on the host itself.")


@pytest.mark.parametrize(
    ("told", "status"),
    [
        (Accelerator(True, "kvm", "A test machine ran on KVM."), Status.PASS),
        (Accelerator(False, "qemu", "/dev/kvm is there, but a test machine on it hung."), Status.WARN),
        (Accelerator(False, "qemu", "/dev/kvm may not be opened by this user."), Status.UNKNOWN),
        (Accelerator(False, "qemu", "KVM could not be tested: qemu is not there."), Status.UNKNOWN),
        (COPY, Status.UNKNOWN),
    ],
)
def test_kvm_is_judged_by_a_test_machine(good: Host, told: object, status: Status) -> None:
    assert one(seen(good, KVM=told), "kvm.works").status is status


def limits(hard: str) -> str:
    return f"/proc/812/limits = Max locked memory         8388608    {hard}    bytes"


@pytest.mark.parametrize(
    ("changes", "service", "status"),
    [
        ("", unit("libvirtd.service"), Status.PASS),
        ("/proc/812/status = CapEff: 0000000000000000", unit("libvirtd.service"), Status.FAIL),
        (f"{limits('unlimited')}\n/proc/812/status = CapEff: 00", unit("libvirtd.service"), Status.PASS),
        ("/proc/812/status = nothing", unit("libvirtd.service"), Status.UNKNOWN),
        ("/proc/812/limits/ = <dir>", unit("libvirtd.service"), Status.UNKNOWN),
        (NOBODY, unit("libvirtd.service", LimitMEMLOCK="infinity"), Status.PASS),
        (NOBODY, unit("libvirtd.service", LimitMEMLOCK="65536", CapabilityBoundingSet="cap_chown"), Status.FAIL),
        (NOBODY, unit("libvirtd.service", LimitMEMLOCK="1", CapabilityBoundingSet="cap_sys_resource"), Status.PASS),
        (NOBODY, no_unit("libvirtd.service"), Status.UNKNOWN),
        (NOBODY, denied("systemctl"), Status.UNKNOWN),
    ],
)
def test_libvirt_may_lock_a_machines_memory(good: Host, changes: str, service: object, status: Status) -> None:
    spoil(good, changes)
    found = one(seen(good, **{systemctl("libvirtd.service"): service}), "memory.lock_limit")
    assert found.status is status
    assert ("LimitMEMLOCK=infinity" in found.remedy) == (status is Status.FAIL)


def test_limits_of_sessions_are_told_too(good: Host) -> None:
    spoil(good, "/etc/security/limits.d/vm.conf = # memlock\\n* hard  memlock   65536")
    found = one(seen(good), "memory.lock_limit")
    assert [each.said for each in found.evidence][1:] == ["* hard memlock 65536"]


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ("", Status.PASS),
        ("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages = 20000", Status.WARN),
        ("/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages = 8", Status.PASS),
        ("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages = lots", Status.UNKNOWN),
        ("- /sys/kernel/mm/hugepages", Status.UNKNOWN),
        ("/proc/meminfo = nothing", Status.UNKNOWN),
    ],
)
def test_memory_is_left_beside_huge_pages(good: Host, changes: str, status: Status) -> None:
    spoil(good, changes)
    assert one(seen(good), "memory.hugepages").status is status


@pytest.mark.parametrize(
    ("free", "status"),
    [
        (("/x", 2**29), Status.FAIL),
        (("/x", 5 * 2**30), Status.WARN),
        (("/x", 50 * 2**30), Status.PASS),
        (COPY, Status.UNKNOWN),
    ],
)
def test_disk_space_is_judged(good: Host, free: object, status: Status) -> None:
    assert one(seen(good, **{"disk space": free}), "disk").status is status


def pools(*filled: tuple[str, str]) -> object:
    listed = [
        {
            "vg_name": "vg",
            "lv_name": f"lv{number}",
            "lv_attr": "twi-aotz--",
            "data_percent": data,
            "metadata_percent": meta,
        }
        for number, (data, meta) in enumerate(filled)
    ]
    other = {"vg_name": "vg", "lv_name": "root", "lv_attr": "-wi-ao----", "data_percent": "", "metadata_percent": ""}
    return said(json.dumps({"report": [{"lv": [*listed, other]}]}))


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (pools(), Status.NOT_APPLICABLE),
        (pools(("12.5", "3.1")), Status.PASS),
        (pools(("12.5", "3.1"), ("80.01", "")), Status.WARN),
        (pools(("12.5", "96.2")), Status.FAIL),
        (said("", 5, "WARNING: Running as a non-root user."), Status.UNKNOWN),
        (said("{"), Status.UNKNOWN),
        (said('{"report": [{"lv": [{"lv_attr": "t", "data_percent": "x"}]}]}'), Status.UNKNOWN),
        (said('{"report": 7}'), Status.UNKNOWN),
        (denied("lvs"), Status.UNKNOWN),
    ],
)
def test_thin_pools_near_full_are_told(good: Host, answer: object, status: Status) -> None:
    assert one(seen(good, **{LVS: answer}), "storage.thin_pools").status is status


def test_without_lvm_there_are_no_thin_pools(good: Host) -> None:
    spoil(good, "- /usr/sbin/lvs")
    assert one(seen(good, **{LVS: denied("lvs")}), "storage.thin_pools").status is Status.NOT_APPLICABLE


@pytest.mark.parametrize(("state", "status"), [(0, Status.PASS), (TIME_ERROR, Status.WARN), (None, Status.UNKNOWN)])
def test_the_clock_is_judged_by_the_kernel(good: Host, state: int | None, status: Status) -> None:
    assert one(seen(replace(good, clock_state=lambda: state)), "clock").status is status


@pytest.mark.parametrize(("release", "told"), [("ID=ubuntu", "apt-get"), ("ID=rocky\\nID_LIKE=rhel", "dnf")])
def test_what_is_missing_is_installed_as_the_distribution_does(good: Host, release: str, told: str) -> None:
    spoil(good, f"/etc/os-release = {release}")
    found = one(seen(replace(good, clock_state=lambda: TIME_ERROR)), "clock")
    assert f"{told} install chrony" in found.remedy


def test_the_kernel_is_really_asked() -> None:
    assert Host("here").clock_state() in range(6)
