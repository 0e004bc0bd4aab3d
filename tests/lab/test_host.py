"""The lab is what it claims to be: real groups, functions and mediated devices, and faults that can be mended."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.lab import board
from tests.lab.machine import Lab, LabError

A40, V100, T4, SECOND_T4, L40S = (card.address for card in board.CARDS)
SRIOV_MANAGE = "/usr/lib/nvidia/sriov-manage"
CALL = 90.0  # seconds for one call of vmctl; some five on an idle machine


def vmctl(lab: Lab, words: str, *, status: str = "0") -> Any:
    """The JSON that vmctl prints, ending with one of these statuses."""
    return json.loads(
        lab.shell(f"vmctl --host lab {words} --json || case $? in {status}) ;; *) exit 1; esac", limit=CALL)
    )


def functions(lab: Lab, card: str) -> list[str]:
    """The addresses of a card's virtual functions, switched on."""
    lab.shell(f"{SRIOV_MANAGE} -e {card}")
    links = lab.shell(f"ls -d /sys/bus/pci/devices/{card}/virtfn* | xargs -n 1 readlink")
    return sorted(link.removeprefix("../") for link in links.split())


def group(lab: Lab, address: str) -> set[str]:
    return set(lab.shell(f"ls /sys/bus/pci/devices/{address}/iommu_group/devices").split())


def test_every_card_is_dressed_and_on_the_driver(lab: Lab) -> None:
    listed = lab.shell("lspci -Dnk -d 10de:")
    cards = {line.split()[0] for line in listed.splitlines() if not line.startswith("\t")}
    assert cards == {card.address for card in board.CARDS}
    assert listed.count("Kernel driver in use: nvidia") == len(board.CARDS)


def test_groups_are_the_kernel_s_own(lab: Lab) -> None:
    for card in (A40, T4, SECOND_T4, L40S):
        assert group(lab, card) == {card}
    assert group(lab, V100) >= {V100, board.ODD_NEIGHBOUR}
    driver = lab.shell(f"basename $(readlink /sys/bus/pci/devices/{board.ODD_NEIGHBOUR}/driver)")
    assert driver.strip() == "e1000"


def test_functions_are_switched_by_the_tool_alone_and_have_groups_of_their_own(lab: Lab) -> None:
    with pytest.raises(LabError):
        lab.shell(f"echo {board.FUNCTIONS} >/sys/bus/pci/devices/{A40}/sriov_numvfs")
    found = functions(lab, A40)
    assert len(found) == board.FUNCTIONS
    groups = {lab.shell(f"readlink /sys/bus/pci/devices/{address}/iommu_group") for address in found}
    assert len(groups) == board.FUNCTIONS
    lab.shell(f"{SRIOV_MANAGE} -d {A40}")
    assert lab.shell(f"cat /sys/bus/pci/devices/{A40}/sriov_numvfs").strip() == "0"


def test_libvirt_lists_types_and_makes_mediated_devices(lab: Lab) -> None:
    functions(lab, A40)
    asked = "virsh -q nodedev-list --cap mdev_types"
    enough = f"[ $({asked} | wc -w) -lt {2 + board.FUNCTIONS} ]"
    lab.shell(f"for n in $(seq 100); do {enough} || break; sleep 0.2; done", limit=60)  # libvirt hears of it by udev
    parents = lab.shell(asked).split()
    assert {"pci_0000_04_00_0", "pci_0000_05_00_0"} < set(parents)
    assert len(parents) == 2 + board.FUNCTIONS
    kind = "<capability type='mdev'><type id='nvidia-231'/></capability>"
    xml = f"<device><parent>pci_0000_04_00_0</parent>{kind}</device>"
    lab.shell(f'echo "{xml}" >/tmp/mdev.xml; virsh nodedev-create /tmp/mdev.xml')
    assert len(lab.shell("ls /sys/bus/mdev/devices").split()) == 1


def test_a_reset_leaves_nothing(lab: Lab) -> None:
    functions(lab, A40)
    types = f"/sys/bus/pci/devices/{T4}/mdev_supported_types"
    lab.shell(f"cat /proc/sys/kernel/random/uuid >{types}/nvidia-231/create; ls /sys/bus/mdev/devices/*")
    lab.shell("echo left >/var/left; echo left >/dev/shm/left; echo 5 >/sys/module/nvidia/parameters/fail_create")
    lab.reset()
    left = f"/var/left /dev/shm/left /sys/bus/mdev/devices/* /sys/bus/pci/devices/{A40}/virtfn*"
    assert lab.shell(f"ls -d {left} 2>/dev/null || true") == ""
    assert lab.shell("cat /sys/module/nvidia/parameters/fail_create").strip() == "0"
    assert abs(float(lab.shell("date +%s")) - time.time()) < 10


def test_a_command_that_hangs_keeps_nobody(lab: Lab) -> None:
    began = time.monotonic()
    with pytest.raises(LabError, match="Not done in 2 s"):
        lab.shell("sleep 600", limit=2)
    assert time.monotonic() - began < 6
    assert lab.shell("echo well").strip() == "well"


def test_a_command_that_fails_tells_all_it_said(lab: Lab) -> None:
    with pytest.raises(LabError, match=r"(?s)Status 7.*before.*aloud"):
        lab.shell("echo before; echo aloud >&2; (exit 7); echo never")


def test_a_frozen_lab_answers_nobody_and_goes_on(lab: Lab) -> None:
    lab.freeze()
    with pytest.raises(LabError):
        lab.shell("true", limit=3)
    lab.thaw()
    lab.wait_ssh(30)


def test_a_cut_network_comes_back(lab: Lab) -> None:
    lab.cut()
    with pytest.raises(LabError):
        lab.shell("true", limit=3)
    lab.mend()
    lab.wait_ssh(60)


def test_libvirtd_comes_back(lab: Lab) -> None:
    before = lab.shell("pidof libvirtd || virsh -q list; pidof libvirtd")
    lab.kill_libvirtd()
    lab.shell("virsh -q list", limit=60)
    assert lab.shell("pidof libvirtd") != before


def test_only_one_lab_runs_in_a_folder(lab: Lab) -> None:
    with pytest.raises(LabError, match="already"):
        Lab.start(lab.folder, ready=lab.ready)
    assert lab.shell("echo well").strip() == "well"


def test_vmctl_sees_five_cards_each_with_its_way(lab: Lab) -> None:
    functions(lab, A40)
    functions(lab, L40S)
    gpus = {gpu["address"]: gpu for gpu in vmctl(lab, "gpus")["gpus"]}
    ways = {address: gpu["framework"] for address, gpu in gpus.items()}
    assert ways == {A40: "mdev-vf", V100: "passthrough", T4: "mdev-pf", SECOND_T4: "mdev-pf", L40S: "vendor-vfio"}
    assert "whole" not in gpus[V100]["regimes"]
    assert "whole" in gpus[SECOND_T4]["regimes"]


def test_what_nvidia_smi_says_is_understood(lab: Lab) -> None:
    functions(lab, L40S)
    said = lab.shell("nvidia-smi -L")
    gpus = {gpu["address"]: gpu for gpu in vmctl(lab, "gpus")["gpus"]}
    for gpu in gpus.values():
        assert f"{gpu['model']} (UUID: {gpu['uuid']})" in said
        assert gpu["ecc"] == {"current": True, "pending": True}
        assert gpu["mig"] is None
    for address in (T4, L40S):
        assert gpus[address]["unknown"] == {}
        assert gpus[address]["scheduler"]["policy"] == "best_effort"
    most = {kind["name"]: kind["max"] for kind in gpus[L40S]["types"]}
    assert (most["L40S-48Q"], most["L40S-4Q"]) == (1, 12)


def test_what_is_set_by_nvidia_smi_is_read_back_and_lost_with_the_functions(lab: Lab) -> None:
    functions(lab, L40S)
    lab.shell(f"nvidia-smi vgpu set-scheduler-state -i {L40S} -p 3; nvidia-smi -i {L40S} -e 0")
    assert "Fixed Share" in lab.shell(f"nvidia-smi vgpu -ss -i {L40S}")
    assert lab.shell(f"nvidia-smi -q -i {L40S} | grep -A 2 'ECC Mode'").split()[4::3] == ["Enabled", "Disabled"]
    lab.shell(f"{SRIOV_MANAGE} -d {L40S}")
    assert "Best Effort" in lab.shell(f"nvidia-smi vgpu -ss -i {L40S}")


def test_the_doctor_finds_the_one_group_that_is_not_viable(lab: Lab) -> None:
    functions(lab, A40)
    functions(lab, L40S)
    found = looked(lab)
    assert found["iommu.group_viable", V100] == "warn"
    bad = {key: status for key, status in found.items() if status in ("fail", "unknown") and key[1] != V100}
    assert bad == {}


def looked(lab: Lab) -> dict[tuple[str, str], str]:
    """What the doctor finds, by question and subject; one that a busy machine left open is asked again."""
    found: dict[tuple[str, str], str] = {}
    for _ in range(4):
        findings = vmctl(lab, "check", status="0|1|3")["findings"]
        open_ones = {(each["id"], each["subject"]) for each in findings if each["status"] == "unknown"}
        found |= {(each["id"], each["subject"]): each["status"] for each in findings if each["status"] != "unknown"}
        if not open_ones - found.keys():
            break
    return found | dict.fromkeys(open_ones - found.keys(), "unknown")


def test_a_boot_without_iommu_has_no_groups(lab_host: Lab, tmp_path: Path) -> None:
    """A second lab beside the first one, which goes on."""
    other = Lab.start(tmp_path, kernel="intel_iommu=off", ready=lab_host.ready)
    try:
        assert other.shell("ls /sys/kernel/iommu_groups") == ""
        assert "intel_iommu=off" in other.shell("cat /proc/cmdline")
        assert lab_host.shell("ls /sys/kernel/iommu_groups") != ""
    finally:
        other.stop()


def test_after_a_power_cycle_all_cards_are_back_and_nothing_is_on(lab: Lab) -> None:
    functions(lab, A40)
    lab.shell("echo kept >/var/kept; sync")
    lab.power_cycle()
    assert lab.shell("cat /var/kept").strip() == "kept"
    assert lab.shell(f"cat /sys/bus/pci/devices/{A40}/sriov_numvfs").strip() == "0"
    assert lab.shell("nvidia-smi -L | wc -l").strip() == str(len(board.CARDS))
