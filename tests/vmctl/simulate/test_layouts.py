"""Each layout shows what captured machines of its kind show."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from tests.vmctl.gpus import trees
from tests.vmctl.simulate.conftest import Make
from tests.vmctl.simulate.doors import captured
from vmctl.simulate import SimulatedHost
from vmctl.simulate.boards import A100, H100, RTX_PRO_6000
from vmctl.simulate.layouts import LAYOUTS, functions

NAMES = {
    "t4", "a40", "a40-mixed", "l40s", "a100-mig", "h100", "v100x8", "a16", "rtx-pro-6000", "gvtg", "flex"
}  # fmt: skip


def test_every_layout_is_there() -> None:
    assert set(LAYOUTS) == NAMES


@pytest.mark.parametrize("layout", sorted(NAMES))
def test_a_tree_is_cheap_and_whole(make: Make, layout: str) -> None:
    begun = time.process_time()
    host = make(layout)
    assert time.process_time() - begun < 1
    for card in LAYOUTS[layout]:
        folder = host.pci(card.address)
        assert host.read(folder / "device") == card.board.device
        assert host.link(folder / "driver") == card.board.driver
        members = host.names(folder / "iommu_group/devices")
        assert card.address in members
        assert all(host.pci(member).is_dir() for member in members)
    broken = [path for path in host.root.rglob("*") if path.is_symlink() and not path.exists()]
    assert broken == []


def test_a_free_vf_of_the_vendors_interface_has_the_files_of_a_captured_one(make: Make) -> None:
    host = make("l40s")
    tree = trees.captured("l40s-vf-vendor-vfio.tree")
    folder = host.pci("0000:26:00.4")
    names = set(re.findall(r"26:00\.4/([^/ ]+)", tree))
    assert names <= {path.name for path in folder.iterdir()}
    inside = set(re.findall(r"26:00\.4/nvidia/(\w+)", tree))
    assert {path.name for path in (folder / "nvidia").iterdir()} >= inside
    assert (folder / "nvidia/creatable_vgpu_types").read_text() == captured("vf-creatable_vgpu_types-l40s-free.txt")
    assert host.read(folder / "nvidia/current_vgpu_type") == "0"
    assert len(host.names(folder / "vfio-dev")) == 1
    assert not host.path("/sys/class/mdev_bus").exists()
    assert not (host.pci("0000:26:00.0") / "nvidia").exists()


def test_what_no_vgpu_has_answers_with_no_such_device_or_address(make: Make) -> None:
    folder = make("l40s").pci("0000:26:00.4") / "nvidia"
    for name in ("placement_id", "gpu_instance_id"):
        with pytest.raises(OSError, match=re.escape(os.strerror(6))):
            (folder / name).read_text()


def test_a_free_vf_of_an_a100_names_its_types_as_captured(make: Make) -> None:
    host = make("a100-mig")
    rows = [line.split(" ", 2)[2] for line in trees.captured("a100d-vf-free.txt").splitlines()[1:]]
    folder = host.pci("0000:41:00.4") / "mdev_supported_types"
    ours = {kind.name: (kind / "name").read_text().strip() for kind in folder.iterdir()}
    for row in rows:
        name, _, driver_id = row.rpartition(" ")
        assert ours[driver_id] == name


def test_intels_types_have_no_name_and_five_lines(make: Make) -> None:
    folder = make("gvtg").pci("0000:00:02.0") / "mdev_supported_types"
    listing = captured("mdevctl-types-gvtg.txt")
    assert {kind.name for kind in folder.iterdir()} == set(re.findall(r"i915-\S+", listing))
    for kind in folder.iterdir():
        lines = (kind / "description").read_text().splitlines()
        assert not (kind / "name").exists()
        assert f"Description: {', '.join(lines)}\n" in listing
    four = (folder / "i915-GVTg_V5_4/description").read_text()
    assert four == trees.captured("gvtg-description.txt")


def test_a_board_of_four_gpus_is_four_gpus(make: Make) -> None:
    host = make("a16")
    ours = [card.address[5:] for card in LAYOUTS["a16"]]
    assert ours == re.findall(r"^(\S+) 3D controller", captured("lspci-nvidia-a16-four-gpus.txt"), re.M)
    shape = re.compile(r"GPU-[0-9a-f-]+")
    said = shape.sub("UUID", host.run(["nvidia-smi", "-L"]).output)
    assert said == shape.sub("UUID", captured("nvidia-smi-L-a16.txt"))


def test_a_display_card_brings_three_functions_and_its_bridge_into_its_group(make: Make) -> None:
    host = make("a40-mixed")
    classes = {host.read(host.pci(each) / "class")[:6] for each in members(host, "0000:65:00.0")}
    assert classes == {"0x0604", "0x0300", "0x0403", "0x0c03", "0x0c80"}
    assert host.read(host.pci("0000:02:00.0") / "boot_vga") == "1"
    assert host.read(host.pci("0000:65:00.0") / "boot_vga") == "0"


def members(host: SimulatedHost, address: str) -> list[str]:
    return host.names(host.pci(address) / "iommu_group/devices")


def test_names_with_blanks_and_another_pci_domain(make: Make) -> None:
    host = make("rtx-pro-6000")
    table = (host.pci("0001:c8:00.4") / "nvidia/creatable_vgpu_types").read_text()
    assert "1521  : NVIDIA RTX Pro 6000 Blackwell DC-4Q\n" in table
    assert host.link(host.pci("0001:c8:00.0") / "virtfn47") == "0001:c8:06.3"
    assert "00000001:C8:00.0" in host.run(["nvidia-smi", "-q"]).output


def test_functions_run_on_through_the_slots() -> None:
    assert functions("0001:c8:00.0", 48)[-1] == "0001:c8:06.3"


def test_ids_are_those_that_were_seen() -> None:
    seen = {1518: "2B", 1519: "3Q", 1521: "4Q", 1525: "8Q", 1534: "24Q", 1540: "48Q", 1546: "1-2Q", 1587: "4-96C"}
    ours = {kind.number: kind.name.split("DC-")[1] for kind in RTX_PRO_6000.types()}
    assert {number: ours[number] for number in seen} == seen
    assert {kind.number for kind in A100.types() if kind.profile} == {699, 700, 701, 702, 703, 707, 1054}
    assert {kind.number for kind in H100.types() if kind.profile} == {821, 822, 823, 824, 825, 993, 1059}


@pytest.mark.parametrize("layout", sorted(NAMES))
def test_no_two_types_of_a_board_have_one_id(layout: str) -> None:
    for card in LAYOUTS[layout]:
        ids = [kind.driver_id for kind in card.board.types()]
        assert len(ids) == len(set(ids))


def test_no_two_functions_share_a_group_by_mistake(make: Make) -> None:
    for layout in NAMES:
        host = make(layout)
        beside = {each.address for card in LAYOUTS[layout] for each in card.companions}
        for group in host.path("/sys/kernel/iommu_groups").iterdir():
            inside = [path.name for path in (group / "devices").iterdir()]
            assert len(set(inside) - beside) <= 1


def test_two_layouts_do_not_touch_each_other(make: Make) -> None:
    one, other = make("l40s"), make("h100")
    one.run(["sriov-manage", "-d", "ALL"])
    assert other.read(other.pci("0000:4e:00.0") / "sriov_numvfs") == "20"
    assert Path(one.root).exists()
