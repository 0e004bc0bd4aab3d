"""What is said of a card beside its types: its regime and those it can have, its functions, its holders, its gaps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.vmctl.gpus.hosts import FLEX, H100, L40S, RTX_4000, card, flex, reasons, simulated, want
from tests.vmctl.gpus.trees import function, kind, nvidia, plant
from vmctl import gpus
from vmctl.card import Framework, Mode, Regime, VFs
from vmctl.errors import VmctlError
from vmctl.gpus import processes
from vmctl.gpus.driver.answers import Active, DriverFacts
from vmctl.gpus.inventory import FUNCTIONS_SECONDS, REBIND_SECONDS
from vmctl.host import Host
from vmctl.simulate import holders

T4 = "0000:3b:00.0"


@pytest.mark.parametrize(
    ("layout", "gpu", "framework", "regime", "others"),
    [
        ("t4", T4, Framework.MDEV_PF, Regime.EQUAL, (Regime.WHOLE,)),
        ("a40", "0000:41:00.0", Framework.MDEV_VF, Regime.EQUAL, (Regime.WHOLE,)),
        ("a40-mixed", "0000:41:00.0", Framework.MDEV_VF, Regime.MIXED, (Regime.WHOLE,)),
        ("l40s", L40S, Framework.VENDOR_VFIO, Regime.EQUAL, (Regime.WHOLE,)),
        ("a100-mig", "0000:41:00.0", Framework.MDEV_VF, Regime.MIG, (Regime.WHOLE,)),
        ("gvtg", "0000:00:02.0", Framework.MDEV_PF, Regime.EQUAL, ()),  # it drives the host's screen
    ],
)
def test_a_card_is_in_one_regime_and_can_be_whole_where_its_group_allows_it(
    memory: Path, layout: str, gpu: str, framework: Framework, regime: Regime, others: tuple[Regime, ...]
) -> None:
    found = card(simulated(memory, layout), gpu)
    assert (found.framework, found.regime, found.regimes) == (framework, regime, (regime, *others))
    assert (found.reason, reasons(found)) == ("", {})
    assert {each.regime for each in found.types} == {regime}


def test_a_card_that_cannot_be_cut_can_be_given_whole(memory: Path) -> None:
    found = card(simulated(memory, "a40-mixed"), RTX_4000)
    assert (found.framework, found.regimes, found.types) == (Framework.PASSTHROUGH, (Regime.WHOLE,), ())
    assert "offers no vGPU on this card" in found.reason
    assert found.reason in reasons(found)["types"]  # a wrong package is no "none" (field log A24)


def test_a_driver_that_knows_no_parts_is_no_fault(bare: Host) -> None:
    address, group = "0000:03:00.0", "/sys/kernel/iommu_groups/7"
    plant(bare.root, function(address, vendor="0x1002", driver="amdgpu", **{"class": "0x030000"}))
    plant(bare.root, f"/sys/bus/pci/devices/{address}/iommu_group -> {group}")
    plant(bare.root, f"{group}/devices/{address} -> /sys/bus/pci/devices/{address}")
    found = card(bare, address)
    assert (found.framework, found.regimes) == (Framework.PASSTHROUGH, (Regime.WHOLE,))
    assert (found.reason, "types" in reasons(found)) == ("The driver amdgpu makes no parts of this card.", False)


def test_how_long_another_regime_takes_is_told_where_there_is_one(memory: Path) -> None:
    seconds = {
        layout: card(simulated(memory, layout), gpu).regime_change_seconds
        for layout, gpu in (("t4", T4), ("l40s", L40S), ("gvtg", "0000:00:02.0"))
    }
    assert seconds == {"t4": REBIND_SECONDS, "l40s": FUNCTIONS_SECONDS, "gvtg": None}


def test_functions_without_a_share_are_counted(memory: Path) -> None:
    host = simulated(memory, "l40s")
    gpus.provide(host, want(L40S, "L40S-24Q", handle=7))
    assert card(host, L40S).vfs == VFs(16, 16, 15)
    parts = flex(memory)
    gpus.provide(parts, want(FLEX, "VF-1of4", Regime.VF, cell=(1, 2), handle=1))
    assert card(parts, FLEX).vfs == VFs(31, 4, 3)


@pytest.mark.parametrize("text", ["", "sixteen", "-1"])
def test_a_count_of_functions_that_is_none_is_unknown(bare: Host, text: str) -> None:
    folder = f"/sys/bus/pci/devices/{L40S}"
    plant(bare.root, function(L40S) + f"{folder}/sriov_totalvfs = 16\n{folder}/sriov_numvfs = {text}")
    found = card(bare, L40S)
    assert (found.vfs, reasons(found)["vfs"]) == (None, f"sriov_numvfs says {text!r}.")


def test_functions_that_are_on_and_not_shown_are_said(bare: Host) -> None:
    folder = f"/sys/bus/pci/devices/{L40S}"
    plant(bare.root, function(L40S) + f"{folder}/sriov_totalvfs = 16\n{folder}/sriov_numvfs = 16")
    found = card(bare, L40S)
    assert reasons(found)["vfs"] == "16 are on, but the kernel shows 0 of them."
    assert "shows none of its 16" in found.reason


@pytest.mark.field("A19")
def test_a_mode_that_waits_for_a_reset_leaves_nothing_to_book(memory: Path) -> None:
    host = simulated(memory, "h100")
    told = {H100: DriverFacts(mig=Mode(current=False, pending=True))}
    (found,) = gpus.inventory(host, told)
    assert (found.types, "after a reset" in reasons(found)["types"]) == ((), True)


def test_the_licence_of_a_guest_is_shown_with_its_share(memory: Path) -> None:
    host = simulated(memory, "l40s")
    made = gpus.provide(host, want(L40S, "L40S-24Q"), "1b2c")
    active = Active(7, vm="1b2c", type="L40S-24Q", licence="Licensed (Expiry: 2026-12-24 10:41:16 GMT)")
    found = gpus.inventory(host, {L40S: DriverFacts(active=(active,))})[0]
    assert found.holders == (replace(made, licence=active.licence),)
    assert card(host, L40S).holders == (made,)  # the driver tells nothing of a vGPU whose machine is off


def test_many_functions_that_say_the_same_say_it_once(bare: Host) -> None:
    folder, physical = "/sys/bus/pci/devices", "0000:41:00.0"
    plant(bare.root, function(physical))
    for number in range(5):
        address = f"0000:41:00.{number + 3}" if number < 5 else ""
        plant(bare.root, function(address) + f"{folder}/{address}/physfn -> {folder}/{physical}")
        plant(bare.root, f"{folder}/{physical}/virtfn{number} -> {folder}/{address}")
        plant(bare.root, kind(address, "nvidia-562", name="NVIDIA A40-8Q", description=nvidia(8, 6), available="?"))
    found = card(bare, physical)
    assert len([gap for gap in found.unknown if gap.what == "types.A40-8Q.free"]) == 1
    assert reasons(found)["types.A40-8Q.free"].endswith("And 2 more of this kind.")


@pytest.mark.parametrize("name", ["class", "vendor", "device", "numa_node"])
@pytest.mark.parametrize("text", [None, "", "\\x00\\xff", "0x"])
def test_a_card_with_an_unreadable_fact_stays_in_the_list(bare: Host, name: str, text: str | None) -> None:
    plant(bare.root, function(T4) + kind(T4, "nvidia-232", name="GRID T4-4Q", description=nvidia(4, 4)))
    file = bare.pci(T4) / name
    file.unlink()
    if text is not None:
        file.write_text(text)
    found = card(bare, T4)
    assert [each.name for each in found.types] == ["T4-4Q"]


def test_other_display_controllers_and_accelerators_of_these_vendors_are_gpus(bare: Host) -> None:
    plant(bare.root, function("0000:6a:00.0", vendor="0x8086", driver="xe", **{"class": "0x038000"}))
    plant(bare.root, function("0000:0c:00.0", vendor="0x1002", driver="amdgpu", **{"class": "0x120000"}))
    plant(bare.root, function("0000:0d:00.0", vendor="0x1da3", driver="habanalabs", **{"class": "0x120000"}))
    assert [gpu.address for gpu in gpus.inventory(bare)] == ["0000:0c:00.0", "0000:6a:00.0"]


def test_who_has_a_node_open_is_named_once_with_the_command(bare: Host) -> None:
    holders.hold(bare.root, "/dev/vfio/41", process=4711)
    holders.hold(bare.root, "/dev/vfio/41", process=4711)
    holders.hold(bare.root, "/dev/nvidia0", process=99, command="dcgm-exporter")
    plant(bare.root, "/proc/7/fd/3 -> /dev/null\n/proc/self/fd/3 -> /dev/null")
    found = processes.holding(bare, {"/dev/vfio/41", "/dev/nvidia0"})
    assert processes.named(found) == "process 4711 (qemu-system-x86), process 99 (dcgm-exporter)"
    assert processes.holding(bare, set()) == processes.holding(bare, {"/dev/vfio/42"}) == []


def test_notes_that_cannot_be_read_leave_the_cards_in_the_list(memory: Path) -> None:
    """Whose a share is cannot be said then; that is no reason to take cards for empty, or for lost."""
    host = simulated(memory, "l40s")
    gpus.provide(host, want(L40S, "L40S-24Q"))
    (host.state_dir / "vgpus.json").write_text("[{")
    first, second = gpus.inventory(host)
    assert "vgpus.json cannot be read" in reasons(first)["holders"]
    assert {each.free for each in (*first.types, *second.types)} == {None}
    with pytest.raises(VmctlError, match="cannot be read"):
        gpus.provide(host, want(L40S, "L40S-24Q"))
