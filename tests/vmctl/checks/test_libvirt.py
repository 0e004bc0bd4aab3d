"""libvirt: whether it answers, is new enough, which daemons, and what becomes of machines when the host goes down."""

from __future__ import annotations

import grp
import os

import pytest

from tests.vmctl.checks.hosts import ANSWERS, BUS, GPU, SPLIT, denied, no_unit, one, said, seen, spoil, unit
from tests.vmctl.gpus.trees import function, plant
from vmctl.checks import Status
from vmctl.checks.look import Libvirt, systemctl
from vmctl.errors import Code, VmctlError
from vmctl.host import Host

MONOLITHIC = ("libvirtd.service", "libvirtd.socket")
VF = "0000:3b:00.4"
NO_TYPES = f"- {BUS}/{GPU}/mdev_supported_types"


def vendor_vfio(host: Host) -> None:
    """The card's shares are made by the vendor's VFIO framework."""
    spoil(host, f"{NO_TYPES}\n{BUS}/{GPU}/sriov_totalvfs = 1\n{BUS}/{GPU}/sriov_numvfs = 1")
    table = "ID    : vGPU Name\\n1155  : NVIDIA L40S-24Q"
    links = f"{BUS}/{VF}/physfn -> {BUS}/{GPU}\n{BUS}/{GPU}/virtfn0 -> {BUS}/{VF}\n"
    files = f"{BUS}/{VF}/nvidia/creatable_vgpu_types = {table}\n{BUS}/{VF}/nvidia/current_vgpu_type = 0"
    plant(host.root, function(VF) + links + files)


@pytest.mark.parametrize(
    ("version", "plain", "vendor"),
    [
        ((8, 0, 0), Status.WARN, Status.FAIL),
        ((9, 0, 0), Status.PASS, Status.FAIL),
        ((9, 7, 0), Status.PASS, Status.WARN),
        ((10, 3, 0), Status.PASS, Status.PASS),
    ],
)
def test_a_libvirt_is_new_enough_for_the_cards_that_are_here(
    good: Host, version: tuple[int, int, int], plain: Status, vendor: Status
) -> None:
    assert one(seen(good, libvirt=Libvirt(version)), "libvirt.version").status is plain
    vendor_vfio(good)
    assert one(seen(good, libvirt=Libvirt(version)), "libvirt.version").status is vendor


def test_a_broken_libvirt_keeps_its_own_words(good: Host) -> None:
    error = VmctlError(Code.UNREACHABLE, "libvirt hangs.", "Kick it.")
    found = one(seen(good, libvirt=error), "libvirt.version")
    assert (found.status, found.evidence[0].said, found.remedy) == (Status.FAIL, "libvirt hangs.", "Kick it.")


@pytest.mark.field("H10")
@pytest.mark.field("H11")
def test_a_user_whom_libvirt_refuses_is_told_the_sockets_own_group(good: Host) -> None:
    spoil(good, "/run/libvirt/libvirt-sock = <socket>")
    group = next(each for each in grp.getgrall() if each.gr_gid not in (0, os.getgid()))
    if os.getuid() == 0:
        os.chown(good.path("/run/libvirt/libvirt-sock"), 0, group.gr_gid)
    error = VmctlError(Code.UNREACHABLE, "Failed to connect socket to '…': Permission denied", "Start it.")
    found = one(seen(good, libvirt=error), "libvirt.version")
    assert found.status is Status.UNKNOWN
    assert "as root" in found.remedy
    assert os.getuid() != 0 or f"group {group.gr_name}" in found.remedy


def daemons(good: Host, **answers: object) -> tuple[Status, str]:
    found = one(seen(good, **{systemctl(name): answer for name, answer in answers.items()}), "libvirt.daemons")
    return found.status, found.remedy


IDLE = {"active": "inactive", "sub": "dead", "file": "disabled"}


def all_as(names: tuple[str, ...], there: bool) -> dict[str, object]:
    return {name: unit(name) if there else no_unit(name) for name in names}


@pytest.mark.field("H12")
def test_either_set_of_daemons_passes_and_both_do_not(good: Host) -> None:
    assert daemons(good)[0] is Status.PASS
    split = all_as(MONOLITHIC, False) | all_as(SPLIT, True)
    assert daemons(good, **split)[0] is Status.PASS
    status, remedy = daemons(good, **all_as(SPLIT, True))
    assert status is Status.WARN
    assert "Keep one of them" in remedy


@pytest.mark.field("H12")
def test_a_set_that_is_not_started_fails_with_the_unit_to_start(good: Host) -> None:
    asleep: dict[str, object] = {name: unit(name, **IDLE) for name in SPLIT}
    assert daemons(good, **all_as(MONOLITHIC, False), **asleep) == (
        Status.FAIL,
        "Run: systemctl enable --now virtqemud.socket",
    )


def test_a_daemon_that_systemd_has_given_up_on_is_named_with_the_way_back(good: Host) -> None:
    """Enabled it is, but no socket waits for anybody (seen after six kills within ten seconds)."""
    ended: dict[str, object] = {name: unit(name, active="failed", sub="failed") for name in MONOLITHIC}
    status, remedy = daemons(good, **ended)
    names = "libvirtd.service libvirtd.socket"
    assert (status, remedy.partition("Run: ")[2]) == (
        Status.FAIL,
        f"systemctl reset-failed {names}; systemctl start {names}",
    )


def test_a_failed_daemon_that_is_out_of_use_is_nobodys_trouble(good: Host) -> None:
    """Whoever went over to the split daemons must not be told to start the other one beside them."""
    ended: dict[str, object] = {"libvirtd.service": unit("libvirtd.service", active="failed", file="disabled")}
    asleep: dict[str, object] = {"libvirtd.socket": unit("libvirtd.socket", **IDLE)}
    assert daemons(good, **all_as(SPLIT, True), **ended, **asleep)[0] is Status.PASS


def test_mediated_devices_need_the_daemon_of_nodes(good: Host) -> None:
    nodes = {name: no_unit(name) for name in SPLIT if "node" in name}
    answers = all_as(MONOLITHIC, False) | all_as(SPLIT, True) | nodes
    assert "virtnodedevd.socket" in daemons(good, **answers)[1]
    spoil(good, NO_TYPES)
    assert daemons(good, **answers)[0] is Status.PASS


def test_without_any_libvirt_it_is_installed(good: Host) -> None:
    assert "libvirt-daemon-system" in daemons(good, **all_as(MONOLITHIC, False))[1]


@pytest.mark.parametrize("answer", [said("", 1, "System has not been booted with systemd"), denied("systemctl")])
def test_a_silent_systemd_is_unknown(good: Host, answer: object) -> None:
    silent = {name: answer for name in ANSWERS if name.startswith("systemctl")}
    look = seen(good, **silent)
    found = [one(look, name) for name in ("libvirt.daemons", "libvirt.shutdown", "vgpu.manager")]
    assert {finding.status for finding in found} == {Status.UNKNOWN}


GUESTS = "/etc/default/libvirt-guests"


@pytest.mark.field("A18")
@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ("", Status.PASS),
        (f"{GUESTS} = ON_BOOT=ignore\\nON_SHUTDOWN='suspend'", Status.FAIL),
        (f"{GUESTS} = #ON_SHUTDOWN=shutdown", Status.FAIL),  # the default is suspend
        (f"- {GUESTS}\n/etc/sysconfig/libvirt-guests = ON_SHUTDOWN=shutdown", Status.PASS),
        (f"- {GUESTS}", Status.FAIL),
        (f"{GUESTS}/ = <dir>", Status.UNKNOWN),
        (f"- {BUS}/{GPU}", Status.NOT_APPLICABLE),
    ],
)
def test_machines_with_devices_are_never_suspended(good: Host, changes: str, status: Status) -> None:
    spoil(good, changes)
    found = one(seen(good, {}), "libvirt.shutdown")
    assert found.status is status
    assert ("ON_SHUTDOWN=shutdown" in found.remedy) == (status is Status.FAIL)


def test_nobody_who_shuts_machines_down_is_a_warning(good: Host) -> None:
    idle = unit("libvirt-guests.service", active="inactive", sub="dead", file="disabled")
    assert one(seen(good, **{systemctl("libvirt-guests.service"): idle}), "libvirt.shutdown").status is Status.WARN
