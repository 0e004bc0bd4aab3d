"""A whole card for one machine: its group goes with it, and everything comes back (dossier 1.4 and 7.2)."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.vmctl.gpus.hosts import H100, L40S, RTX_4000, card, simulated, snapshot, want
from tests.vmctl.gpus.trees import function, plant
from vmctl import gpus
from vmctl.card import Framework, Regime
from vmctl.errors import Code, VmctlError
from vmctl.host import Host
from vmctl.ledger import Ledger
from vmctl.model import PCIFunction, WantedVGPU
from vmctl.simulate import SimulatedHost, faults, holders, reboot

AUDIO, USB, UCSI = (f"0000:65:00.{number}" for number in (1, 2, 3))
T4S = ("0000:3b:00.0", "0000:af:00.0")


@pytest.fixture
def desk(memory: Path) -> SimulatedHost:
    """A machine with a display card of four functions behind a bridge without isolation."""
    return simulated(memory, "a40-mixed")


@pytest.fixture
def l40s(memory: Path) -> SimulatedHost:
    return simulated(memory, "l40s")


def whole(gpu: str) -> WantedVGPU:
    return want(gpu, "the model", Regime.WHOLE)


def drivers(host: Host, *addresses: str) -> list[str | None]:
    return [host.link(host.pci(address) / "driver") for address in addresses]


def test_all_functions_of_the_card_go_and_come_back(desk: SimulatedHost) -> None:
    gpu = card(desk, RTX_4000)
    assert Regime.WHOLE in gpu.regimes
    before = snapshot(desk)
    made = gpus.provide(desk, whole(RTX_4000), "machine")
    assert drivers(desk, RTX_4000, AUDIO, USB, UCSI) == ["vfio-pci"] * 4
    assert drivers(desk, "0000:64:00.0") == ["pcieport"]  # a bridge does no DMA for the guest
    assert gpus.devices(desk, made) == tuple(
        PCIFunction(str(made.uuid), address) for address in (RTX_4000, AUDIO, USB, UCSI)
    )
    noted = Ledger(desk.state_dir).get(made.uuid)
    assert noted is not None
    assert noted.drivers == {RTX_4000: "nvidia", AUDIO: "snd_hda_intel", USB: "xhci_hcd", UCSI: ""}
    gpus.release(desk, made)
    assert drivers(desk, RTX_4000, AUDIO, USB, UCSI) == ["nvidia", "snd_hda_intel", "xhci_hcd", None]
    assert snapshot(desk) == before


def test_a_card_that_is_away_stays_in_the_inventory(desk: SimulatedHost) -> None:
    named = card(desk, RTX_4000)
    made = gpus.provide(desk, replace(whole(RTX_4000), type=named.model), "machine")
    gpu = card(desk, RTX_4000)
    assert (gpu.framework, gpu.regime, gpu.driver) == (Framework.PASSTHROUGH, Regime.WHOLE, "vfio-pci")
    assert (gpu.model, gpu.numa_node, gpu.holders) == (named.model, named.numa_node, (made,))
    assert "given to a machine whole" in gpu.reason


def test_functions_go_off_before_and_come_on_after(l40s: SimulatedHost) -> None:
    made = gpus.provide(l40s, whole(L40S), "machine")
    gpu = card(l40s, L40S)
    assert gpu.vfs is not None
    assert (gpu.vfs.enabled, gpu.types) == (0, ())
    gpus.release(l40s, made)
    assert l40s.read(l40s.pci(L40S) / "sriov_numvfs") == "16"
    assert gpus.provide(l40s, want(L40S, "L40S-24Q")).type == "L40S-24Q"


def test_a_card_with_a_share_waits_until_it_is_empty(l40s: SimulatedHost) -> None:
    share = gpus.provide(l40s, want(L40S, "L40S-24Q"))
    before = snapshot(l40s)
    with pytest.raises(VmctlError, match=f"not empty: there is L40S-24Q on .* \\({share.uuid}\\)") as refusal:
        gpus.provide(l40s, whole(L40S))
    assert (refusal.value.code, refusal.value.retry) == (Code.BUSY, True)
    assert snapshot(l40s) == before
    gpus.release(l40s, share)
    gpus.provide(l40s, whole(L40S))
    with pytest.raises(VmctlError, match="cannot be shared now: The card is on vfio-pci"):
        gpus.provide(l40s, want(L40S, "L40S-24Q"))


@pytest.mark.field("B03")
def test_of_two_cards_with_the_same_ids_only_the_one_goes(memory: Path) -> None:
    host = simulated(memory, "t4")
    assert len({host.read(host.pci(address) / "device") for address in T4S}) == 1
    gpus.provide(host, whole(T4S[0]))
    assert drivers(host, *T4S) == ["vfio-pci", "nvidia"]
    assert host.read(host.pci(T4S[1]) / "driver_override") == "(null)"


@pytest.mark.field("B04")
def test_the_second_card_of_a_model_goes_as_the_first_and_no_id_is_registered(memory: Path) -> None:
    host = simulated(memory, "t4")
    made = [gpus.provide(host, whole(address)) for address in T4S]
    assert drivers(host, *T4S) == ["vfio-pci", "vfio-pci"]
    assert "new_id" not in (host.state_dir / "journal.jsonl").read_text()
    for share in made:
        gpus.release(host, share)
    assert drivers(host, *T4S) == ["nvidia", "nvidia"]


def test_the_host_keeps_its_own_screen(desk: SimulatedHost) -> None:
    assert Regime.WHOLE not in card(desk, "0000:02:00.0").regimes
    with pytest.raises(VmctlError, match="drives the screen of the host") as refusal:
        gpus.provide(desk, whole("0000:02:00.0"))
    assert not refusal.value.retry


@pytest.mark.parametrize(("code", "driver"), [("0x020000", "ixgbe"), ("0x010802", "nvme")])
def test_a_group_with_something_of_the_hosts_is_refused_by_name(desk: SimulatedHost, code: str, driver: str) -> None:
    other, group = "0000:66:00.0", desk.link(desk.pci(RTX_4000) / "iommu_group")
    plant(desk.root, function(other, vendor="0x8086", **{"class": code}, driver=driver))
    plant(desk.root, f"/sys/kernel/iommu_groups/{group}/devices/{other} -> /sys/bus/pci/devices/{other}")
    assert Regime.WHOLE not in card(desk, RTX_4000).regimes
    before = snapshot(desk)
    with pytest.raises(VmctlError, match=rf"{other} \({driver}\) is in the IOMMU group") as refusal:
        gpus.provide(desk, whole(RTX_4000))
    assert (refusal.value.retry, snapshot(desk)) == (False, before)


def test_another_card_of_the_group_must_be_empty_and_stands_by(memory: Path) -> None:
    host = simulated(memory, "t4")
    group = f"/sys/kernel/iommu_groups/{host.link(host.pci(T4S[0]) / 'iommu_group')}"
    (host.pci(T4S[1]) / "iommu_group").unlink()
    plant(host.root, f"/sys/bus/pci/devices/{T4S[1]}/iommu_group -> {group}")
    plant(host.root, f"{group}/devices/{T4S[1]} -> /sys/bus/pci/devices/{T4S[1]}")
    share = gpus.provide(host, want(T4S[1], "T4-4Q"))
    with pytest.raises(VmctlError, match="not empty: there is T4-4Q"):
        gpus.provide(host, whole(T4S[0]))
    gpus.release(host, share)
    made = gpus.provide(host, whole(T4S[0]))
    assert drivers(host, *T4S) == ["vfio-pci", "vfio-pci"]
    assert gpus.devices(host, made) == (PCIFunction(str(made.uuid), T4S[0]),)
    gpus.release(host, made)
    assert drivers(host, *T4S) == ["nvidia", "nvidia"]


@pytest.mark.field("B10")
def test_who_has_the_card_open_is_named_before_anything_is_unbound(memory: Path) -> None:
    host = simulated(memory, "h100")
    holders.hold(host.root, "/dev/nvidia0", process=815, command="nvidia-persiste")
    before = snapshot(host)
    with pytest.raises(VmctlError, match=r"held by process 815 \(nvidia-persiste\)") as refusal:
        gpus.provide(host, whole(H100))
    assert (refusal.value.code, refusal.value.retry, snapshot(host)) == (Code.BUSY, True, before)
    journal = host.state_dir / "journal.jsonl"
    assert not journal.exists() or "sriov-manage" not in journal.read_text()


@pytest.mark.field("B10")
def test_an_unbinding_that_never_returns_is_given_up_and_the_card_stays_noted(desk: SimulatedHost) -> None:
    """Its holder is one that this user cannot see beforehand."""
    host = replace(desk, write_limit=0.3)
    faults.plant(host.root, [{"match": f"{AUDIO}/driver/unbind", "delay": 60}])
    wish, begun = whole(RTX_4000), time.monotonic()
    with pytest.raises(VmctlError, match=r"does not come back from a write .* held by a process that") as refusal:
        gpus.provide(host, wish, "machine")
    assert time.monotonic() < begun + 5
    assert refusal.value.retry
    (stuck,) = card(host, RTX_4000).holders
    assert stuck.uuid == wish.uuid  # counts as taken, and is shown
    faults.clear(host.root)
    gpus.release(host, stuck)
    assert drivers(host, RTX_4000, AUDIO, USB, UCSI) == ["nvidia", "snd_hda_intel", "xhci_hcd", None]
    assert gpus.provided(host) == []


@pytest.mark.field("B11")
@pytest.mark.parametrize("function_number", [1, 2, 3, 4])
def test_a_function_that_never_reaches_vfio_leaves_all_as_it_was(desk: SimulatedHost, function_number: int) -> None:
    faults.plant(
        desk.root,
        [
            {"match": "drivers_probe", "times": function_number - 1},
            {"match": "drivers_probe", "times": 1, "effect": False},
        ],
    )
    before = snapshot(desk)
    with pytest.raises(VmctlError, match="was to get vfio-pci, but has no driver") as refusal:
        gpus.provide(desk, whole(RTX_4000))
    assert refusal.value.code is Code.FAILED
    assert (gpus.provided(desk), snapshot(desk)) == ([], before)


@pytest.mark.field("B11")
def test_a_bind_that_the_kernel_refuses_leaves_all_as_it_was(l40s: SimulatedHost) -> None:
    faults.plant(l40s.root, [{"match": "drivers_probe", "error": "EINVAL", "times": 1}])
    before = snapshot(l40s)
    with pytest.raises(VmctlError, match=r"does not bind 0000:26:00\.0 to vfio-pci: Invalid argument"):
        gpus.provide(l40s, whole(L40S))
    assert (gpus.provided(l40s), snapshot(l40s)) == ([], before)


@pytest.mark.field("B11")
def test_a_card_that_was_locked_and_not_unbound_can_be_opened_again(l40s: SimulatedHost) -> None:
    before = snapshot(l40s)
    faults.plant(l40s.root, [{"match": f"{L40S}/driver_override", "error": "EIO", "times": 1}])
    with pytest.raises(VmctlError, match="Input/output error"):
        gpus.provide(l40s, whole(L40S))
    assert '"value": "1"' in (l40s.state_dir / "journal.jsonl").read_text()
    assert (gpus.provided(l40s), snapshot(l40s)) == ([], before)


@pytest.mark.field("A13")
def test_one_that_is_given_back_by_half_is_there_until_it_is_whole(desk: SimulatedHost) -> None:
    before = snapshot(desk)
    made = gpus.provide(desk, whole(RTX_4000), "machine")
    faults.plant(desk.root, [{"match": "drivers_probe", "times": 1}, {"match": "drivers_probe", "effect": False}])
    with pytest.raises(VmctlError, match=f"{AUDIO} was to get snd_hda_intel"):
        gpus.release(desk, made)
    assert [share.uuid for share in gpus.provided(desk)] == [made.uuid]
    with pytest.raises(VmctlError, match=r"has no driver|cannot be shared now"):
        gpus.provide(desk, want(RTX_4000, "any"))
    faults.clear(desk.root)
    gpus.release(desk, made)
    assert (snapshot(desk), list(Ledger(desk.state_dir))) == (before, [])


def test_a_machine_that_runs_keeps_its_card(desk: SimulatedHost) -> None:
    made = gpus.provide(desk, whole(RTX_4000))
    group = desk.link(desk.pci(RTX_4000) / "iommu_group")
    holders.hold(desk.root, f"/dev/vfio/{group}", process=4711)
    with pytest.raises(VmctlError, match="in use by process 4711") as refusal:
        gpus.release(desk, made)
    assert refusal.value.retry
    assert gpus.provided(desk) == [made]


def test_a_card_that_is_kept_on_vfio_serves_and_stays_there(bare: Host) -> None:
    address, group = "0000:3b:00.0", "/sys/kernel/iommu_groups/40"
    plant(bare.root, function(address, driver="vfio-pci"))
    plant(bare.root, f"/sys/bus/pci/devices/{address}/iommu_group -> {group}")
    plant(bare.root, f"{group}/devices/{address} -> /sys/bus/pci/devices/{address}")
    with pytest.raises(VmctlError, match="not every process could be looked at"):
        gpus.provided(bare)  # nobody sees whether some machine has it
    (gpu,) = gpus.inventory(bare)
    assert "not every process" in {gap.what: gap.reason for gap in gpu.unknown}[gpus.HOLDERS]
    plant(bare.root, "/proc/1/fd/0 -> /dev/null")
    assert gpus.provided(bare) == []
    made = gpus.provide(bare, whole(address), "machine")
    assert [share.uuid for share in gpus.provided(bare)] == [made.uuid]
    gpus.release(bare, made)
    assert (gpus.provided(bare), drivers(bare, address)) == ([], ["vfio-pci"])
    plant(bare.root, "/proc/4711/fd/9 -> /elsewhere")
    bare.path("/proc/4711/fd/23").symlink_to("/dev/vfio/40")
    (foreign,) = gpus.provided(bare)
    assert (foreign.uuid, foreign.framework) == (None, Framework.PASSTHROUGH)


@pytest.mark.field("A05")
def test_after_a_reboot_the_card_is_made_ready_again(l40s: SimulatedHost) -> None:
    wish = whole(L40S)
    before = gpus.provide(l40s, wish, "machine")
    reboot(l40s.root)
    again = SimulatedHost("l40s", root=l40s.root, state_dir=l40s.state_dir)
    assert drivers(again, L40S) == ["nvidia"]
    made = gpus.provide(again, wish, "machine")
    assert (made, drivers(again, L40S)) == (before, ["vfio-pci"])
    gpus.release(again, made)
    assert again.read(again.pci(L40S) / "sriov_numvfs") == "16"  # as many as before it was given away
