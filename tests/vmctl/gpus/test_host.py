"""The door for kernel writes: a limit, the kernel's own error number, and a journal of what was read back."""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import replace

import pytest

from tests.vmctl.gpus.trees import function, kind, nvidia, plant
from vmctl import gpus
from vmctl.card import Regime
from vmctl.errors import Code, VmctlError
from vmctl.host import Host
from vmctl.model import WantedVGPU
from vmctl.simulate import SimulatedHost

T4 = "0000:3b:00.0"


def wanted(gpu: str, name: str) -> WantedVGPU:
    return WantedVGPU(str(uuid.uuid4()), gpu, name, Regime.EQUAL, (0, 1), 0)


@pytest.mark.field("B10")
def test_a_kernel_write_that_never_returns_is_given_up(bare: Host) -> None:
    """A FIFO without a reader holds its writer as the kernel holds one who removes a device in use."""
    share = str(uuid.uuid4())
    device = f"/sys/bus/pci/devices/{T4}/{share}"
    plant(bare.root, function(T4) + kind(T4, "nvidia-232", name="GRID T4-4Q", description=nvidia(4, 4)))
    plant(bare.root, f"{device}/mdev_type -> /sys/bus/pci/devices/{T4}/mdev_supported_types/nvidia-232")
    plant(bare.root, f"/sys/bus/mdev/devices/{share} -> {device}")
    os.mkfifo(bare.path(f"{device}/remove"))
    (made,) = gpus.provided(bare)
    with pytest.raises(VmctlError, match=r"does not come back from a write to /sys/.*/remove") as refusal:
        gpus.release(replace(bare, write_limit=0.3), made)
    assert refusal.value.retry


def test_a_real_write_tells_the_kernels_own_number(bare: Host) -> None:
    (bare.root / "value").write_text("old")
    assert bare.write(bare.root / "value", "new", reading=bare.root / "value") == "new"
    with pytest.raises(FileNotFoundError):
        bare.write(bare.root / "missing", "1", reading=bare.root / "missing")


def test_every_kernel_write_is_in_the_journal_with_what_was_read_back(t4: SimulatedHost) -> None:
    made = gpus.provide(t4, wanted(T4, "T4-4Q"))
    with pytest.raises(VmctlError):
        gpus.provide(t4, wanted(T4, "T4-8Q"))
    gpus.release(t4, made)
    entries = [json.loads(line) for line in (t4.state_dir / "journal.jsonl").read_text().splitlines()]
    assert [entry.get("outcome") for entry in entries if "wrote" in entry] == ["ok", "ENOSPC", "ok"]
    assert [entry["found"] for entry in entries if "wrote" in entry] == ["nvidia-232", None, None]
    assert [entry["value"] for entry in entries if "write" in entry][0::2] == [made.uuid, "1"]
    assert entries[0]["write"] == f"/sys/bus/pci/devices/{T4}/mdev_supported_types/nvidia-232/create"


def test_a_journal_that_cannot_be_written_is_no_full_gpu(t4: SimulatedHost) -> None:
    """And nothing is made that nobody could read about afterwards."""
    (t4.state_dir / "journal.jsonl").mkdir(parents=True)
    with pytest.raises(VmctlError, match=r"The journal in .* cannot be written") as refusal:
        gpus.provide(t4, wanted(T4, "T4-4Q"))
    assert refusal.value.code is Code.FAILED
    assert gpus.provided(t4) == []
