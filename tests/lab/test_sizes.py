"""The driver's rule of equal sizes, by the kernel's own files: what is made on a card decides what else can be."""

from __future__ import annotations

import re

import pytest

from tests.lab import board
from tests.lab.machine import Lab

pytestmark = pytest.mark.timeout(1200)
T4, L40S = board.CARDS[2].address, board.CARDS[4].address
DEVICES = "/sys/bus/pci/devices"
UUID = "7e55e7a0-0000-4000-8000-000000000001"


def left_of(lab: Lab, card: str) -> dict[str, int]:
    """How many more of each type a card with mediated devices would make, by the end of its name."""
    told = lab.shell(f"cd {DEVICES}/{card}/mdev_supported_types; tail -qn 1 */name */available_instances").splitlines()
    names, numbers = told[: len(told) // 2], told[len(told) // 2 :]
    return {name.rpartition("-")[2]: int(number) for name, number in zip(names, numbers, strict=True)}


def test_a_mediated_device_leaves_room_for_its_own_size_alone(lab: Lab) -> None:
    empty = left_of(lab, T4)
    assert (empty["1Q"], empty["4Q"], empty["16Q"]) == (16, 4, 1)
    kind = lab.shell(f"cd {DEVICES}/{T4}/mdev_supported_types; dirname $(grep -l -- '-4Q$' */name)").strip()
    lab.shell(f"echo {UUID} >{DEVICES}/{T4}/mdev_supported_types/{kind}/create")
    with_one = left_of(lab, T4)
    assert {name: number for name, number in with_one.items() if number} == {
        name: 3 for name in with_one if name.startswith("4")
    }
    lab.shell(f"echo 1 >/sys/bus/mdev/devices/{UUID}/remove")
    assert left_of(lab, T4) == empty


def test_functions_of_one_card_share_its_memory(lab: Lab) -> None:
    lab.shell(f"/usr/lib/nvidia/sriov-manage -e {L40S}", limit=60)

    def creatable(function: int) -> dict[str, str]:
        table = lab.shell(f"cat {DEVICES}/{L40S}/virtfn{function}/nvidia/creatable_vgpu_types")
        return {name: number for number, name in re.findall(r"^(\d+) *: (.+)$", table, re.MULTILINE)}

    empty = creatable(1)
    halves = [name for name in empty if name.endswith("-24Q")]
    assert halves
    assert len(empty) > len(halves)
    for function in (0, 1):
        assert creatable(function)
        lab.shell(f"echo {empty[halves[0]]} >{DEVICES}/{L40S}/virtfn{function}/nvidia/current_vgpu_type")
        sizes = {re.sub(r".*-(\d+)[A-Z]$", r"\1", name) for name in creatable(2)}
        assert sizes == ({"24"} if function == 0 else set())
    for function in (0, 1):
        lab.shell(f"echo 0 >{DEVICES}/{L40S}/virtfn{function}/nvidia/current_vgpu_type")
    assert creatable(2) == empty
