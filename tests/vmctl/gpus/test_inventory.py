"""What a host's GPUs are, card by card: nothing is dropped in silence, nothing unreadable becomes zero."""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.vmctl.gpus.trees import captured, function, kind, nvidia, plant
from vmctl import gpus
from vmctl.card import GPU, Framework, Regime
from vmctl.errors import VmctlError
from vmctl.host import Host
from vmctl.model import WantedVGPU
from vmctl.simulate import SimulatedHost

T4 = "0000:3b:00.0"
A40 = "0000:41:00.0"
CREATABLE = "ID    : vGPU Name\\n1150  : NVIDIA L40S-4Q\\n1155  : NVIDIA L40S-24Q"


def by_address(host: Host) -> dict[str, GPU]:
    return {gpu.address: gpu for gpu in gpus.inventory(host)}


def virtual(physical: str, number: int, address: str) -> str:
    folder = "/sys/bus/pci/devices"
    return (
        f"{function(address)}{folder}/{address}/physfn -> {folder}/{physical}\n"
        f"{folder}/{physical}/virtfn{number} -> {folder}/{address}\n"
    )


def sriov(address: str, total: int, enabled: int) -> str:
    folder = f"/sys/bus/pci/devices/{address}"
    return f"{folder}/sriov_totalvfs = {total}\n{folder}/sriov_numvfs = {enabled}\n"


def reasons(gpu: GPU) -> str:
    return " ".join(f"{gap.what}: {gap.reason}" for gap in gpu.unknown)


def test_a_t4_is_cut_by_equal_size(t4: SimulatedHost) -> None:
    first, second = gpus.inventory(t4)
    assert (first.address, second.address) == (T4, "0000:af:00.0")
    assert (first.model, first.vendor, first.device, first.driver) == ("Tesla T4", "NVIDIA", "1eb8", "nvidia")
    assert (first.framework, first.regimes, first.handles) == (Framework.MDEV_PF, (Regime.EQUAL, Regime.WHOLE), 16)
    assert (first.memory_mib, first.numa_node, first.iommu_group, first.vfs) == (16384, 0, "40", None)
    assert (second.numa_node, first.unknown) == (1, ())
    half = next(each for each in first.types if each.name == "T4-8Q")
    assert (half.driver_id, half.series, half.memory_mib, half.size_group) == ("nvidia-233", "Q", 8192, "8G")
    assert half.cells == half.free_cells == ((0, 1), (1, 2))


def test_a_bus_that_cannot_be_read_is_no_empty_bus(t4: SimulatedHost) -> None:
    """Else every share would be taken for given back, and booked again while its machine runs."""
    made = gpus.provide(t4, WantedVGPU(str(uuid4()), T4, "T4-8Q", Regime.EQUAL, (0, 1), 0))
    bus = t4.path("/sys/bus/mdev/devices")
    bus.rename(bus.with_name("aside"))
    bus.touch()
    host = Host("here", root=t4.root, state_dir=t4.state_dir)
    assert all("cannot be listed" in reasons(gpu) for gpu in gpus.inventory(host))
    with pytest.raises(VmctlError, match="cannot be listed"):
        gpus.release(host, made)


def test_capacity_is_the_gpus_and_never_a_sum_over_functions(a40: SimulatedHost) -> None:
    gpu = gpus.inventory(a40)[0]
    assert (gpu.framework, gpu.handles) == (Framework.MDEV_VF, 32)
    assert gpu.vfs is not None
    assert (gpu.vfs.total, gpu.vfs.enabled) == (32, 32)
    most = {each.name: (each.max, len(each.cells), len(each.free_cells)) for each in gpu.types}
    assert most["A40-8Q"] == (6, 6, 6)
    assert most["A40-48C"] == (1, 1, 1)


@pytest.mark.field("A03")
def test_one_host_may_hold_all_kinds_of_cards(bare: Host) -> None:
    plant(bare.root, function(T4))
    plant(bare.root, kind(T4, "nvidia-232", name="GRID T4-4Q", description=nvidia(4, 4), available="4"))
    tree = captured("l40s-vf-vendor-vfio.tree").replace("-> ../", "-> /sys/bus/pci/devices/")
    plant(bare.root, tree.replace("see vf-creatable_vgpu_types-l40s-free.txt", CREATABLE))
    plant(bare.root, function("0000:26:00.0", device="0x26b9") + sriov("0000:26:00.0", 16, 16))
    plant(bare.root, "/sys/bus/pci/devices/0000:26:00.0/virtfn0 -> /sys/bus/pci/devices/0000:26:00.4")
    plant(bare.root, function("0000:41:00.0") + virtual("0000:41:00.0", 0, "0000:41:00.4"))
    plant(bare.root, kind("0000:41:00.4", "nvidia-562", name="NVIDIA A40-8Q", description=nvidia(8, 6)))
    found = by_address(bare)
    assert {address: gpu.framework for address, gpu in found.items()} == {
        "0000:26:00.0": Framework.VENDOR_VFIO,
        "0000:3b:00.0": Framework.MDEV_PF,
        "0000:41:00.0": Framework.MDEV_VF,
    }
    assert found[T4].regimes == found["0000:41:00.0"].regimes == (Regime.EQUAL,)
    l40s = found["0000:26:00.0"]
    assert [(kind.name, kind.driver_id) for kind in l40s.types] == [("L40S-4Q", "1150"), ("L40S-24Q", "1155")]
    assert "types.L40S-24Q.max: The driver does not say how many fit" in reasons(l40s)  # nothing but sysfs is here


@pytest.mark.field("A04")
def test_without_the_mdev_bus_there_are_no_vgpus_and_no_fault(bare: Host) -> None:
    plant(bare.root, function(T4))
    assert gpus.provided(bare) == []
    gpu = by_address(bare)[T4]
    assert (gpu.framework, gpu.types, gpu.regimes) == (Framework.NONE, (), ())
    assert "offers no vGPU on this card" in reasons(gpu)


@pytest.mark.field("A05")
def test_functions_that_are_off_after_a_reboot_are_not_ready_with_a_reason(bare: Host) -> None:
    plant(bare.root, function("0000:41:00.0", device="0x2235") + sriov("0000:41:00.0", 32, 0))
    gpu = by_address(bare)["0000:41:00.0"]
    assert (gpu.regimes, gpu.handles) == ((), 0)
    assert "virtual functions are off (0 of 32)" in reasons(gpu)


@pytest.mark.field("A23")
def test_functions_without_types_say_so_beside_the_card(bare: Host) -> None:
    plant(bare.root, function("0000:41:00.0") + sriov("0000:41:00.0", 32, 1))
    plant(bare.root, virtual("0000:41:00.0", 0, "0000:41:00.4"))
    plant(bare.root, function(T4) + kind(T4, "nvidia-232", name="GRID T4-4Q", description=nvidia(4, 4)))
    found = by_address(bare)
    assert "offers no vGPU on this card" in reasons(found["0000:41:00.0"])
    assert found[T4].regimes == (Regime.EQUAL,)


@pytest.mark.parametrize(("group", "said"), [(True, "wrong package"), (False, "IOMMU is off")])
def test_functions_without_a_driver_are_the_hosts_matter_where_it_has_no_iommu(
    bare: Host, group: bool, said: str
) -> None:
    plant(bare.root, function(A40) + sriov(A40, 32, 1) + virtual(A40, 0, "0000:41:00.4"))
    (bare.pci("0000:41:00.4") / "driver").unlink()
    if group:
        plant(bare.root, f"/sys/bus/pci/devices/{A40}/iommu_group -> /sys/kernel/iommu_groups/7")
    assert said in reasons(by_address(bare)[A40])


def test_a_half_initialised_function_is_unknown_and_others_still_count(bare: Host) -> None:
    physical = "0000:41:00.0"
    plant(bare.root, function(physical) + virtual(physical, 0, "0000:41:00.4") + virtual(physical, 1, "0000:41:00.5"))
    plant(bare.root, kind("0000:41:00.4", "pci-562", available="0"))
    plant(bare.root, kind("0000:41:00.5", "nvidia-562", name="NVIDIA A40-8Q", description=nvidia(8, 6)))
    gpu = by_address(bare)[physical]
    assert [each.name for each in gpu.types] == ["A40-8Q"]
    assert "types: The driver is not ready on 0000:41:00.4" in reasons(gpu)


@pytest.mark.field("A06")
def test_a_type_without_name_and_description_is_listed_under_its_id(bare: Host) -> None:
    plant(bare.root, function("0000:00:02.0", vendor="0x8086", **{"class": "0x030000"}, driver="i915"))
    plant(bare.root, kind("0000:00:02.0", "i915-GVTg_V5_4"))
    plant(bare.root, function(T4) + kind(T4, "nvidia-232", name="GRID T4-4Q", description=nvidia(4, 4)))
    found = by_address(bare)
    (odd,) = found["0000:00:02.0"].types
    assert (odd.name, odd.driver_id, odd.size_group) == ("i915-GVTg_V5_4", "i915-GVTg_V5_4", "i915-GVTg_V5_4")
    assert (odd.memory_mib, odd.cells) == (None, ())  # of unknown size: seen, but nothing to promise
    assert "types.i915-GVTg_V5_4.frame_buffer_mib:" in reasons(found["0000:00:02.0"])
    assert [each.name for each in found[T4].types] == ["T4-4Q"]


def test_a_description_of_five_lines_breaks_nothing(bare: Host) -> None:
    plant(bare.root, function("0000:00:02.0", vendor="0x8086", **{"class": "0x030000"}, driver="i915"))
    description = captured("gvtg-description.txt").strip().replace("\n", "\\n")
    plant(bare.root, kind("0000:00:02.0", "i915-GVTg_V5_4", description=description))
    assert [each.name for each in by_address(bare)["0000:00:02.0"].types] == ["i915-GVTg_V5_4"]


@pytest.mark.field("A01")
@pytest.mark.parametrize("garbage", ["", "-1", "many", "4 instances", "0x4", "\\x00\\xff"])
def test_a_counter_that_is_no_number_is_unknown_and_never_a_silent_zero(bare: Host, garbage: str) -> None:
    plant(bare.root, function(T4))
    plant(bare.root, kind(T4, "nvidia-232", name="GRID T4-4Q", description=nvidia(4, 4), available=garbage))
    gpu = by_address(bare)[T4]
    (odd,) = gpu.types
    assert (odd.free_cells, len(odd.cells)) == ((), 4)
    assert "types.T4-4Q.free: available_instances on 0000:3b:00.0 says" in reasons(gpu)


@pytest.mark.field("A01")
def test_a_counter_that_cannot_be_read_is_unknown(bare: Host) -> None:
    plant(bare.root, function(T4) + kind(T4, "nvidia-232", name="GRID T4-4Q", description=nvidia(4, 4)))
    counter = bare.pci(T4) / "mdev_supported_types/nvidia-232/available_instances"
    counter.unlink()
    counter.mkdir()
    assert "types.T4-4Q.free: available_instances on 0000:3b:00.0 cannot be read" in reasons(by_address(bare)[T4])


@pytest.mark.field("B05")
def test_domains_of_any_width_are_scanned(bare: Host) -> None:
    plant(bare.root, function("10001:80:05.0", vendor="0x8086", **{"class": "0x010802"}, driver="nvme"))
    plant(bare.root, function("10001:81:00.0"))
    plant(bare.root, function("0001:3b:00.0") + kind("0001:3b:00.0", "nvidia-232", name="GRID T4-4Q"))
    assert list(by_address(bare)) == ["0001:3b:00.0", "10001:81:00.0"]


def test_only_display_functions_are_gpus(bare: Host) -> None:
    """The audio, USB and serial functions of the card are not, nor a board's management screen."""
    plant(bare.root, function("0000:01:00.0", **{"class": "0x030000"}))
    for other, code in (("1", "0x040300"), ("2", "0x0c0330"), ("3", "0x0c8000")):
        plant(bare.root, function(f"0000:01:00.{other}", **{"class": code}))
    plant(bare.root, function("0000:02:00.0", vendor="0x1a03", **{"class": "0x030000"}, driver="ast"))
    for number in range(4):
        address = f"0000:01:00.{number}"
        group = "/sys/kernel/iommu_groups/2"
        plant(bare.root, f"/sys/bus/pci/devices/{address}/iommu_group -> {group}")
        plant(bare.root, f"{group}/devices/{address} -> /sys/bus/pci/devices/{address}")
    (gpu,) = gpus.inventory(bare)
    assert gpu.address == "0000:01:00.0"
    assert gpu.iommu_members == tuple(f"0000:01:00.{number}" for number in range(4))


def test_a_card_on_vfio_pci_stays_in_the_inventory(bare: Host) -> None:
    plant(bare.root, function(T4, driver="vfio-pci", numa_node="-1"))
    gpu = by_address(bare)[T4]
    assert (gpu.driver, gpu.model, gpu.numa_node, gpu.memory_mib) == ("vfio-pci", "NVIDIA 1eb8", None, None)
    assert "vfio-pci" in reasons(gpu)


def test_virtual_functions_sort_by_their_number(a40: SimulatedHost) -> None:
    handles = {f"0000:41:{(4 + n) // 8:02x}.{(4 + n) % 8}": n for n in range(32)}
    for number in (0, 1, 2, 10, 31):
        assert a40.link(a40.pci("0000:41:00.0") / f"virtfn{number}") == next(
            a for a, n in handles.items() if n == number
        )


def test_a_captured_function_is_read(bare: Host) -> None:
    """The A2 whose GPU is at 4 GB: three types still take one, by the captured counters."""
    plant(bare.root, captured("a2-vf-gpu-at-4g.tree"))
    plant(bare.root, function("0000:08:00.0", device="0x25b6") + sriov("0000:08:00.0", 16, 16))
    folder = "/sys/bus/pci/devices"
    plant(bare.root, f"{folder}/0000:08:01.7 -> /sys/class/mdev_bus/0000:08:01.7")
    plant(bare.root, f"{folder}/0000:08:01.7/physfn -> {folder}/0000:08:00.0")
    plant(bare.root, f"{folder}/0000:08:00.0/virtfn11 -> {folder}/0000:08:01.7")
    (gpu,) = gpus.inventory(bare)
    assert (gpu.framework, gpu.memory_mib) == (Framework.MDEV_VF, 16384)
    assert {gap.what for gap in gpu.unknown} & {"types", "frame_buffer_mib"} == set()
    assert {each.name for each in gpu.types if each.free_cells} == {"A2-4Q", "A2-4A", "A2-4C"}
    assert {each.size_group for each in gpu.types if each.free_cells} == {"4G"}


def test_an_mdev_of_something_else_is_no_share_of_a_gpu(bare: Host) -> None:
    device = "/sys/devices/virtual/mtty/mtty/83b8f4f2-509f-382f-3c1e-e6bfe0fa1001"
    plant(bare.root, f"{device}/mdev_type -> /sys/devices/virtual/mtty/mtty/mdev_supported_types/mtty-2")
    plant(bare.root, "/sys/devices/virtual/mtty/mtty/mdev_supported_types/mtty-2/available_instances = 23")
    plant(bare.root, f"/sys/bus/mdev/devices/83b8f4f2-509f-382f-3c1e-e6bfe0fa1001 -> {device}")
    assert gpus.provided(bare) == []


@pytest.mark.parametrize("number", ["1025", "999999999999", "9" * 4000])
def test_a_number_that_no_gpu_can_mean_is_unknown(bare: Host, number: str) -> None:
    """Garbled, it would make as many cells."""
    plant(bare.root, function("0000:3b:00.0"))
    text = f"framebuffer=4096M, max_instance={number}"
    plant(bare.root, kind("0000:3b:00.0", "nvidia-232", name="GRID T4-4Q", description=text))
    (gpu,) = gpus.inventory(bare)
    assert [each.cells for each in gpu.types] == [()]
    assert "types.T4-4Q.max" in {gap.what for gap in gpu.unknown}
