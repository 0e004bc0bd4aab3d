"""The vendor's own VFIO interface: a number in a file, which the driver may refuse, keep or forget (dossier 1.3)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.vmctl.gpus.hosts import L40S, card, reasons, simulated, want
from tests.vmctl.gpus.trees import function, plant
from vmctl import gpus
from vmctl.card import Framework
from vmctl.errors import Code, VmctlError
from vmctl.gpus.ways import vendor_vfio
from vmctl.host import Host
from vmctl.ledger import Ledger
from vmctl.model import PCIFunction, Place
from vmctl.simulate import SimulatedHost, faults, holders

FIRST, SECOND = "0000:26:00.4", "0000:26:00.5"
FIXTURES = Path(__file__).parents[2] / "data/fixtures"
HEADER = "ID    : vGPU Name"


@pytest.fixture
def l40s(memory: Path) -> SimulatedHost:
    return simulated(memory, "l40s")


def kind(host: Host, address: str) -> str:
    return host.read(host.pci(address) / "nvidia/current_vgpu_type")


def by_hand(host: Host, address: str, number: str) -> None:
    path = host.pci(address) / "nvidia/current_vgpu_type"
    host.write(path, number, reading=path)


def planted(host: Host, *tables: str) -> None:
    """A card whose functions show these tables; neither NVML nor nvidia-smi is there."""
    folder = f"/sys/bus/pci/devices/{L40S}"
    plant(host.root, function(L40S) + f"{folder}/sriov_totalvfs = 16\n{folder}/sriov_numvfs = {len(tables)}")
    for number, table in enumerate(tables):
        address = f"0000:26:00.{4 + number}"
        plant(host.root, function(address) + f"/sys/bus/pci/devices/{address}/physfn -> {folder}")
        plant(host.root, f"{folder}/virtfn{number} -> /sys/bus/pci/devices/{address}")
        files = host.pci(address) / "nvidia"
        files.mkdir()
        (files / "creatable_vgpu_types").write_text(table)
        (files / "current_vgpu_type").write_text("0\n")


@pytest.mark.field("A01")
def test_a_table_has_a_header_and_names_with_blanks(bare: Host) -> None:
    planted(bare, f"{HEADER}\n1145  : NVIDIA L40S-1B\n1534  : NVIDIA RTX Pro 6000 Blackwell DC-1-24Q: x\n")
    found = vendor_vfio.creatable(bare, FIRST)
    assert found == {"L40S-1B": "1145", "RTX Pro 6000 Blackwell DC-1-24Q: x": "1534"}


@pytest.mark.field("A01")
def test_captured_tables_are_read_whole(bare: Host) -> None:
    planted(bare, (FIXTURES / "vf-creatable_vgpu_types-l40s-free.txt").read_text())
    found = vendor_vfio.creatable(bare, FIRST)
    assert (len(found), found["L40S-48Q"], found["L40S-3B"]) == (23, "1156", "2164")


@pytest.mark.field("A01")
def test_a_header_alone_is_a_valid_list_and_other_functions_still_count(bare: Host) -> None:
    planted(bare, f"{HEADER}\n", f"{HEADER}\n1155  : NVIDIA L40S-24Q\n")
    gpu = card(bare, L40S)
    assert (gpu.framework, gpu.handles, [each.name for each in gpu.types]) == (Framework.VENDOR_VFIO, 2, ["L40S-24Q"])
    assert "no table" not in str(reasons(gpu))


@pytest.mark.field("A01")
@pytest.mark.parametrize(
    "garbage", ["", "Input/output error\n", "1155  : NVIDIA L40S-24Q\n", f"{HEADER}\nGRID T4-4Q 230\n"]
)
def test_garbage_is_unknown_with_the_reason_and_never_an_empty_list(bare: Host, garbage: str) -> None:
    planted(bare, garbage, f"{HEADER}\n1155  : NVIDIA L40S-24Q\n")
    gpu = card(bare, L40S)
    assert f"of {FIRST} says" in reasons(gpu)["types"]
    assert [each.name for each in gpu.types] == ["L40S-24Q"]


def test_a_full_gpu_still_names_its_types(l40s: SimulatedHost) -> None:
    """Its functions show the header only; the driver tells what there is all the same."""
    gpus.provide(l40s, want(L40S, "L40S-48Q"))
    assert vendor_vfio.creatable(l40s, SECOND) == {}
    gpu = card(l40s, L40S)
    assert len(gpu.types) == 23
    assert {each.free for each in gpu.types} == {0}
    assert reasons(gpu) == {}


def test_the_type_goes_by_name_and_its_number_is_read_back(l40s: SimulatedHost) -> None:
    made = gpus.provide(l40s, want(L40S, "L40S-24Q", handle=1), "machine")
    assert (made.parent, made.handle, kind(l40s, SECOND)) == (SECOND, 1, "1155")
    assert gpus.device(made) == PCIFunction(str(made.uuid), SECOND)
    assert l40s.link(l40s.pci(SECOND) / "driver") == "nvidia"  # it stays there: libvirt must not rebind it
    noted = Ledger(l40s.state_dir).get(made.uuid)
    assert noted is not None
    assert (noted.device, noted.handle, noted.driver_id) == (SECOND, 1, "1155")


@pytest.mark.field("A07")
def test_a_type_that_vanished_with_a_driver_is_refused_by_name(l40s: SimulatedHost) -> None:
    with pytest.raises(VmctlError, match=r"does not offer L40S-5Q on 0000:26:00\.4; it offers .*L40S-4Q") as refusal:
        gpus.provide(l40s, want(L40S, "L40S-5Q"))
    assert (refusal.value.code, refusal.value.retry) == (Code.FAILED, False)
    assert gpus.provided(l40s) == []


@pytest.mark.field("A07")
def test_without_the_drivers_tools_an_empty_card_tells_what_it_has(bare: Host) -> None:
    planted(bare, f"{HEADER}\n1155  : NVIDIA L40S-24Q\n")
    with pytest.raises(VmctlError, match="does not offer L40S-5Q") as refusal:
        gpus.provide(bare, want(L40S, "L40S-5Q"))
    assert not refusal.value.retry


@pytest.mark.field("A08")
@pytest.mark.parametrize("error", ["EIO", "ENOSPC", "EINVAL"])
def test_a_function_that_refuses_is_followed_by_the_next(l40s: SimulatedHost, error: str) -> None:
    faults.plant(l40s.root, [{"match": rf"{FIRST}/nvidia/current_vgpu_type", "error": error}])
    made = gpus.provide(l40s, want(L40S, "L40S-24Q", handle=0))
    assert made.parent == SECOND
    assert (kind(l40s, FIRST), gpus.provided(l40s)) == ("0", [made])


@pytest.mark.field("A08")
@pytest.mark.parametrize("error", ["EIO", "ENOSPC", "EINVAL"])
def test_a_card_that_refuses_is_followed_by_the_next_and_nothing_is_half_made(l40s: SimulatedHost, error: str) -> None:
    faults.plant(l40s.root, [{"match": r"0000:26:.*/nvidia/current_vgpu_type", "error": error}])
    wish = want(L40S, "L40S-24Q")
    with pytest.raises(VmctlError, match="no room for L40S-24Q") as refusal:
        gpus.provide(l40s, wish)
    assert (refusal.value.code, refusal.value.retry) == (Code.NO_CAPACITY, True)
    assert (gpus.provided(l40s), list(Ledger(l40s.state_dir))) == ([], [])
    made = gpus.provide(l40s, replace(wish, alternatives=(Place("0000:a6:00.0", (0, 1), 3),)))
    assert (made.gpu, made.handle) == ("0000:a6:00.0", 3)


@pytest.mark.field("A20")
def test_a_write_that_made_nothing_is_a_failure(l40s: SimulatedHost) -> None:
    faults.plant(l40s.root, [{"match": "current_vgpu_type", "effect": False}])
    with pytest.raises(VmctlError, match=r"took L40S-24Q \(1155\) on 0000:26:00.4 but made 0"):
        gpus.provide(l40s, want(L40S, "L40S-24Q"))
    assert gpus.provided(l40s) == []


@pytest.mark.field("A09")
def test_another_size_is_refused_until_the_gpu_is_empty_again(l40s: SimulatedHost) -> None:
    small = gpus.provide(l40s, want(L40S, "L40S-4Q"))
    with pytest.raises(VmctlError, match="takes no L40S-8Q now") as refusal:
        gpus.provide(l40s, want(L40S, "L40S-8Q"))
    assert refusal.value.code is Code.NO_CAPACITY
    gpus.release(l40s, small)
    assert gpus.provide(l40s, want(L40S, "L40S-8Q")).type == "L40S-8Q"


@pytest.mark.field("A21")
def test_a_left_over_of_the_same_uuid_is_replaced_and_not_used(l40s: SimulatedHost) -> None:
    wish = want(L40S, "L40S-24Q")
    gpus.provide(l40s, replace(wish, gpu="0000:a6:00.0", type="L40S-4Q"))
    made = gpus.provide(l40s, wish)
    assert gpus.provided(l40s) == [made]
    assert (made.gpu, made.type) == (L40S, "L40S-24Q")


def test_a_share_whose_device_is_open_is_not_taken_away(l40s: SimulatedHost) -> None:
    made = gpus.provide(l40s, want(L40S, "L40S-24Q"))
    group = l40s.link(l40s.pci(FIRST) / "iommu_group")
    holders.hold(l40s.root, f"/dev/vfio/{group}", process=4711)
    with pytest.raises(VmctlError, match=r"in use by process 4711 \(qemu-system-x86\)") as refusal:
        gpus.release(l40s, made)
    assert (refusal.value.code, refusal.value.retry) == (Code.BUSY, True)
    assert gpus.provided(l40s) == [made]


@pytest.mark.field("A13")
@pytest.mark.parametrize("fault", [{"error": "EBUSY"}, {"effect": False}])
def test_a_failed_release_keeps_the_handle_and_a_later_one_frees_it(
    l40s: SimulatedHost, fault: dict[str, str | bool]
) -> None:
    made = gpus.provide(l40s, want(L40S, "L40S-24Q"))
    faults.plant(l40s.root, [{"match": "current_vgpu_type", "times": 1} | fault])
    with pytest.raises(VmctlError) as refusal:
        gpus.release(l40s, made)
    assert refusal.value.retry
    assert str(made.uuid) in Ledger(l40s.state_dir)
    gpu = card(l40s, L40S)
    assert (gpu.holders, gpu.vfs and gpu.vfs.free) == ((made,), 15)
    gpus.release(l40s, made)
    assert (gpus.provided(l40s), kind(l40s, FIRST), list(Ledger(l40s.state_dir))) == ([], "0", [])


@pytest.mark.field("A14")
def test_a_late_release_leaves_the_next_owner_of_the_function_alone(l40s: SimulatedHost) -> None:
    first = gpus.provide(l40s, want(L40S, "L40S-24Q", handle=0))
    gpus.release(l40s, first)
    second = gpus.provide(l40s, want(L40S, "L40S-24Q", handle=0))
    assert first.parent == second.parent
    gpus.release(l40s, first)
    assert (gpus.provided(l40s), kind(l40s, FIRST)) == ([second], "1155")


@pytest.mark.field("A14")
def test_a_function_that_somebody_else_took_meanwhile_is_theirs(l40s: SimulatedHost) -> None:
    """Our note is older than what is there: a reboot, and an administrator's own type on the same function."""
    made = gpus.provide(l40s, want(L40S, "L40S-24Q"))
    by_hand(l40s, FIRST, "0")
    by_hand(l40s, FIRST, "1150")
    (foreign,) = gpus.provided(l40s)
    assert (foreign.uuid, foreign.type, foreign.parent) == (None, "L40S-4Q", FIRST)
    gpus.release(l40s, made)
    assert kind(l40s, FIRST) == "1150"
    with pytest.raises(VmctlError, match="was not made by vmctl") as refusal:
        gpus.release(l40s, foreign)
    assert refusal.value.code is Code.NOT_OURS


def test_a_foreign_share_counts_and_its_function_is_not_used(l40s: SimulatedHost) -> None:
    by_hand(l40s, FIRST, "1155")
    made = gpus.provide(l40s, want(L40S, "L40S-24Q", handle=0))
    assert made.handle == 1
    full = next(each for each in card(l40s, L40S).types if each.name == "L40S-24Q")
    assert (full.max, full.free) == (2, 0)


@pytest.mark.parametrize("garbage", ["", "none", "-1", "NVIDIA L40S-24Q"])
def test_a_function_that_does_not_tell_is_no_empty_one(bare: Host, garbage: str) -> None:
    planted(bare, f"{HEADER}\n1155  : NVIDIA L40S-24Q\n", f"{HEADER}\n")
    (bare.pci(SECOND) / "nvidia/current_vgpu_type").write_text(garbage)
    gpu = card(bare, L40S)
    assert f"on {SECOND} cannot be told" in reasons(gpu)["holders"]
    assert {each.free for each in gpu.types} == {None}
    assert gpu.vfs is not None
    assert gpu.vfs.free is None
    with pytest.raises(VmctlError, match="cannot be told"):
        gpus.provided(bare)


def test_a_function_that_is_not_ready_is_said_and_the_others_serve(bare: Host) -> None:
    planted(bare, "", f"{HEADER}\n1155  : NVIDIA L40S-24Q\n")
    for file in (bare.pci(FIRST) / "nvidia").iterdir():
        file.unlink()
    gpu = card(bare, L40S)
    assert (gpu.handles, f"not ready on {FIRST}" in reasons(gpu)["types"]) == (1, True)
    made = gpus.provide(bare, want(L40S, "L40S-24Q", handle=0))
    assert made.parent == SECOND


def test_a_type_that_leads_nowhere_beside_a_list_of_types_is_no_empty_function(bare: Host) -> None:
    planted(bare, f"{HEADER}\n1155  : NVIDIA L40S-24Q\n", f"{HEADER}\n")
    path = bare.pci(SECOND) / "nvidia/current_vgpu_type"
    path.unlink()
    assert f"on {SECOND} cannot be told" in reasons(card(bare, L40S))["holders"]
    path.symlink_to("nowhere")
    assert f"on {SECOND} cannot be told" in reasons(card(bare, L40S))["holders"]
