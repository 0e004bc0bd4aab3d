"""A good host with one file or one answer spoilt: every question is still answered, and never by a traceback."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.vmctl.checks.hosts import ANSWERS, said, seen
from vmctl import checks
from vmctl.checks import CHECKS, Status
from vmctl.host import Host

GARBLED = (b"", b"\xff\xfe\x00\n", b"?\n", b"-1\n", b"{\n", b"= = =\n", b"9" * 4095, b"max_instance=" + b"9" * 12)
OUTPUTS = (
    "",
    "\n",
    "{",
    "[]",
    '{"report": {}}',
    "=\n=\n",
    "maxsessions\nmaxstartups x:y",
    "LoadState=\n",
    "\ufffd" * 9,
)


def answered(host: Host, **answers: object) -> list[checks.Finding]:
    found = checks.examine(seen(host, **answers))
    assert {finding.id for finding in found} == {check.id for check in CHECKS}
    assert all(finding.evidence or finding.status is Status.PASS for finding in found)
    assert all(finding.remedy for finding in found if finding.status in (Status.FAIL, Status.WARN, Status.UNKNOWN))
    return found


def files(host: Host) -> list[Path]:
    return [path for path in sorted(host.root.rglob("*")) if path.is_file() and not path.is_symlink()]


@pytest.mark.parametrize("content", GARBLED)
def test_any_file_may_be_garbled(good: Host, content: bytes) -> None:
    for path in files(good):
        kept = path.read_bytes()
        path.write_bytes(content)
        answered(good)
        path.write_bytes(kept)


@pytest.mark.parametrize("kind", ["missing", "a folder", "a circle"])
def test_any_file_may_be_unreadable(good: Host, kind: str) -> None:
    for path in files(good):
        kept = path.read_bytes()
        path.unlink()
        if kind == "a folder":
            path.mkdir()
        elif kind == "a circle":
            path.symlink_to(path.name)
        answered(good)
        if kind == "a folder":
            shutil.rmtree(path)
        elif os.path.lexists(path):
            path.unlink()
        path.write_bytes(kept)


def test_what_cannot_be_read_is_never_the_ground_of_a_pass(good: Host) -> None:
    """Of files whose text decides: spoilt so that they cannot be read, their question is unknown."""
    deciding = {
        "/sys/module/apparmor/parameters/enabled": "confinement",
        "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "memory.hugepages",
        "/proc/meminfo": "memory.hugepages",
        "/proc/812/limits": "memory.lock_limit",
        "/proc/812/status": "memory.lock_limit",
        "/proc/interrupts": "iommu.remapping",
        "/etc/default/libvirt-guests": "libvirt.shutdown",
    }
    for name, question in deciding.items():
        path = good.path(name)
        kept = path.read_bytes()
        path.unlink()
        path.mkdir()
        found = {finding.id: finding.status for finding in answered(good)}
        assert found[question] is Status.UNKNOWN, name
        path.rmdir()
        path.write_bytes(kept)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("status", [0, 1, 255])
def test_any_command_may_answer_nonsense(good: Host, output: str, status: int) -> None:
    for command in ANSWERS:
        answered(good, **{command: said(output, status, output)})
