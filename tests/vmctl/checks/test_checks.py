"""What the doctor says about hosts of all kinds, and what it never does: trust one indirect sign."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import pytest

from tests.vmctl.gpus.trees import function, kind, nvidia, plant
from vmctl import checks, gpus
from vmctl.card import Regime
from vmctl.checks import Verdict, cards, kernel, system
from vmctl.errors import Code, VmctlError
from vmctl.host import TIME_ERROR, Host
from vmctl.model import WantedVGPU
from vmctl.simulate import SimulatedHost
from vmctl.site import Site

NOW = datetime(2026, 12, 1, 9, tzinfo=UTC)
GPU = "0000:3b:00.0"
INTEL = "/proc/cpuinfo = vendor_id\\t: GenuineIntel\\nflags\\t\\t: fpu vmx"
AMD = "/proc/cpuinfo = vendor_id\\t: AuthenticAMD\\nflags\\t\\t: fpu svm"
GUEST = "/proc/cpuinfo = vendor_id\\t: GenuineIntel\\nflags\\t\\t: fpu hypervisor"
GROUP = f"/sys/kernel/iommu_groups/7/devices/{GPU} -> /sys/bus/pci/devices/{GPU}"
GRUB = "/usr/sbin/update-grub = <binary>\n/etc/default/grub = GRUB_CMDLINE_LINUX=\n"


def iommu(host: Host) -> checks.Finding:
    return kernel.iommu(host, gpus.inventory(host))


@pytest.mark.field("B06")
def test_an_amd_host_passes_by_its_groups(bare: Host) -> None:
    plant(bare.root, f"{AMD}\n{GROUP}\n/sys/class/iommu/ivhd0/ = <dir>\n" + function(GPU))
    assert iommu(bare).verdict is Verdict.PASS


@pytest.mark.field("B07")
def test_groups_without_the_module_mean_load_vfio_and_not_iommu_off(bare: Host) -> None:
    plant(bare.root, f"{INTEL}\n{GROUP}\n" + function(GPU))
    assert iommu(bare).verdict is Verdict.PASS
    found = kernel.vfio(bare, gpus.inventory(bare))
    assert found.verdict is Verdict.FAIL
    assert "modprobe -a vfio-pci" in found.remedy


@pytest.mark.field("B08")
def test_the_boot_log_is_not_asked(bare: Host) -> None:
    """The commands of this host may not be run at all: the verdict comes from the groups alone."""
    plant(bare.root, f"{INTEL}\n{GROUP}\n" + function(GPU))

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError

    assert iommu(replace(bare, commands=refuse)) == iommu(bare)  # type: ignore[arg-type]


@pytest.mark.field("B09")
def test_advice_goes_by_the_cpu_and_not_by_the_card(bare: Host) -> None:
    plant(bare.root, f"{INTEL}\n/sys/firmware/acpi/tables/DMAR = <table>\n{GRUB}")
    plant(bare.root, function(GPU, vendor="0x1002", driver="vfio-pci"))
    assert "intel_iommu=on" in iommu(bare).remedy


def test_an_amd_host_is_never_told_a_word_that_the_kernel_ignores(bare: Host) -> None:
    plant(bare.root, f"{AMD}\n/sys/firmware/acpi/tables/IVRS = <table>\n{GRUB}" + function(GPU))
    assert "amd_iommu=on" not in iommu(bare).remedy


def test_firmware_comes_before_the_command_line(bare: Host) -> None:
    plant(bare.root, f"{INTEL}\n{GRUB}" + function(GPU))
    assert iommu(bare).remedy == "Switch on VT-d in the firmware set-up, then reboot."


def test_a_word_that_switches_it_off_is_named(bare: Host) -> None:
    plant(bare.root, f"{AMD}\n/proc/cmdline = root=/dev/sda1 amd_iommu=off quiet\n{GRUB}" + function(GPU))
    remedy = iommu(bare).remedy
    assert remedy.startswith("Take amd_iommu=off out of GRUB_CMDLINE_LINUX in /etc/default/grub")
    assert "is without it" in remedy


@pytest.mark.field("B12")
def test_without_an_iommu_only_cards_that_need_one_fail(bare: Host) -> None:
    plant(bare.root, INTEL)
    assert iommu(bare).verdict is Verdict.WARN
    plant(bare.root, function(GPU) + kind(GPU, "nvidia-232", name="GRID T4-4Q", description=nvidia(4, 4)))
    assert iommu(bare).verdict is Verdict.WARN  # mediated devices work without
    plant(bare.root, function("0000:41:00.0"))
    plant(bare.root, "/sys/bus/pci/devices/0000:41:00.0/sriov_totalvfs = 32")
    plant(bare.root, "/sys/bus/pci/devices/0000:41:00.0/sriov_numvfs = 32")
    assert iommu(bare).verdict is Verdict.FAIL


@pytest.mark.field("B13")
def test_a_host_that_is_a_virtual_machine_is_not_applicable(bare: Host) -> None:
    plant(bare.root, GUEST)
    assert iommu(bare).verdict is Verdict.NOT_APPLICABLE
    assert kernel.vfio(bare, []).verdict is Verdict.NOT_APPLICABLE
    assert checks.exit_status([iommu(bare)]) == 0


@pytest.mark.field("H03")
@pytest.mark.parametrize(
    ("files", "told"),
    [
        (GRUB, "run: update-grub"),
        ("/etc/default/grub = x", "grub2-mkconfig -o /boot/grub2/grub.cfg"),
        ("/usr/sbin/grubby = <binary>\n/etc/default/grub = x", "grubby --update-kernel=ALL --args=intel_iommu=on"),
        ("/etc/kernel/proxmox-boot-uuids = x\n/etc/default/grub = x", "proxmox-boot-tool refresh"),
        ("", "in your boot loader's own way"),
    ],
)
def test_the_change_is_told_for_the_boot_loader_that_is_there(bare: Host, files: str, told: str) -> None:
    plant(bare.root, f"{INTEL}\n/sys/firmware/acpi/tables/DMAR = <table>\n{files}")
    assert told in iommu(bare).remedy
    assert "/proc/cmdline" in iommu(bare).remedy


@pytest.mark.field("H03")
@pytest.mark.parametrize(("loader", "told"), [("systemd-boot 252", "kernel-install"), ("GRUB 2.12", "update-grub")])
def test_the_loader_that_booted_counts_and_not_the_files_that_lie_about(bare: Host, loader: str, told: str) -> None:
    plant(bare.root, f"{INTEL}\n/sys/firmware/acpi/tables/DMAR = <table>\n{GRUB}")
    info = bare.path("/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-442b29bb8c4f")
    info.parent.mkdir(parents=True)
    info.write_bytes(b"\x06\0\0\0" + f"{loader}\0".encode("utf-16-le"))
    assert told in iommu(bare).remedy


@pytest.mark.parametrize(
    ("driver", "verdict", "said"),
    [
        ("nouveau", Verdict.FAIL, "blacklist nouveau"),
        ("vfio-pci", Verdict.NOT_APPLICABLE, ""),
        ("nvidia", Verdict.FAIL, "vGPU host driver"),
    ],
)
def test_a_card_without_its_driver_says_what_to_do(bare: Host, driver: str, verdict: Verdict, said: str) -> None:
    plant(bare.root, function(GPU, driver=driver))
    (found,) = cards.drivers(bare, gpus.inventory(bare))
    assert (found.id, found.verdict) == (f"driver:{GPU}", verdict)
    assert said in found.remedy


@pytest.mark.field("A24")
def test_what_could_not_be_read_is_unknown_and_not_none(bare: Host) -> None:
    plant(bare.root, function(GPU))
    plant(bare.root, kind(GPU, "nvidia-232", name="GRID T4-4Q", description=nvidia(4, 4), available="some"))
    (found,) = cards.drivers(bare, gpus.inventory(bare))
    assert found.verdict is Verdict.UNKNOWN
    assert any("available_instances" in each.said for each in found.evidence)
    assert checks.exit_status([found]) == 3


def test_a_host_without_a_gpu_is_told_so(bare: Host) -> None:
    (found,) = cards.drivers(bare, [])
    assert found.verdict is Verdict.WARN


def test_vgpus_that_nobody_has_are_named_with_the_command_that_removes_them(site: Site) -> None:
    wish = WantedVGPU("00000000-0000-4000-8000-00000000aaaa", GPU, "T4-4Q", Regime.EQUAL, (0, 1), 0)
    share = gpus.provide(site.host, wish)
    found = {finding.id: finding for finding in checks.run(site, NOW)}["leftovers"]
    assert found.verdict is Verdict.WARN
    assert f"echo 1 > /sys/bus/mdev/devices/{share.uuid}/remove" in found.remedy
    assert cards.leftovers([replace(share, holder="somebody")]).verdict is Verdict.PASS


def test_a_fit_host_has_no_failures(site: Site) -> None:
    found = checks.run(site, NOW)
    assert [finding.id for finding in found] == [
        "iommu", "vfio", f"driver:{GPU}", "driver:0000:af:00.0", "kvm", "libvirt", "leftovers", "disk", "clock",
    ]  # fmt: skip
    assert {finding.verdict for finding in found} <= {Verdict.PASS, Verdict.WARN}
    assert checks.exit_status(found) == 0


def test_a_libvirt_that_is_away_fails_and_the_rest_is_still_checked(site: Site, tmp_path: Path) -> None:
    away = replace(site, libvirt_uri=f"qemu+unix:///system?socket={tmp_path}/none")
    found = {finding.id: finding for finding in checks.run(away, NOW)}
    assert (found["libvirt"].verdict, found["leftovers"].verdict) == (Verdict.FAIL, Verdict.UNKNOWN)
    assert found["disk"].verdict is Verdict.PASS
    assert checks.exit_status(list(found.values())) == 1


@pytest.mark.parametrize(("version", "verdict"), [((8, 0, 0), Verdict.WARN), ((9, 0, 0), Verdict.PASS)])
def test_an_old_libvirt_is_a_warning(version: tuple[int, int, int], verdict: Verdict) -> None:
    assert system.libvirt("test:///default", version).verdict is verdict


def test_a_broken_libvirt_keeps_its_own_words() -> None:
    error = VmctlError(Code.UNREACHABLE, "libvirt hangs.", "Kick it.")
    found = system.libvirt("qemu:///system", error)
    assert (found.evidence[0].said, found.remedy) == ("libvirt hangs.", "Kick it.")


@pytest.mark.parametrize(("gibibytes", "verdict"), [(0.5, Verdict.FAIL), (5, Verdict.WARN), (50, Verdict.PASS)])
def test_disk_space_is_judged(site: Site, monkeypatch: pytest.MonkeyPatch, gibibytes: float, verdict: Verdict) -> None:
    numbers = os.statvfs_result((4096, 4096, 0, 0, int(gibibytes * 2**18), 0, 0, 0, 0, 255))
    monkeypatch.setattr("vmctl.checks.system.os.statvfs", lambda path: numbers)
    assert system.disk(site).verdict is verdict


def test_a_storage_folder_that_is_not_there_yet_is_measured_where_it_will_be(site: Site, tmp_path: Path) -> None:
    found = system.disk(replace(site, storage=tmp_path / "a/b/c"))
    assert found.evidence[0].source == str(tmp_path)


@pytest.mark.parametrize(("state", "verdict"), [(0, Verdict.PASS), (TIME_ERROR, Verdict.WARN), (None, Verdict.UNKNOWN)])
def test_the_clock_is_judged_by_the_kernel(bare: Host, state: int | None, verdict: Verdict) -> None:
    assert system.clock(replace(bare, clock_state=lambda: state)).verdict is verdict


def test_the_kernel_is_really_asked() -> None:
    assert Host("here").clock_state() in range(6)


def test_a_simulated_host_borrows_kvm_and_the_boot_id_of_the_real_one(t4: SimulatedHost) -> None:
    boot = "/proc/sys/kernel/random/boot_id"
    assert t4.read(t4.path(boot)) == Path(boot).read_text().strip()
    assert os.readlink(t4.path("/dev/kvm")) == "/dev/kvm"


def test_documents_and_the_example_keep_the_schema(site: Site) -> None:
    schemas = Path(__file__).parents[3] / "docs/schemas"
    schema = json.loads((schemas / "check.schema.json").read_text())
    jsonschema.validate(checks.document(site, checks.run(site, NOW), NOW), schema)
    jsonschema.validate(json.loads((schemas / "check.example.json").read_text()), schema)
