"""The simulated kernel answers as captured machines do: same files, same text, same numbers."""

from __future__ import annotations

import re
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.vmctl.gpus.trees import captured
from vmctl import gpus
from vmctl.card import Regime
from vmctl.errors import VmctlError
from vmctl.model import WantedVGPU
from vmctl.simulate import SimulatedHost, prepare
from vmctl.simulate.boards import A40, T4
from vmctl.simulate.kinds import Board
from vmctl.simulate.layouts import functions


def wanted(gpu: str, name: str, handle: int = 0) -> WantedVGPU:
    return WantedVGPU(str(uuid.uuid4()), gpu, name, Regime.EQUAL, (handle, handle + 1), handle)


def counters(folder: Path) -> dict[str, int]:
    """Type name without board -> available_instances."""
    return {
        (kind / "name").read_text().strip().rsplit("-", 1)[1]: int((kind / "available_instances").read_text())
        for kind in folder.iterdir()
    }


def shape(text: str) -> str:
    return re.sub(r"\d+", "N", text)


@pytest.mark.parametrize(("board", "table"), [(T4, "t4-types.txt"), (A40, "a40-types.txt")])
def test_types_are_those_of_the_guides(board: Board, table: str) -> None:
    rows = [line.split() for line in captured(table).splitlines() if not line.startswith("#")]
    simulated = {kind.driver_id: kind for kind in board.types()}
    assert len(rows) == len(simulated)
    for driver_id, name, mebibytes, most, heads, resolution in rows:
        kind = simulated[driver_id]
        assert gpus_name(kind.name) == name
        assert f"framebuffer={mebibytes}M" in kind.description
        assert most in ("-", str(kind.most))
        assert heads == "-" or f"num_heads={heads}, " in kind.description
        assert resolution == "-" or f"max_resolution={resolution}, " in kind.description


def gpus_name(name: str) -> str:
    return name.removeprefix("GRID ").removeprefix("NVIDIA ")


def test_a_t4_has_the_type_folders_of_a_captured_one(t4: SimulatedHost) -> None:
    listing = set(re.findall(r"nvidia-\d+", captured("t4-type-ids.txt")))
    assert {path.name for path in (t4.pci("0000:3b:00.0") / "mdev_supported_types").iterdir()} == listing


def test_a_vf_has_the_files_of_a_captured_one(a40: SimulatedHost) -> None:
    tree = captured("a2-vf-gpu-at-4g.tree")
    names = {match[1] for match in re.finditer(r"mdev_supported_types/nvidia-\d+/([a-z_]+)", tree)}
    folder = a40.pci("0000:41:01.7") / "mdev_supported_types"
    assert all({path.name for path in kind.iterdir()} == names for kind in folder.iterdir())
    for name in ("class", "vendor", "device", "numa_node", "driver_override"):
        text = re.search(rf"01\.7/{name} = (.*)", tree)
        assert text is not None
        if name not in ("device",):
            assert a40.read(a40.pci("0000:41:01.7") / name) == text[1]


def test_descriptions_are_written_as_on_captured_machines(a40: SimulatedHost, t4: SimulatedHost) -> None:
    seen = {shape(text) for text in re.findall(r"description = (.*)", captured("a2-vf-gpu-at-4g.tree"))}
    seen |= {
        shape(text.strip()) for text in re.findall(r"Description: (num_heads.*)", captured("rtx6000-pf-one-1q.txt"))
    }
    for host, address in ((a40, "0000:41:00.4"), (t4, "0000:3b:00.0")):
        for kind in (host.pci(address) / "mdev_supported_types").iterdir():
            text = (kind / "description").read_text()
            assert text.endswith("\n")
            assert shape(text.strip()) in seen


def test_series_print_what_a_captured_driver_prints_for_them(a40: SimulatedHost) -> None:
    """Heads, frame limiter and resolution by size and series, as the A2 has them."""
    tree = captured("a2-vf-gpu-at-4g.tree")
    real = dict(re.findall(r"(nvidia-\d+)/name = NVIDIA A2-(\S+)", tree))
    texts = dict(re.findall(r"(nvidia-\d+)/description = (.*), max_instance", tree))
    for driver_id, name in real.items():
        ours = next((kind for kind in A40.types() if kind.name.endswith(f"-{name}")), None)
        if ours is not None:
            assert ours.description.rsplit(", ", 1)[0] == texts[driver_id]


def test_a_free_vf_shows_one_of_each_type(a40: SimulatedHost) -> None:
    assert all(line.split()[1] == "1" for line in captured("a100d-vf-free.txt").splitlines()[1:])
    assert set(counters(a40.pci("0000:81:00.4") / "mdev_supported_types").values()) == {1}


def test_a_vf_beside_one_that_holds_4_gb_shows_as_captured(a40: SimulatedHost) -> None:
    tree = captured("a2-vf-gpu-at-4g.tree")
    real = dict(re.findall(r"(nvidia-\d+)/name = NVIDIA A2-(\S+)", tree))
    left = {real[driver_id]: int(n) for driver_id, n in re.findall(r"(nvidia-\d+)/available_instances = (\d)", tree)}
    gpus.provide(a40, wanted("0000:41:00.0", "A40-4Q", 3))
    ours = counters(a40.pci("0000:41:00.4") / "mdev_supported_types")
    assert {name: ours[name] for name in left if name in ours} == {name: left[name] for name in left if name in ours}
    assert set(counters(a40.pci("0000:41:00.7") / "mdev_supported_types").values()) == {0}
    assert set(counters(a40.pci("0000:81:00.4") / "mdev_supported_types").values()) == {1}


def test_a_pf_with_one_vgpu_counts_as_captured(t4: SimulatedHost) -> None:
    listing = captured("rtx6000-pf-one-1q.txt")
    left = dict(
        zip(re.findall(r"Name: GRID RTX6000-(\S+)", listing), re.findall(r"instances: (\d+)", listing), strict=True)
    )
    most = dict(zip(left, re.findall(r"max_instance=(\d+)", listing), strict=True))
    assert {name: int(n) for name, n in left.items() if n != "0"} == {"1Q": int(most["1Q"]) - 1}
    gpus.provide(t4, wanted("0000:3b:00.0", "T4-1Q"))
    ours = counters(t4.pci("0000:3b:00.0") / "mdev_supported_types")
    assert {name: n for name, n in ours.items() if n} == {"1Q": 15, "1B": 15, "1B4": 15, "1A": 15}


def test_virtual_functions_are_numbered_as_captured(a40: SimulatedHost) -> None:
    lines = re.findall(r"virtfn(\d+) -> \.\./(\S+)", captured("virtfn-links.txt"))
    ours = functions("0000:41:00.0", 32)
    assert all(ours[int(number)] == address for number, address in lines)
    assert a40.link(a40.pci("0000:41:00.0") / "virtfn31") == "0000:41:04.3"


def test_a_made_vgpu_lies_below_its_function_and_has_a_group(a40: SimulatedHost) -> None:
    made = gpus.provide(a40, wanted("0000:41:00.0", "A40-2Q"))
    link = a40.path(f"/sys/bus/mdev/devices/{made.uuid}")
    assert link.resolve() == a40.root / f"sys/devices/pci0000:40/0000:40:01.1/0000:41:00.4/{made.uuid}"
    group = a40.link(link / "iommu_group")
    assert a40.names(a40.path(f"/sys/kernel/iommu_groups/{group}/devices")) == [made.uuid]
    gpus.release(a40, made)
    assert not a40.path(f"/sys/kernel/iommu_groups/{group}").exists()


def test_a_tree_is_made_once_and_never_over_something_else(tmp_path: Path) -> None:
    root = tmp_path / "host/root"
    prepare(root, "t4")
    made = (root / ".layout").stat().st_mtime_ns
    prepare(root, "t4")
    assert (root / ".layout").stat().st_mtime_ns == made
    with pytest.raises(VmctlError, match="not the layout a40"):
        prepare(root, "a40")
    with pytest.raises(VmctlError, match="no simulated layout 'h200'"):
        prepare(tmp_path / "other", "h200")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/thesis.txt").touch()
    with pytest.raises(VmctlError, match="something else"):
        prepare(tmp_path / "full", "t4")
    (tmp_path / "file").touch()
    with pytest.raises(VmctlError, match="No simulated host can be made"):
        prepare(tmp_path / "file/root", "t4")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "full", "host"]


def test_vgpus_do_not_survive_a_reboot(a40: SimulatedHost) -> None:
    gpus.provide(a40, wanted("0000:41:00.0", "A40-8Q"))
    boot = a40.path("/proc/sys/kernel/random/boot_id")
    boot.unlink()
    boot.write_text("another\n")
    again = SimulatedHost("a40", root=a40.root, state_dir=a40.state_dir)
    assert gpus.provided(again) == []
    assert again.read(again.pci("0000:41:00.0") / "sriov_numvfs") == "0"
    assert again.run(["sriov-manage", "-e", "ALL"]).status == 0
    assert set(counters(again.pci("0000:41:00.4") / "mdev_supported_types").values()) == {1}
    made = gpus.provide(again, wanted("0000:41:00.0", "A40-48Q"))
    assert gpus.provided(SimulatedHost("a40", root=a40.root, state_dir=a40.state_dir)) == [made]


def test_two_that_make_the_same_tree_both_use_it(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(prepare, tmp_path / "host/root", "t4") for _ in range(4)]:
            done.result()
    assert [path.name for path in (tmp_path / "host").iterdir()] == ["root"]
