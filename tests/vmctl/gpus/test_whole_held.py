"""What keeps a whole card from being given away: all of its group counts (dossier 1.4 and 7.2, field log B10)."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.vmctl.gpus.hosts import RTX_4000, card, simulated, snapshot
from tests.vmctl.gpus.test_whole import AUDIO, T4S, drivers, whole
from tests.vmctl.gpus.trees import function, plant
from vmctl import gpus, state
from vmctl.card import Regime
from vmctl.errors import Code, VmctlError
from vmctl.gpus import processes
from vmctl.host import Host
from vmctl.simulate import SimulatedHost, faults, holders


@pytest.fixture
def desk(memory: Path) -> SimulatedHost:
    """A machine with a display card of four functions behind a bridge without isolation."""
    return simulated(memory, "a40-mixed")


def grouped(memory: Path, boot_vga: str = "0") -> SimulatedHost:
    """Two cards in one group."""
    host = simulated(memory, "t4")
    group = f"/sys/kernel/iommu_groups/{host.link(host.pci(T4S[0]) / 'iommu_group')}"
    (host.pci(T4S[1]) / "iommu_group").unlink()
    plant(host.root, f"/sys/bus/pci/devices/{T4S[1]}/iommu_group -> {group}")
    plant(host.root, f"{group}/devices/{T4S[1]} -> /sys/bus/pci/devices/{T4S[1]}")
    screen = host.pci(T4S[1]) / "boot_vga"
    screen.chmod(0o644)
    screen.write_text(f"{boot_vga}\n")
    return host


def test_a_card_beside_the_hosts_own_screen_is_not_given_away(memory: Path) -> None:
    """Its whole group goes with a card, and so would the screen."""
    host = grouped(memory, "1")
    assert Regime.WHOLE not in card(host, T4S[0]).regimes
    before = snapshot(host)
    with pytest.raises(VmctlError, match=f"{T4S[1]} drives the screen of the host and is in the IOMMU group"):
        gpus.provide(host, whole(T4S[0]))
    assert snapshot(host) == before


@pytest.mark.field("B10")
def test_who_has_the_other_card_of_the_group_open_is_named_before_anything_is_written(memory: Path) -> None:
    host = grouped(memory)
    holders.hold(host.root, "/dev/nvidia1", process=815, command="dcgm-exporter")
    before = snapshot(host)
    with pytest.raises(VmctlError, match=r"held by process 815 \(dcgm-exporter\)"):
        gpus.provide(host, whole(T4S[0]))
    assert snapshot(host) == before
    assert not (host.state_dir / "journal.jsonl").exists()


def test_all_cards_of_the_group_are_locked_before_the_first_is_unbound(memory: Path) -> None:
    """The second is held by somebody whom this user cannot see: the first is not touched either."""
    host = grouped(memory)
    faults.plant(host.root, [{"match": f"{T4S[1]}/unbindLock", "effect": False}])
    before = snapshot(host)
    with pytest.raises(VmctlError, match=rf"GPU {T4S[1]} is held by somebody"):
        gpus.provide(host, whole(T4S[0]))
    assert (drivers(host, *T4S), snapshot(host)) == (["nvidia", "nvidia"], before)
    assert 'unbind"' not in (host.state_dir / "journal.jsonl").read_text()


@pytest.mark.field("B10")
def test_who_has_the_sound_of_a_card_open_is_named(desk: SimulatedHost) -> None:
    plant(desk.root, f"/sys/bus/pci/devices/{AUDIO}/sound/card1/controlC1/dev = 116:2")
    holders.hold(desk.root, "/dev/snd/controlC1", process=815, command="pipewire")
    with pytest.raises(VmctlError, match=r"held by process 815 \(pipewire\)"):
        gpus.provide(desk, whole(RTX_4000))
    assert drivers(desk, AUDIO) == ["snd_hda_intel"]


@pytest.mark.parametrize(
    ("driver", "node"), [("i915", "/dev/dri/renderD128"), ("amdgpu", "/dev/dri/renderD128"), ("amdgpu", "/dev/kfd")]
)
def test_nodes_of_other_makers_cards_count_too(bare: Host, driver: str, node: str) -> None:
    address = "0000:3b:00.0"
    plant(bare.root, function(address, driver=driver) + f"/sys/bus/pci/devices/{address}/drm/renderD128/dev = 226:128")
    holders.hold(bare.root, node, process=815, command="Xorg")
    with pytest.raises(VmctlError, match=r"held by process 815 \(Xorg\)"):
        processes.refuse_open(bare, address, [address])


def test_a_card_that_a_foreign_machine_names_is_not_taken_from_it(desk: SimulatedHost) -> None:
    before = snapshot(desk)
    with pytest.raises(VmctlError, match=f"{AUDIO} of GPU {RTX_4000} is named by a machine that is not") as refusal:
        gpus.provide(desk, whole(RTX_4000), "machine", taken=frozenset({AUDIO}))
    assert (refusal.value.code, snapshot(desk)) == (Code.NO_CAPACITY, before)


@pytest.mark.field("B10")
def test_vmctls_own_looks_are_waited_for_before_a_card_is_unbound(desk: SimulatedHost) -> None:
    begun = threading.Event()

    def look() -> None:
        with state.locked(desk.gpus_lock, shared=True):
            holders.hold(desk.root, "/dev/nvidia0", process=99, command="nvidia-smi")
            begun.set()
            time.sleep(0.3)
            holders.let_go(desk.root, process=99)

    for act in (lambda: gpus.provide(desk, whole(RTX_4000)), lambda: gpus.release(desk, gpus.provided(desk)[0])):
        begun.clear()
        looker = threading.Thread(target=look)
        looker.start()
        begun.wait()
        act()
        assert not looker.is_alive()
        looker.join()
