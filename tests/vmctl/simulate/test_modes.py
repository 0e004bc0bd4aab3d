"""Switches of a card, its functions and its driver: what is refused, what is lost, what stays (dossier 1, 4)."""

from __future__ import annotations

import errno

import pytest

from tests.vmctl.simulate.conftest import Make
from tests.vmctl.simulate.doors import captured, creatable, everything, left, mdev, smi, vf_type, vfs, write
from vmctl.simulate import SimulatedHost, holders, reboot, reload_driver
from vmctl.simulate.layouts import LAYOUTS

L40S = "0000:26:00.0"
H100 = "0000:4e:00.0"
A100 = "0000:41:00.0"
FLEX = "0000:6a:00.0"


# -- virtual functions -----------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["a40", "l40s", "a16"])
def test_vfs_off_and_on_leave_the_tree_as_it_was(make: Make, layout: str) -> None:
    host = make(layout)
    before = everything(host)
    for _ in range(3):
        assert host.run(["/usr/lib/nvidia/sriov-manage", "-d", "ALL"]).status == 0
        assert {vfs(host, card.address) for card in LAYOUTS[layout]} == {0}
        off = everything(host)
        assert host.run(["/usr/lib/nvidia/sriov-manage", "-e", "ALL"]).status == 0
        assert everything(host) == before
    assert len(off) < len(before)


def test_nvidias_driver_refuses_the_plain_write(make: Make) -> None:
    host = make("l40s")
    with pytest.raises(OSError, match=r"."):
        write(host, host.pci(L40S) / "sriov_numvfs", "0")
    assert vfs(host, L40S) == 16


def test_a_gpu_that_is_used_is_not_switched(make: Make) -> None:
    host = make("l40s")
    write(host, vf_type(host, "0000:26:00.4"), "1155")
    answer = host.run(["sriov-manage", "-d", L40S])
    assert answer.status != 0
    assert "Cannot obtain unbindLock" in answer.errors
    assert "Cannot obtain unbindLock" in captured("sysfs-write-errors.txt")
    write(host, vf_type(host, "0000:26:00.4"), "0")
    holders.hold(host.root, "/dev/nvidia0", command="dcgm")
    assert host.run(["sriov-manage", "-d", L40S]).status != 0
    holders.let_go(host.root)
    with (host.root / "dev/nvidia0").open():
        assert host.run(["sriov-manage", "-d", L40S]).status != 0
    assert host.run(["sriov-manage", "-d", L40S]).status == 0


def test_switching_vfs_wipes_all_but_mig_mode(make: Make) -> None:
    host = make("a100-mig")
    smi(host, "mig -i 0 -cgi 9 -C")
    smi(host, "vgpu set-scheduler-state -i 0 -p 2")
    host.run(["sriov-manage", "-e", A100])
    assert "No GPU instances found" in smi(host, "mig -i 0 -lgi", status=6)
    assert "Best Effort" in smi(host, "vgpu -ss -i 0")
    host = make("l40s")
    smi(host, "vgpu -i 0 -shm 1")
    host.run(["sriov-manage", "-e", L40S])
    assert "vGPU Heterogeneous Mode           : Disabled" in smi(host, "-q -i 0")


def test_plain_vfs_follow_the_kernels_own_switch(make: Make) -> None:
    host = make("flex")
    numbers = host.pci(FLEX) / "sriov_numvfs"
    assert vfs(host, FLEX) == 0
    assert write(host, numbers, "5") == "5"
    assert vfs(host, FLEX) == 5
    assert host.link(host.pci("0000:6a:00.1") / "driver") == "xe"
    for value, number in (("7", errno.EBUSY), ("32", errno.ERANGE), ("many", errno.EINVAL)):
        with pytest.raises(OSError, match=r".") as refusal:
            write(host, numbers, value)
        assert refusal.value.errno == number
    write(host, numbers, "0")
    write(host, host.pci(FLEX) / "sriov_drivers_autoprobe", "0")
    write(host, numbers, "31")
    assert host.link(host.pci("0000:6a:03.7") / "driver") is None


# -- switches --------------------------------------------------------------------------------------


def test_hopper_takes_mig_at_once_but_not_with_vfs_on(make: Make) -> None:
    host = make("h100")
    assert "In use by another client" in smi(host, "-i 0 -mig 1", status=19)
    host.run(["sriov-manage", "-d", H100])
    said = smi(host, f"-i {H100} -mig 1")
    assert said == "Enabled MIG Mode for GPU 00000000:4E:00.0\nAll done.\n"
    assert "Enabled MIG Mode for GPU 00000000:36:00.0\nAll done.\n" in captured("nvidia-smi-mig-messages.txt")
    host.run(["sriov-manage", "-e", H100])
    smi(host, "mig -cgi 9,9 -C")
    assert creatable(host, "0000:4e:00.4") == {"40C"}
    reboot(host.root)
    assert "No MIG-enabled devices found." in smi(host, "mig -lgi", status=6)
    assert vfs(host, H100) == 0


def test_ampere_takes_mig_at_the_next_boot_and_keeps_it(make: Make) -> None:
    host = make("a100-mig")
    host.run(["sriov-manage", "-d", A100])
    assert "Warning: MIG mode is in pending disable state" in smi(host, "-i 0 -mig 0")
    modes = (
        "    MIG Mode\n        Current                           : {}\n        Pending                           : {}\n"
    )
    assert modes.format("Enabled", "Disabled") in smi(host, "-q -i 0")
    reboot(host.root)
    assert modes.format("Disabled", "Disabled") in smi(host, "-q -i 0")
    assert modes.format("Enabled", "Enabled") in smi(host, "-q -i 1")


def test_a_card_without_a_switch_says_so(make: Make) -> None:
    assert "Not Supported" in smi(make("l40s"), "-i 0 -mig 1", status=3)
    assert "Not Supported" in smi(make("a40-mixed"), "-i 0 -e 0", status=3)
    assert "No MIG-supported devices found." in smi(make("t4"), "mig -lgip", status=6)


def test_mixed_sizes_and_scheduler_are_refused_while_a_vgpu_exists(make: Make) -> None:
    host = make("l40s")
    write(host, vf_type(host, L40S[:-1] + "4"), "1155")
    assert "In use by another client" in smi(host, "vgpu -i 0 -shm 1", status=19)
    busy = captured("nvidia-smi-vgpu-set-scheduler-busy.txt").replace("1A:00.0", "26:00.0")
    assert smi(host, "vgpu set-scheduler-state -i 0 -p 2", status=19) == busy
    assert "Enabled vGPU heterogeneous mode" in smi(host, "vgpu -i 1 -shm 1")
    assert captured("nvidia-smi-vgpu-shm.txt").splitlines()[1] == smi(make("a40"), "vgpu -i 0 -shm 1").strip()


def test_a_policy_and_its_time_slice(make: Make) -> None:
    host = make("l40s")
    smi(host, "vgpu set-scheduler-state -i 0 -p 3 -ts 2000000 -a 0")
    said = smi(host, "vgpu -ss -i 0")
    assert "Scheduler Policy                      : Fixed Share" in said
    assert "Time Slice" not in said
    write(host, vf_type(host, "0000:26:00.4"), "1155")
    holders.hold(host.root, f"/dev/vfio/{host.link(host.pci('0000:26:00.4') / 'iommu_group')}")
    said = smi(host, "vgpu -ss -i 0")
    assert "Time Slice(ns)                        : 2000000" in said
    holders.let_go(host.root)
    write(host, vf_type(host, "0000:26:00.4"), "0")
    assert "Not Supported" in smi(host, "vgpu -i 0 -shm 1", status=3)
    smi(host, "vgpu set-scheduler-state -i 0 -p 2 -ts 40000000", status=2)
    smi(host, "vgpu set-scheduler-state -i 0 -p 4", status=2)


def test_ecc_changes_at_the_next_boot(make: Make) -> None:
    host = make("t4")
    smi(host, "-i 0 -e 0")
    modes = (
        "    Ecc Mode\n        Current                           : {}\n        Pending                           : {}\n"
    )
    assert modes.format("Enabled", "Disabled") in smi(host, "-q -i 0")
    reboot(host.root)
    assert modes.format("Disabled", "Disabled") in smi(host, "-q -i 0")
    mdev(host, "0000:3b:00.0", "nvidia-232")
    assert "In use" in smi(host, "-i 0 -e 1", status=19)


# -- boots -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_after_a_reboot_nothing_volatile_is_left(make: Make, layout: str) -> None:
    host = make(layout)
    boot = host.read(host.path("/proc/sys/kernel/random/boot_id"))
    fill(host)
    reboot(host.root)
    assert host.read(host.path("/proc/sys/kernel/random/boot_id")) != boot
    assert host.names(host.path("/sys/bus/mdev/devices")) == []
    for card in LAYOUTS[layout]:
        assert host.link(host.pci(card.address) / "driver") == card.board.driver
        if card.board.vfs:
            assert vfs(host, card.address) == 0
    with_groups = {path.name for path in host.path("/sys/kernel/iommu_groups").iterdir()}
    assert with_groups == {str(each) for each in groups(layout)}
    assert host.names(host.path("/dev/vfio")) == ["vfio"]


def groups(layout: str) -> set[int]:
    return {
        group
        for card in LAYOUTS[layout]
        for group in (card.group, *(each.group for each in card.companions))
        if group is not None
    }


def fill(host: SimulatedHost) -> None:
    """One vGPU of some type on every card that takes one."""
    for card in LAYOUTS[host.name]:
        first = card.functions[0] if card.board.vfs else card.address
        kinds = [kind for kind in card.board.types() if not kind.profile]
        if card.board.framework == "vendor-vfio":
            write(host, vf_type(host, first), str(kinds[0].number))
        elif card.board.framework in ("mdev-vf", "mdev-pf", "gvtg") and not card.mig:
            mdev(host, first, kinds[0].driver_id)
        elif card.board.framework == "sriov":
            write(host, host.pci(card.address) / "sriov_numvfs", "3")


def test_a_driver_that_is_loaded_again_lets_the_machine_go_on(make: Make) -> None:
    host = make("a40")
    boot = host.read(host.path("/proc/sys/kernel/random/boot_id"))
    fill(host)
    reload_driver(host.root)
    assert host.read(host.path("/proc/sys/kernel/random/boot_id")) == boot
    assert host.names(host.path("/sys/bus/mdev/devices")) == []
    assert vfs(host, "0000:41:00.0") == 0
    host.run(["sriov-manage", "-e", "ALL"])
    assert left(host, "0000:41:00.4", "nvidia-566") == 1
