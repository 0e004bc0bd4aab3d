"""How a card is set: screen outputs, virtual functions, changes that wait for a reset."""

from __future__ import annotations

import pytest

from tests.vmctl.checks.hosts import BUS, GPU, GROUPS, denied, one, said, seen, spoil
from tests.vmctl.gpus.trees import function, plant
from vmctl.card import Mode, Unknown
from vmctl.checks import Status
from vmctl.gpus.driver.answers import DriverFacts
from vmctl.host import Host

CARD = f"{BUS}/{GPU}"
NO_TYPES = f"- {CARD}/mdev_supported_types"
A6000 = f"{CARD}/device = 0x2230\n{CARD}/class = 0x030000"
VF = f"{CARD}/virtfn0 -> {BUS}/0000:3b:00.4"
FLOOD = f"[   1.0] nvidia {GPU}: not enough MMIO resources for SR-IOV\n"


@pytest.mark.parametrize(
    ("changes", "status", "told"),
    [
        ("", Status.PASS, ""),
        (f"{NO_TYPES}\n{A6000}", Status.FAIL, "displaymodeselector"),
        (A6000, Status.PASS, ""),  # it offers types: somebody has switched it already
        (f"{NO_TYPES}\n{A6000}\n{CARD}/class = 0x030200", Status.PASS, ""),
        (f"{CARD}/boot_vga = 1", Status.FAIL, "board's own graphics"),
        (f"{CARD}/boot_vga = 0", Status.PASS, ""),
        (f"{CARD}/vendor = 0x8086\n{CARD}/driver -> /sys/bus/pci/drivers/i915", Status.NOT_APPLICABLE, ""),
        (f"{CARD}/boot_vga/ = <dir>", Status.UNKNOWN, ""),
    ],
)
def test_screen_outputs_are_off(good: Host, changes: str, status: Status, told: str) -> None:
    spoil(good, changes)
    found = one(seen(good), "display.mode", GPU)
    assert found.status is status
    assert told in found.remedy


def test_the_hosts_own_screen_beside_a_card_for_vgpus_is_a_warning(good: Host) -> None:
    own = "0000:02:00.0"
    plant(good.root, function(own, **{"class": "0x030000"}))
    spoil(good, f"{BUS}/{own}/boot_vga = 1")
    look = seen(good)
    assert one(look, "display.mode", own).status is Status.WARN
    assert one(look, "vgpu.types", own).status is Status.NOT_APPLICABLE
    assert one(look, "vgpu.types", GPU).status is Status.PASS


def test_a_card_that_only_goes_whole_is_a_warning_beside_one_that_is_cut(good: Host) -> None:
    whole = "0000:65:00.0"
    links = f"{BUS}/{whole}/iommu_group -> {GROUPS}/9\n{GROUPS}/9/devices/{whole} -> {BUS}/{whole}"
    plant(good.root, function(whole) + links)
    assert one(seen(good), "vgpu.types", whole).status is Status.WARN
    neighbour = "0000:66:00.0"  # on a driver of its own, so that the card cannot be given away: no fault of the card's
    links = f"{BUS}/{neighbour}/iommu_group -> {GROUPS}/9\n{GROUPS}/9/devices/{neighbour} -> {BUS}/{neighbour}"
    plant(good.root, function(neighbour, vendor="0x8086", driver="e1000", **{"class": "0x020000"}) + links)
    assert one(seen(good), "vgpu.types", whole).status is Status.WARN


@pytest.mark.parametrize(
    ("changes", "log", "status"),
    [
        ("", said(), Status.NOT_APPLICABLE),
        (f"{CARD}/sriov_totalvfs = 0", said(), Status.FAIL),
        (f"{CARD}/sriov_totalvfs = 32", said(), Status.PASS),
        (f"{CARD}/sriov_totalvfs = 32", said(FLOOD), Status.FAIL),
        (f"{CARD}/sriov_totalvfs = 32", said(FLOOD.replace(GPU, "0000:af:00.0")), Status.PASS),
        (f"{CARD}/sriov_totalvfs = 32", denied("dmesg"), Status.PASS),
        (f"{CARD}/sriov_totalvfs = many", said(), Status.UNKNOWN),
        (f"{CARD}/sriov_totalvfs/ = <dir>", said(), Status.UNKNOWN),
    ],
)
def test_the_firmware_left_room(good: Host, changes: str, log: object, status: Status) -> None:
    spoil(good, changes)
    found = one(seen(good, dmesg=log), "sriov.firmware", GPU)
    assert found.status is status
    assert ("above 4G" in found.remedy) == (status is Status.FAIL)


@pytest.mark.field("A05")
@pytest.mark.parametrize(
    ("changes", "status", "told"),
    [
        ("", Status.NOT_APPLICABLE, ""),
        (f"{CARD}/sriov_totalvfs = 1\n{CARD}/sriov_numvfs = 1\n{VF}", Status.PASS, ""),
        (f"{CARD}/sriov_totalvfs = 16\n{CARD}/sriov_numvfs = 16", Status.UNKNOWN, ""),  # and none of them to be seen
        (f"{CARD}/sriov_totalvfs = 16\n{CARD}/sriov_numvfs = 0", Status.WARN, f"echo 16 > {CARD}/sriov_numvfs"),
        (
            f"{CARD}/sriov_totalvfs = 16\n{CARD}/sriov_numvfs = 0\n/usr/lib/nvidia/sriov-manage = <tool>",
            Status.WARN,
            f"sriov-manage -e {GPU}",
        ),
        (f"{CARD}/sriov_totalvfs = 16\n{CARD}/sriov_numvfs = ?", Status.UNKNOWN, ""),
        (
            f"{CARD}/sriov_totalvfs = 16\n{CARD}/sriov_numvfs = 0\n{CARD}/driver -> /sys/bus/pci/drivers/vfio-pci",
            Status.NOT_APPLICABLE,
            "",
        ),
    ],
)
def test_virtual_functions_that_are_off_are_told_with_the_command(
    good: Host, changes: str, status: Status, told: str
) -> None:
    spoil(good, changes)
    found = one(seen(good), "sriov.enabled", GPU)
    assert found.status is status
    assert told in found.remedy


def test_functions_are_not_to_be_turned_on_while_mig_is_pending(good: Host) -> None:
    spoil(good, f"{CARD}/sriov_totalvfs = 16\n{CARD}/sriov_numvfs = 0")
    found = one(seen(good, {GPU: switched("mig", False, True)}), "sriov.enabled", GPU)
    assert (found.status, "reboot the host" in found.remedy, "echo" in found.remedy) == (Status.WARN, True, False)


def switched(name: str, now: bool, after: bool) -> DriverFacts:
    mode = Mode(now, after)
    return DriverFacts(mig=mode) if name == "mig" else DriverFacts(ecc=mode)


@pytest.mark.field("A19")
@pytest.mark.parametrize(("name", "worst"), [("mig", Status.FAIL), ("ecc", Status.WARN)])
def test_a_change_that_waits_for_a_reset_is_told(good: Host, name: str, worst: Status) -> None:
    facts = {
        Status.PASS: switched(name, True, True),
        worst: switched(name, False, True),
        Status.UNKNOWN: DriverFacts(unknown=(Unknown(name, "nvidia-smi hangs."),)),
        Status.NOT_APPLICABLE: DriverFacts(),
    }
    for status, told in facts.items():
        assert one(seen(good, {GPU: told}), f"{name}.pending", GPU).status is status


@pytest.mark.parametrize(
    ("start", "status"), [(b"\xde\x10\xb8\x1e\x06", Status.PASS), (b"\xff" * 64, Status.FAIL), (b"", Status.UNKNOWN)]
)
def test_a_card_answers_on_its_bus(good: Host, start: bytes, status: Status) -> None:
    good.path(f"{CARD}/config").write_bytes(start)
    found = one(seen(good), "card.on_bus", GPU)
    assert found.status is status
    assert ("Reboot the host" in found.remedy) == (status is Status.FAIL)


def test_a_copied_card_has_no_bus(good: Host) -> None:
    assert one(seen(good), "card.on_bus", GPU).status is Status.NOT_APPLICABLE
