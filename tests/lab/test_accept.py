"""vmctl accept on the lab's cards: it passes where a card does what is said of it, and sees where it does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab import leaks
from tests.lab.machine import Lab

pytestmark = pytest.mark.timeout(1200)
T4, A40, L40S, V100 = "0000:04:00.0", "0000:01:00.0", "0000:06:00.0", "0000:03:02.0"
PCI = "/sys/bus/pci/devices"
FUNCTIONS = 4
"""So many of each card's are on: each type is made up to that, and a round takes half the time."""
LIMIT = 570.0  # seconds for one acceptance; some 60 on an idle machine


def accept(lab: Lab, card: str, rounds: int = 1) -> dict[str, Any]:
    """The report, whatever the verdict. Raises LabError where there is none."""
    verb = f"vmctl --host lab accept --gpu {card} --rounds {rounds} --json"
    report = json.loads(lab.shell(f"{verb} || [ $? -eq 1 ]", limit=LIMIT))
    assert "accepted" in report, report
    return dict(report)


@pytest.fixture(scope="module")
def bench(lab_host: Lab) -> Iterator[Lab]:
    """The lab as new, in which a machine with a filtered interface has been started once.

    The first one loads modules and has emulated code translated, which may take longer than vmctl waits for a start.
    """
    lab_host.reset()
    lab_host.shell(f'echo "{WARM}" >/tmp/warm.xml; virsh -q create /tmp/warm.xml; virsh -q destroy warm', limit=240)
    yield lab_host
    lab_host.reset()


WARM = """<domain type='kvm'><name>warm</name><memory unit='MiB'>64</memory><os><type machine='q35'>hvm</type></os>
<devices><interface type='network'><source network='tessera'/><filterref filter='clean-traffic'/></interface></devices>
</domain>"""


def cut(lab: Lab, card: str) -> None:
    lab.shell(f"echo {FUNCTIONS} >{PCI}/{card}/lab/vfs")


@pytest.mark.parametrize(("card", "seen"), [(T4, "10de:1eb8"), (A40, "10de:2235"), (L40S, "10de:26b9")])
def test_a_card_that_does_what_is_said_of_it_is_accepted(bench: Lab, card: str, seen: str) -> None:
    lab = bench
    if card != T4:
        cut(lab, card)
    before = leaks.look(lab)
    report = accept(lab, card)
    assert report["problems"] == []
    assert (report["accepted"], report["restored"], report["simulated"]) == (True, True, False)
    assert all(trial["created"] == trial["predicted"] and trial["refusal"] for trial in report["rounds"][0]["types"])
    assert seen in report["rounds"][0]["guest"]["seen"]
    assert leaks.left(before, leaks.look(lab)) == []


def test_a_card_that_is_only_given_away_whole_is_refused(bench: Lab) -> None:
    answer = bench.shell(f"vmctl --host lab accept --gpu {V100} --rounds 1 --json 2>&1 || [ $? -eq 3 ]")
    assert "offers no vGPU types" in answer


TYPES = f"{PCI}/{T4}/mdev_supported_types"
LIES = {
    "more shares than the card gives": (
        {
            f"{TYPES}/nvidia-232/available_instances": "6",
            f"{TYPES}/nvidia-232/description": "num_heads=4, frl_config=60, framebuffer=4096M, max_instance=6",
        },
        "T4-4Q: 6 were predicted, 4 made",
    ),
    "fewer shares than the card gives": (
        {f"{TYPES}/nvidia-232/available_instances": "3"},
        "T4-4Q: 3 were predicted, and one more was made",
    ),
    "another device than the guest sees": ({f"{PCI}/{T4}/device": "0x1eb9"}, "sees 10de:1eb8, not 10de:1eb9"),
}
"""Files of the kernel's that say something else, and what the report must say of it."""


UNMOUNT = f"""
    for try in 1 2 3; do
        awk '/{T4}|.tmp.types/ {{ print $2 }}' /proc/mounts | tac | xargs -r umount 2>/dev/null || true
    done
    ! grep -q {T4} /proc/mounts
"""
"""What is put over a file appears at each place where that is mounted, and goes at all of them at once."""


@pytest.fixture
def one_type(bench: Lab) -> Iterator[Lab]:
    """The T4 shows one of its types: this is not about the others, and trying them takes a minute."""
    kind = "/tmp/types/nvidia-232"
    bench.shell(f"mkdir -p {kind}; mount --bind {TYPES}/nvidia-232 {kind}; mount --rbind /tmp/types {TYPES}")
    yield bench
    bench.shell(UNMOUNT)


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_caught(one_type: Lab, lie: str) -> None:
    said, told = LIES[lie]
    for number, (file, text) in enumerate(said.items()):
        one_type.shell(f"echo '{text}' >/tmp/lie{number}; mount --bind /tmp/lie{number} {file}")
    report = accept(one_type, T4)
    assert not report["accepted"]
    assert told in " ".join(report["problems"])


def test_a_share_that_no_guest_can_open_is_told(one_type: Lab) -> None:
    """The driver makes it, and refuses to open it."""
    one_type.shell("echo 5 >/sys/module/nvidia/parameters/fail_open")
    try:
        report = accept(one_type, T4)
    finally:
        one_type.shell("echo 0 >/sys/module/nvidia/parameters/fail_open")
    assert not report["accepted"]
    assert "Input/output error" in " ".join(report["problems"])
