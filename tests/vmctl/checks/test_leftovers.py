"""What nobody has is named, with the exact command that takes it away; nothing is taken away."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.vmctl.checks.hosts import BUS, GPU, GROUPS, one, seen, spoil
from tests.vmctl.gpus.trees import function, plant
from vmctl.card import Framework, Mode, ProvidedVGPU, Regime
from vmctl.checks import Finding, Status
from vmctl.checks.leftovers import instances, vgpus
from vmctl.checks.look import Libvirt, Look
from vmctl.errors import Code, VmctlError
from vmctl.gpus.driver.answers import DriverFacts, Instance
from vmctl.host import Host

UUID = "00000000-0000-4000-8000-00000000aaaa"
MDEV = f"{BUS}/{GPU}/{UUID}"
ODD = Libvirt((10, 3, 0), unread=("a domain whose XML makes no sense",))
AWAY = VmctlError(Code.UNREACHABLE, "libvirt is away.", "Start it.")


def mdev(host: Host) -> None:
    kind = f"{BUS}/{GPU}/mdev_supported_types/nvidia-232"
    plant(host.root, f"{MDEV}/mdev_type -> {kind}\n/sys/bus/mdev/devices/{UUID} -> {MDEV}")


def leftover(host: Host, name: str, libvirt: object) -> Finding:
    return one(seen(host, libvirt=libvirt), name)


def test_shares_that_no_domain_names_are_told_with_their_command(good: Host) -> None:
    assert leftover(good, "leftovers.vgpus", AWAY).status is Status.PASS  # there is no share at all
    mdev(good)
    found = leftover(good, "leftovers.vgpus", Libvirt((10, 3, 0)))
    assert found.status is Status.WARN
    assert f"echo 1 > /sys/bus/mdev/devices/{UUID}/remove" in found.remedy
    assert leftover(good, "leftovers.vgpus", Libvirt((10, 3, 0), {UUID: "a"})).status is Status.PASS
    assert leftover(good, "leftovers.vgpus", AWAY).status is Status.UNKNOWN
    assert leftover(good, "leftovers.vgpus", ODD).status is Status.UNKNOWN


def test_the_share_of_an_acceptance_that_was_cut_off_is_told(good: Host) -> None:
    mdev(good)
    found = leftover(good, "leftovers.vgpus", Libvirt((10, 3, 0), {UUID: "accept-1"}, by_acceptance=("accept-1",)))
    assert (found.status, "vmctl apply" in found.remedy) == (Status.WARN, True)


@pytest.mark.field("B10")
def test_a_share_that_a_process_has_open_is_told_with_its_process_and_no_command(good: Host) -> None:
    """The removal would sleep in the kernel until a QEMU outside libvirt has ended."""
    mdev(good)
    plant(good.root, f"{MDEV}/iommu_group -> {GROUPS}/31\n/proc/4711/comm = qemu-system-x86")
    (good.path("/proc/4711/fd")).mkdir()
    (good.path("/proc/4711/fd/9")).symlink_to("/dev/vfio/31")
    found = leftover(good, "leftovers.vgpus", Libvirt((10, 3, 0)))
    assert found.status is Status.WARN
    assert "held by process 4711 (qemu-system-x86)" in found.evidence[0].said
    assert "process 4711" in found.remedy
    assert "remove" not in found.remedy


def test_who_cannot_see_all_processes_gets_no_command(good: Host) -> None:
    mdev(good)
    plant(good.root, "/proc/4711/comm = a process of somebody else's")
    found = leftover(good, "leftovers.vgpus", Libvirt((10, 3, 0)))
    assert (found.status, "echo" in found.remedy, "as root" in found.remedy) == (Status.WARN, False, True)


def test_a_list_of_shares_that_cannot_be_read_is_unknown(good: Host) -> None:
    spoil(good, "/sys/bus/mdev/devices = a file, not a folder")
    assert leftover(good, "leftovers.vgpus", Libvirt((10, 3, 0))).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("framework", "command"),
    [
        (Framework.VENDOR_VFIO, f"echo 0 > {BUS}/0000:3b:00.4/nvidia/current_vgpu_type"),
        (Framework.SRIOV, f"echo > {BUS}/0000:3b:00.4/driver_override"),
    ],
)
def test_the_command_is_that_of_the_way(good: Host, framework: Framework, command: str) -> None:
    share = ProvidedVGPU(None, GPU, "L40S-4Q", framework, "0000:3b:00.4", "4G", handle=0)
    assert command in vgpus(with_shares(good, share)).remedy


def with_shares(host: Host, *shares: ProvidedVGPU, told: dict[str, DriverFacts] | None = None) -> Look:
    look = seen(host, told)
    cards = tuple(replace(gpu, holders=shares) for gpu in look.gpus)
    return Look(look.site, dict(look.answers) | {"GPUs": (cards, look.facts)})


def test_gpu_instances_without_a_vgpu_are_told_with_their_command(good: Host) -> None:
    made = (Instance(1, "3g.40gb", 9, 0, 4), Instance(2, "3g.40gb", 9, 4, 4))
    told = {GPU: DriverFacts(mig=Mode(True, True), instances=made)}
    share = ProvidedVGPU(UUID, GPU, "A100D-3-40C", Framework.MDEV_VF, "x", "3g", regime=Regime.MIG, cell=(4, 8))
    found = instances(with_shares(good, share, told=told))
    assert found.status is Status.WARN
    assert found.remedy.endswith(f"nvidia-smi mig -i {GPU} -gi 1 -dci; nvidia-smi mig -i {GPU} -gi 1 -dgi")
    bare = ProvidedVGPU(None, GPU, "3g.40gb", Framework.NONE, "gpu-instance 1", "3g", regime=Regime.MIG, cell=(0, 4))
    assert instances(with_shares(good, share, bare, told=told)) == found
    assert vgpus(with_shares(good, bare, told=told)).status is Status.PASS
    other = ProvidedVGPU("b", GPU, "A100D-3-40C", Framework.MDEV_VF, "y", "3g", regime=Regime.MIG, cell=(0, 4))
    assert instances(with_shares(good, share, other, told=told)).status is Status.PASS


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        (DriverFacts(), Status.NOT_APPLICABLE),
        (DriverFacts(mig=Mode(False, True)), Status.NOT_APPLICABLE),
        (DriverFacts(mig=Mode(True, True)), Status.UNKNOWN),
        (DriverFacts(mig=Mode(True, True), instances=()), Status.PASS),
    ],
)
def test_instances_that_could_not_be_listed_are_unknown(good: Host, facts: DriverFacts, status: Status) -> None:
    assert instances(with_shares(good, told={GPU: facts})).status is status


def test_a_function_kept_from_its_driver_for_nobody_is_told_with_its_command(good: Host) -> None:
    audio = "0000:3b:00.1"
    plant(good.root, function(audio, driver="vfio-pci", **{"class": "0x040300"}))
    spoil(good, f"{BUS}/{audio}/driver_override = vfio-pci")
    found = leftover(good, "leftovers.functions", Libvirt((10, 3, 0)))
    assert found.status is Status.WARN
    assert found.remedy.endswith(
        f"echo {audio} > {BUS}/{audio}/driver/unbind; echo > {BUS}/{audio}/driver_override; "
        f"echo {audio} > /sys/bus/pci/drivers_probe"
    )
    assert leftover(good, "leftovers.functions", Libvirt((10, 3, 0), {audio: "a"})).status is Status.PASS
    assert leftover(good, "leftovers.functions", AWAY).status is Status.UNKNOWN
    assert leftover(good, "leftovers.functions", ODD).status is Status.UNKNOWN


def test_a_function_that_lost_its_driver_under_an_override_is_told_too(good: Host) -> None:
    spoil(good, f"{BUS}/{GPU}/driver_override = vfio-pci\n- {BUS}/{GPU}/driver")
    found = leftover(good, "leftovers.functions", Libvirt((10, 3, 0)))
    assert found.status is Status.WARN
    assert "unbind" not in found.remedy
