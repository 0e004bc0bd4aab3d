"""The IOMMU: judged by what the kernel shows, and never by one indirect sign."""

from __future__ import annotations

import pytest

from tests.vmctl.checks.hosts import AMD, BRIDGE, BUS, GPU, GROUPS, GUEST, denied, one, seen, spoil
from tests.vmctl.gpus.trees import function, plant
from vmctl.checks import Finding, Status, exit_status
from vmctl.host import Host

OFF = f"- {GROUPS}\n- /sys/class/iommu\n- {BUS}/{GPU}/iommu_group"
NEEDED = f"{BUS}/{GPU}/sriov_totalvfs = 16\n{BUS}/{GPU}/sriov_numvfs = 16"
NO_WORDS = "/proc/cmdline = root=/dev/sda1 quiet"
AUDIO = "0000:3b:00.1"
OTHER = "0000:3c:00.0"


def enabled(host: Host, changes: str = "") -> Finding:
    spoil(host, changes)
    return one(seen(host), "iommu.enabled")


@pytest.mark.field("B06")
def test_an_amd_host_passes_by_its_groups(good: Host) -> None:
    assert enabled(good, f"{AMD}\n- /sys/class/iommu\n/sys/class/iommu/ivhd0/ = <dir>").status is Status.PASS


@pytest.mark.field("B08")
def test_the_boot_log_is_not_asked(good: Host) -> None:
    found = one(seen(good, dmesg=denied("dmesg")), "iommu.enabled")
    assert found == one(seen(good), "iommu.enabled")
    assert found.status is Status.PASS


@pytest.mark.field("B09")
def test_advice_goes_by_the_cpu_and_not_by_the_card(good: Host) -> None:
    found = enabled(good, f"{OFF}\n{NO_WORDS}\n{BUS}/{GPU}/vendor = 0x1002")
    assert "intel_iommu=on" in found.remedy


def test_an_amd_host_is_never_told_a_word_that_the_kernel_ignores(good: Host) -> None:
    amd = f"{OFF}\n{AMD}\n- /sys/firmware/acpi/tables/DMAR\n/sys/firmware/acpi/tables/IVRS = <table>"
    assert "amd_iommu=on" not in enabled(good, f"{amd}\n{NO_WORDS}").remedy


@pytest.mark.parametrize("words", ["amd_iommu=on iommu=pt", "intel_iommu=on", "iommu=pt"])
def test_words_of_the_command_line_prove_nothing(good: Host, words: str) -> None:
    found = enabled(good, f"{OFF}\n{NEEDED}\n/proc/cmdline = {words}")
    assert found.status is Status.FAIL
    assert any("proves nothing" in each.said for each in found.evidence)


def test_firmware_comes_before_the_command_line(good: Host) -> None:
    found = enabled(good, f"{OFF}\n{NO_WORDS}\n- /sys/firmware/acpi/tables/DMAR")
    assert found.remedy == "Switch on VT-d in the firmware set-up, then reboot."


def test_a_word_that_switches_it_off_is_named(good: Host) -> None:
    remedy = enabled(good, f"{OFF}\n{AMD}\n/proc/cmdline = root=/dev/sda1 amd_iommu=off quiet").remedy
    assert remedy.startswith("Take amd_iommu=off out of GRUB_CMDLINE_LINUX in /etc/default/grub")
    assert "is without it" in remedy


@pytest.mark.field("B12")
def test_without_an_iommu_only_cards_that_need_one_fail(good: Host) -> None:
    assert enabled(good, OFF).status is Status.WARN  # mediated devices on the card work without
    assert enabled(good, NEEDED).status is Status.FAIL


@pytest.mark.field("B13")
def test_the_groups_of_mediated_devices_prove_nothing(good: Host) -> None:
    """Each has one, with an IOMMU and without (seen with intel_iommu=off)."""
    device = "aa618089-8b16-4d01-a136-25a0f3c73123"
    mediated = f"/sys/bus/mdev/devices/{device}"
    spoil(good, OFF)
    spoil(good, f"{mediated}/ = <dir>\n{GROUPS}/0/devices/{device} -> {mediated}")
    look = seen(good)
    assert one(look, "iommu.enabled").status is Status.WARN
    assert one(look, "iommu.remapping").status is Status.NOT_APPLICABLE


def test_a_host_that_is_a_virtual_machine_is_not_applicable(bare: Host) -> None:
    plant(bare.root, f"{GUEST}\n{BUS}/0000:00:02.0/class = 0x020000")
    found = [one(seen(bare, {}), name) for name in ("iommu.enabled", "iommu.remapping", "vfio.available")]
    assert {finding.status for finding in found} == {Status.NOT_APPLICABLE}
    assert exit_status(found) == 0


def test_groups_that_may_not_be_listed_are_unknown(good: Host) -> None:
    good.path("/proc/cpuinfo").unlink()
    good.path("/proc/cpuinfo").mkdir()
    assert enabled(good, OFF).status is Status.UNKNOWN
    assert "cannot be read" in enabled(good).evidence[0].said


@pytest.mark.field("H03")
@pytest.mark.parametrize(
    ("files", "told"),
    [
        ("/usr/sbin/update-grub = <binary>", "run: update-grub"),
        ("- /usr/sbin/update-grub", "grub2-mkconfig -o /boot/grub2/grub.cfg"),
        ("/usr/sbin/grubby = <binary>", "grubby --update-kernel=ALL --args=intel_iommu=on"),
        ("/etc/kernel/proxmox-boot-uuids = x", "proxmox-boot-tool refresh"),
        ("- /usr/sbin/update-grub\n- /etc/default/grub", "in your boot loader's own way"),
    ],
)
def test_the_change_is_told_for_the_boot_loader_that_is_there(good: Host, files: str, told: str) -> None:
    found = enabled(good, f"{OFF}\n{NO_WORDS}\n{files}")
    assert told in found.remedy
    assert "/proc/cmdline" in found.remedy


@pytest.mark.field("H03")
@pytest.mark.parametrize(("loader", "told"), [("systemd-boot 252", "kernel-install"), ("GRUB 2.12", "update-grub")])
def test_the_loader_that_booted_counts_and_not_the_files_that_lie_about(good: Host, loader: str, told: str) -> None:
    info = good.path("/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-442b29bb8c4f")
    info.write_bytes(b"\x06\0\0\0" + f"{loader}\0".encode("utf-16-le"))
    assert told in enabled(good, f"{OFF}\n{NO_WORDS}").remedy


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ("", Status.PASS, "IR-PCI-MSI"),
        ("/proc/interrupts =  60: 0 ITS-MSI 1048576 Edge nvidia", Status.PASS, "ITS-MSI"),
        ("/proc/interrupts =  24: 0 PCI-MSI 1048576-edge nvidia", Status.FAIL, "no chip"),
        ("- /proc/interrupts", Status.UNKNOWN, "is not there"),
        ("/sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts = Y", Status.WARN, "IR-PCI-MSI"),
        (f"- {GROUPS}", Status.NOT_APPLICABLE, "no groups"),
    ],
)
def test_interrupts_are_remapped_where_the_kernel_says_so(good: Host, changes: str, status: Status, said: str) -> None:
    spoil(good, changes)
    found = one(seen(good), "iommu.remapping")
    assert found.status is status
    assert said in found.evidence[0].said


def test_a_word_that_switches_remapping_off_is_named(good: Host) -> None:
    spoil(good, "/proc/interrupts = 24: 0 PCI-MSI 1-edge\n/proc/cmdline = intel_iommu=on intremap=off")
    assert "Take intremap=off out" in one(seen(good), "iommu.remapping").remedy


def neighbour(address: str, driver: str, code: str = "0x040300") -> str:
    facts = function(address, driver=driver, **{"class": code})
    return f"{facts}{GROUPS}/7/devices/{address} -> {BUS}/{address}"


WHOLE = f"{BUS}/{GPU}/driver -> /sys/bus/pci/drivers/vfio-pci"


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ("", Status.PASS, ""),
        (neighbour(AUDIO, "snd_hda_intel"), Status.PASS, ""),  # goes with the card
        (neighbour(OTHER, "nvme", "0x010802"), Status.WARN, OTHER),
        (f"{WHOLE}\n{neighbour(AUDIO, 'snd_hda_intel')}", Status.FAIL, AUDIO),
        (f"{WHOLE}\n{neighbour(AUDIO, 'vfio-pci')}", Status.PASS, ""),
        (f"{WHOLE}\n{neighbour(OTHER, 'pci-stub')}", Status.PASS, ""),
        ("/proc/cmdline = pcie_acs_override=downstream,multifunction", Status.WARN, "pcie_acs_override"),
        (f"- {BUS}/{GPU}/iommu_group", Status.UNKNOWN, ""),
        (f"- {GROUPS}\n- {BUS}/{GPU}/iommu_group", Status.NOT_APPLICABLE, ""),
    ],
)
def test_a_group_is_viable_when_nothing_of_the_host_is_in_it(
    good: Host, changes: str, status: Status, said: str
) -> None:
    spoil(good, changes)
    found = one(seen(good), "iommu.group_viable", GPU)
    assert found.status is status
    assert said in found.remedy


def test_members_and_their_drivers_are_named_and_a_bridge_is_fine(good: Host) -> None:
    said = [each.said for each in one(seen(good), "iommu.group_viable").evidence]
    assert said == [f"{BRIDGE}, a bridge, driver pcieport", f"{GPU}, driver nvidia"]


@pytest.mark.parametrize(("groups", "status"), [((8, 9), Status.PASS), ((8, 8), Status.FAIL), ((7, 9), Status.FAIL)])
def test_virtual_functions_need_groups_of_their_own(good: Host, groups: tuple[int, int], status: Status) -> None:
    for number, group in enumerate(groups):
        address = f"0000:3b:00.{4 + number}"
        links = (
            f"{BUS}/{GPU}/virtfn{number} -> {BUS}/{address}\n{BUS}/{address}/physfn -> {BUS}/{GPU}\n"
            f"{BUS}/{address}/iommu_group -> {GROUPS}/{group}\n{GROUPS}/{group}/devices/{address} -> {BUS}/{address}"
        )
        plant(good.root, f"{function(address)}{links}")
    assert one(seen(good), "iommu.group_viable").status is status
