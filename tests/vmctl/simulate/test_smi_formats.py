"""What the stand-in for nvidia-smi prints has the lines, labels and columns of the captured outputs."""

from __future__ import annotations

import re

import pytest

from tests.vmctl.simulate.conftest import Make
from tests.vmctl.simulate.doors import captured, smi, vf_type, write
from vmctl.errors import VmctlError
from vmctl.simulate import holders

LABEL = re.compile(r"^( *)([^:]+?) *: ")


def labels(text: str) -> set[tuple[int, str]]:
    """Each label with its indent."""
    found = (LABEL.match(line) for line in text.splitlines())
    return {(len(each[1]), each[2]) for each in found if each is not None}


def columns(text: str) -> set[int]:
    """Where the colons of labels stand."""
    return {line.index(" : ") + 1 for line in text.splitlines() if " : " in line}


def shape(text: str) -> list[str]:
    """Lines with names and numbers made alike, but as wide as they were with the blanks after them."""
    named = [re.sub(r"MIG \S+ +", lambda found: "MIG".ljust(len(found[0])), line) for line in text.splitlines()]
    return [re.sub(r"[0-9.]+ *", lambda found: "0".ljust(len(found[0])), line) for line in named]


def test_q_has_the_labels_of_a_captured_host(make: Make) -> None:
    said = smi(make("t4"), "-q")
    assert columns(said) == columns(captured("nvidia-smi-q-t4-525-host-non-sriov.txt")) == {42}
    theirs = labels(captured("nvidia-smi-q-t4-525-host-non-sriov.txt"))
    theirs |= labels(captured("nvidia-smi-q-a16-470-host-sriov.txt"))
    assert labels(said) - theirs == {(8, "vGPU Heterogeneous Mode")}  # from R550 on (5.1)
    assert "    GPU Virtualization Mode\n        Virtualization Mode               : Host VGPU\n" in said
    assert "        Host VGPU Mode                    : Non SR-IOV\n" in said


def test_modes_of_sriov_cards(make: Make) -> None:
    said = smi(make("a100-mig"), "-q -i 1")
    assert "        Host VGPU Mode                    : SR-IOV\n" in said
    assert "    MIG Mode\n        Current                           : Enabled\n" in said
    assert said.count("GPU 00000000") == 1
    mixed = smi(make("a40-mixed"), "-q -i 00000000:41:00.0")
    assert "        vGPU Heterogeneous Mode           : Enabled\n" in mixed


def test_a_query_of_columns_says_na_for_what_a_card_has_not(make: Make) -> None:
    rows = captured("nvidia-smi-query-gpu-mig-noheader.csv").splitlines()
    said = smi(make("l40s"), "--query-gpu=index,mig.mode.current --format=csv,noheader").splitlines()
    assert said == ["0, [N/A]", "1, [N/A]"]
    assert any("[N/A]" in row for row in rows)
    assert "not a valid field" in smi(make("t4"), "--query-gpu=warp.factor --format=csv", status=2)


def test_profiles_are_printed_as_captured(make: Make) -> None:
    host = make("a100-mig")
    assert shape(smi(host, "mig -lgip -i 0")) == shape(captured("nvidia-smi-mig-lgip-a100-40.txt"))
    theirs = captured("nvidia-smi-mig-lgipp-h100nvl.txt")
    assert smi(host, "mig -i 0 -lgipp") == theirs


def test_an_exhausted_gpu_is_printed_as_captured(make: Make) -> None:
    host = make("a100-mig")
    smi(host, "mig -i 0 -cgi 9,9")
    counts = re.compile(r"\d+/\d+")
    theirs = counts.findall(captured("nvidia-smi-mig-lgip-h100nvl-exhausted.txt"))
    assert counts.findall(smi(host, "mig -i 0 -lgip")) == theirs


def test_instances_are_numbered_and_printed_as_captured(make: Make) -> None:
    host = make("a100-mig")
    smi(host, "mig -i 0 -cgi 9,9")
    theirs = captured("nvidia-smi-mig-lgi-h100nvl-two-3g.txt").replace("47gb", "40gb")
    assert smi(host, "mig -i 0 -lgi") == theirs
    smi(host, "mig -i 1 -cgi 19 -C")
    one = captured("nvidia-smi-mig-lci-a100-one.txt").replace("|   0     13", "|   1     13")
    assert shape(smi(host, "mig -lci")) == shape(one)
    assert [line.split()[2] for line in smi(host, "mig -lci").splitlines() if " MIG " in line] == ["13"]


def test_two_small_instances_lie_where_captured_ones_do(make: Make) -> None:
    host = make("a100-mig")
    said = smi(host, "mig -i 0 -cgi 14,14")
    assert re.findall(r"instance ID +(\d+)", said) == ["5", "3"]
    message = captured("nvidia-smi-mig-messages.txt")
    assert "Successfully created GPU instance ID  5 on GPU  2 using profile MIG 2g.10gb (ID 14)" in message
    assert "Successfully created GPU instance ID  5 on GPU  0 using profile MIG 2g.20gb (ID 14)" in said
    rows = re.findall(r"14 +(\d+) +(\d:\d)", smi(host, "mig -lgi"))
    assert rows == re.findall(r"14 +(\d+) +(\d:\d)", captured("nvidia-smi-mig-lgi-a100-two-2g.txt"))


def test_types_are_printed_as_captured(make: Make) -> None:
    said = smi(make("t4"), "vgpu -s -v")
    theirs = captured("nvidia-smi-vgpu-s-v-m60.txt")
    assert columns(said) == columns(theirs) == {42}
    assert labels(theirs) - labels(said) == {(8, "Sub System ID")}
    assert labels(said) - labels(theirs) == {(8, "Max Instances Per GI")}  # newer drivers
    assert (
        "    vGPU Type ID                          : 0xe8\n        Name                              : GRID T4-4Q\n"
        in said
    )


def test_types_of_the_newest_card_are_those_that_were_seen(make: Make) -> None:
    said = smi(make("rtx-pro-6000"), "vgpu -s -v -i 0")
    for block in captured("nvidia-smi-vgpu-s-v-rtxpro6000-580-cut.txt").split("    vGPU Type ID")[1:]:
        ours = next(each for each in said.split("    vGPU Type ID")[1:] if each.startswith(block.split("\n")[0]))
        assert set(block.splitlines()) <= set(ours.splitlines())


def test_names_alone(make: Make) -> None:
    host = make("t4")
    theirs = captured("nvidia-smi-vgpu-c-m60.txt").splitlines()
    assert [len(line) - len(line.lstrip()) for line in theirs] == [0, 4]
    said = smi(host, "vgpu -c -i 0").splitlines()
    assert said[0] == "GPU 00000000:3B:00.0"
    assert "    GRID T4-16Q" in said


def test_nothing_runs(make: Make) -> None:
    assert smi(make("rtx-pro-6000"), "vgpu -q -i 0") == captured("nvidia-smi-vgpu-q-none.txt")


def test_a_vgpu_that_only_exists_does_not_run(make: Make) -> None:
    host = make("rtx-pro-6000")
    for function in ("0001:c8:00.4", "0001:c8:00.5"):
        write(host, vf_type(host, function), "1519")
    assert smi(host, "vgpu -q -i 0") == captured("nvidia-smi-vgpu-q-none.txt")
    for function in ("0001:c8:00.4", "0001:c8:00.5"):
        group = host.link(host.pci(function) / "iommu_group")
        holders.hold(host.root, f"/dev/vfio/{group}")
    said, theirs = smi(host, "vgpu -q -i 0"), captured("nvidia-smi-vgpu-q-rtxpro6000-580-two.txt")
    assert labels(said) == labels(theirs)
    assert re.findall(r"Placement ID +: (\d+)", said) == re.findall(r"Placement ID +: (\d+)", theirs)
    assert re.findall(r"vGPU Type +: (\d+)", said) == ["1519", "1519"]
    holders.let_go(host.root)
    assert "Active vGPUs                          : 0" in smi(host, "vgpu -q -i 0")


def test_the_scheduler_is_told_by_the_captured_labels(make: Make) -> None:
    host = make("l40s")
    told = captured("nvidia-smi-vgpu-ss-active.txt")
    smi(host, "vgpu set-scheduler-state -i 0 -p 2")
    idle = [line.strip() for line in captured("nvidia-smi-vgpu-ss-idle.txt").splitlines()][1:]
    ours = [re.sub(" +: ", " : ", line.strip()) for line in smi(host, "vgpu -ss -i 0").splitlines()][1:]
    assert ours == idle
    write(host, vf_type(host, "0000:26:00.4"), "1155")
    holders.hold(host.root, f"/dev/vfio/{host.link(host.pci('0000:26:00.4') / 'iommu_group')}")
    ours = [re.sub(" +: ", " : ", line.strip()) for line in smi(host, "vgpu -ss -i 0").splitlines()][1:]
    assert ours == told.splitlines()[1:]


@pytest.mark.parametrize("layout", ["gvtg", "flex"])
def test_a_machine_without_the_driver_has_no_tool(make: Make, layout: str) -> None:
    with pytest.raises(VmctlError, match="nvidia-smi is not there"):
        make(layout).run(["nvidia-smi", "-L"])


def test_a_plain_display_card_has_no_vgpu_mode(make: Make) -> None:
    assert smi(make("a40-mixed"), "vgpu -s -i 2", status=6) == "No supported devices in vGPU mode\n"
    assert "No supported devices in vGPU mode" in captured("nvidia-smi-errors.txt")
