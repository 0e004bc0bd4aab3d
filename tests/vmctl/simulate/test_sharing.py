"""What the simulated driver lets stand side by side, and what it refuses (dossier 3)."""

from __future__ import annotations

import errno
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.vmctl.simulate.conftest import Make
from tests.vmctl.simulate.doors import creatable, left, mdev, smi, vf_type, write
from vmctl.errors import VmctlError
from vmctl.simulate import SimulatedHost, rules
from vmctl.simulate.boards import A16, A40, A100, L40S, RTX_PRO_6000, T4
from vmctl.simulate.kinds import Board
from vmctl.simulate.state import VGPU, CardState, Instance


def refused(host: SimulatedHost, function: str, value: str) -> int:
    with pytest.raises(OSError, match=r".") as refusal:
        write(host, vf_type(host, function), value)
    assert refusal.value.errno is not None
    return refusal.value.errno


# -- equal size ------------------------------------------------------------------------------------


def test_the_first_vgpu_decides_the_size_and_the_last_frees_it(make: Make) -> None:
    host = make("l40s")
    assert write(host, vf_type(host, "0000:26:00.4"), "1155") == "1155"
    assert creatable(host, "0000:26:00.5") == {"24Q", "24A"}
    assert refused(host, "0000:26:00.5", "1150") == errno.EIO
    assert host.read(vf_type(host, "0000:26:00.5")) == "0"
    assert "NVRM: Failed to add vgpu create request: 0x38" in host.run(["dmesg"]).output
    assert write(host, vf_type(host, "0000:26:00.5"), "1165") == "1165"
    assert creatable(host, "0000:26:00.6") == set()  # a header alone: the GPU is full
    assert "4Q" in creatable(host, "0000:a6:00.4")
    for function in ("0000:26:00.4", "0000:26:00.5"):
        write(host, vf_type(host, function), "0")
    assert "4Q" in creatable(host, "0000:26:00.6")


def test_a_vf_with_a_vgpu_offers_nothing_and_tells_its_place(make: Make) -> None:
    host = make("l40s")
    write(host, vf_type(host, "0000:26:00.4"), "1150")
    write(host, vf_type(host, "0000:26:00.5"), "1150")
    assert creatable(host, "0000:26:00.4") == set()
    assert host.read(host.pci("0000:26:00.5") / "nvidia/placement_id") == "4"
    assert host.read_or_none(host.pci("0000:26:00.5") / "nvidia/gpu_instance_id") is None
    assert refused(host, "0000:26:00.4", "1150") == errno.EIO
    assert host.read(vf_type(host, "0000:26:00.4")) == "1150"


def test_a_type_that_the_card_has_not_is_refused(make: Make) -> None:
    host = make("l40s")
    assert refused(host, "0000:26:00.4", "4711") == errno.EIO
    assert refused(host, "0000:26:00.4", "L40S-4Q") == errno.EINVAL


def test_no_more_than_the_vfs_and_no_more_than_the_type(make: Make) -> None:
    host = make("l40s")
    functions = [host.link(host.pci("0000:26:00.0") / f"virtfn{number}") or "" for number in range(16)]
    for function in functions[:12]:
        write(host, vf_type(host, function), "1150")
    assert refused(host, functions[12], "1150") == errno.EIO
    assert "L40S" not in smi(host, "vgpu -c -i 0")


def test_most_without_mig_is_less_than_the_vfs(make: Make) -> None:
    host = make("rtx-pro-6000")
    functions = [host.link(host.pci("0001:c8:00.0") / f"virtfn{number}") or "" for number in range(48)]
    for function in functions[:32]:
        write(host, vf_type(host, function), "1519")
    assert refused(host, functions[32], "1519") == errno.EIO


def test_mediated_devices_are_refused_with_no_space(make: Make) -> None:
    host = make("a16")
    mdev(host, "0000:13:00.4", "nvidia-714")
    assert left(host, "0000:13:00.5", "nvidia-714") == 1
    assert left(host, "0000:13:00.5", "nvidia-713") == 0
    assert left(host, "0000:14:00.4", "nvidia-713") == 1  # the next GPU of the board is another one
    with pytest.raises(OSError, match="No space") as refusal:
        mdev(host, "0000:13:00.5", "nvidia-713")
    assert refusal.value.errno == errno.ENOSPC
    folder = host.pci("0000:13:00.5") / "mdev_supported_types/nvidia-714/create"
    for value, number in (("no uuid", errno.EINVAL), (host.names(host.path("/sys/bus/mdev/devices"))[0], errno.EEXIST)):
        with pytest.raises(OSError, match=r".") as refusal:
            write(host, folder, value)
        assert refusal.value.errno == number


def test_intel_promises_more_than_it_has(make: Make) -> None:
    host = make("gvtg")
    mdev(host, "0000:00:02.0", "i915-GVTg_V5_1")
    assert left(host, "0000:00:02.0", "i915-GVTg_V5_4") == 5
    with pytest.raises(OSError, match="No space left on device"):
        mdev(host, "0000:00:02.0", "i915-GVTg_V5_4")


# -- mixed sizes -----------------------------------------------------------------------------------


def test_sizes_stand_side_by_side_at_their_starts(make: Make) -> None:
    host = make("l40s")
    assert smi(host, "vgpu -i 0 -shm 1") == "Enabled vGPU heterogeneous mode for GPU 00000000:26:00.0\n"
    write(host, vf_type(host, "0000:26:00.4"), "1155")  # 24 GiB at 0
    write(host, vf_type(host, "0000:26:00.5"), "1152")  # 8 GiB: 24 is its first start behind that
    assert host.read(host.pci("0000:26:00.5") / "nvidia/placement_id") == "24"
    said = smi(host, "vgpu -c -v -i 0")
    eight = said.split("NVIDIA L40S-8Q")[1].split("vGPU Type ID")[0]
    assert re.search(r"Placement Size +: 8\n.*Creatable Placement IDs +: 40\n", eight)
    supported = smi(host, "vgpu -s -v -i 0").split("NVIDIA L40S-8Q")[1].split("vGPU Type ID")[0]
    assert re.search(r"Supported Placement IDs +: 0 16 24 40\n", supported)


def test_a_place_can_be_demanded_and_an_impossible_one_shows_when_read_back(make: Make) -> None:
    host = make("l40s")
    smi(host, "vgpu -i 0 -shm 1")
    place = host.pci("0000:26:00.4") / "nvidia/placement_id"
    write(host, vf_type(host, "0000:26:00.4"), "1152")
    params = host.pci("0000:26:00.4") / "nvidia/vgpu_params"
    assert write(host, params, "vgpu-placement-id=40") == "vgpu-placement-id=40"
    assert host.read(place) == "40"
    write(host, params, "vgpu-placement-id=41")
    assert host.read(place) == "40"
    assert write(host, params, " ") == ""
    write(host, vf_type(host, "0000:26:00.4"), "0")
    write(host, params, "vgpu-placement-id=16")
    write(host, vf_type(host, "0000:26:00.4"), "1152")
    assert host.read(place) == "16"


def test_a_mediated_device_takes_its_place_by_its_parameters(make: Make) -> None:
    host = make("a40-mixed")
    made = mdev(host, "0000:41:00.4", "nvidia-562")
    params = host.path(f"/sys/bus/mdev/devices/{made}/nvidia/vgpu_params")
    write(host, params, "frame_rate_limiter=0,vgpu-placement-id=24")
    said = smi(host, "vgpu -c -v -i 1").split("NVIDIA A40-8Q")[1].split("vGPU Type ID")[0]
    assert re.search(r"Creatable Placement IDs +: 0 16 40\n", said)
    assert left(host, "0000:41:00.5", "nvidia-566") == 0  # 48 GiB
    assert left(host, "0000:41:00.5", "nvidia-565") == 1  # 24 GiB at 0


BOARDS = st.sampled_from([A16, A40, A100, L40S, RTX_PRO_6000, T4])


def fill(board: Board, card: CardState, numbers: list[int]) -> list[range]:
    """Make vGPUs of these types as long as the driver takes them; where they lie."""
    kinds = [kind for kind in board.types() if not kind.profile]
    for number in numbers:
        kind = kinds[number % len(kinds)]
        function = f"vf{len(card.vgpus)}"
        found = rules.place(board, card, kind, function)
        if found is not None:
            card.vgpus[function] = VGPU(function, kind.driver_id, found.placement)
    held = [(vgpu.placement or 0, board.by_id[vgpu.kind]) for vgpu in card.vgpus.values()]
    return [range(start, start + (board.places(kind)[0] if board.region else kind.size)) for start, kind in held]


@settings(max_examples=60, deadline=None)
@given(board=BOARDS, mixed=st.booleans(), numbers=st.lists(st.integers(0, 60), max_size=40))
def test_no_two_vgpus_ever_overlap(board: Board, mixed: bool, numbers: list[int]) -> None:
    card = CardState(vfs=board.vfs, mixed=mixed and board.region > 0)
    places = fill(board, card, numbers)
    units = [unit for place in places for unit in place]
    assert len(units) == len(set(units))
    assert all(place.stop <= (board.region or board.total_mib // 1024 + 1) for place in places)
    assert len(places) <= 32
    sizes = {board.by_id[vgpu.kind].mib for vgpu in card.vgpus.values()}
    assert card.mixed or len(sizes) <= 1


# -- MIG -------------------------------------------------------------------------------------------


def test_a_backed_vgpu_needs_a_gpu_instance_of_its_profile(make: Make) -> None:
    host = make("a100-mig")
    assert {left(host, "0000:41:00.4", kind.driver_id) for kind in A100.types()} == {0}
    smi(host, "mig -i 0 -cgi 3g.40gb:0,19:4 -C")
    assert left(host, "0000:41:00.4", "nvidia-701") == 1
    assert left(host, "0000:41:00.4", "nvidia-699") == 1
    assert left(host, "0000:41:00.4", "nvidia-702") == 0
    mdev(host, "0000:41:00.4", "nvidia-701")
    assert left(host, "0000:41:00.5", "nvidia-701") == 0
    with pytest.raises(OSError, match="No space"):
        mdev(host, "0000:41:00.5", "nvidia-701")
    assert "In use by another client" in smi(host, "mig -i 0 -dci -gi 1", status=19)
    smi(host, "mig -i 0 -dci -gi 11")
    assert "Successfully destroyed GPU instance ID 11" in smi(host, "mig -i 0 -dgi -gi 11")


def test_a_start_that_is_taken_is_refused_and_what_was_made_stays(make: Make) -> None:
    host = make("a100-mig")
    said = smi(host, "mig -i 0 -cgi 9:4,9:4", status=19)
    assert "Insufficient Resources" in said
    assert smi(host, "mig -i 0 -lgi").count(" MIG ") == 1
    assert "Insufficient Resources" in smi(host, "mig -i 0 -cgi 0", status=19)
    assert smi(host, "mig -i 0 -cgi 5").count("Successfully") == 1  # 4g fits beside a 3g at 4


def test_only_one_profile_with_media_engines(make: Make) -> None:
    host = make("a100-mig")
    assert "Insufficient Resources" in smi(host, "mig -i 0 -cgi 20,20", status=19)


def test_several_vgpus_share_a_gpu_instance_of_the_newest_card(make: Make) -> None:
    host = make("rtx-pro-6000")
    host.run(["sriov-manage", "-d", "0001:c8:00.0"])
    assert "Enabled MIG Mode for GPU 00000001:C8:00.0" in smi(host, "-i 00000001:C8:00.0 -mig 1")
    host.run(["sriov-manage", "-e", "0001:c8:00.0"])
    smi(host, "mig -i 0 -cgi 47,47")
    for function in ("0001:c8:00.4", "0001:c8:00.5", "0001:c8:00.6"):
        write(host, vf_type(host, function), "1558")  # 12 GiB in a quarter
    folders = [host.pci(f"0001:c8:00.{number}") / "nvidia" for number in (4, 5, 6)]
    assert [host.read(folder / "gpu_instance_id") for folder in folders] == ["3", "3", "4"]
    assert [host.read(folder / "placement_id") for folder in folders] == ["0", "12", "0"]
    assert refused(host, "0001:c8:00.7", "1561") == errno.EIO  # another size in a shared instance


@settings(max_examples=60, deadline=None)
@given(board=st.sampled_from([A100, RTX_PRO_6000]), wishes=st.lists(st.integers(0, 20), max_size=14))
def test_gpu_instances_never_overlap_and_never_take_too_many_slices(board: Board, wishes: list[int]) -> None:
    card = CardState(mig=True)
    for wish in wishes:
        profile = board.profiles[wish % len(board.profiles)]
        before = rules.remaining(board, card, profile)
        start = rules.choose(board, card, profile)
        assert (start is None) == (before == 0)
        if start is not None:
            number = rules.instance_id(board, profile, start)
            assert str(number) not in card.instances
            card.instances[str(number)] = Instance(profile.name, start)
    held = [(board.profile(each.profile), each.start) for each in card.instances.values()]
    units = [unit for profile, start in held for unit in range(start, start + profile.size)]
    assert len(units) == len(set(units))
    assert sum(profile.compute for profile, _ in held) <= max(profile.compute for profile in board.profiles)
    assert sum(profile.media for profile, _ in held) <= 1


def test_a_vf_that_is_open_keeps_its_vgpu(make: Make) -> None:
    host = make("l40s")
    write(host, vf_type(host, "0000:26:00.4"), "1155")
    group = host.link(host.pci("0000:26:00.4") / "iommu_group")
    with host.path(f"/dev/vfio/{group}").open():
        assert refused(host, "0000:26:00.4", "0") == errno.EBUSY
    write(host, vf_type(host, "0000:26:00.4"), "0")


def test_a_mediated_device_that_is_open_lets_its_remover_sleep(make: Make) -> None:
    host = make("t4")
    made = mdev(host, "0000:3b:00.0", "nvidia-232")
    where = host.path(f"/sys/bus/mdev/devices/{made}")
    with host.path(f"/dev/vfio/{host.link(where / 'iommu_group')}").open(), pytest.raises(VmctlError) as sleeping:
        write(host, where / "remove", "1")
    assert sleeping.value.retry
    assert where.exists()
    write(host, where / "remove", "1")
    assert not where.exists()
