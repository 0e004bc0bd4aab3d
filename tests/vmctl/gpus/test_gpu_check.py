"""The script for machines with a real GPU: never fails, and its document may be shown to anybody."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.gpu_check import plain, sysfs
from vmctl.redact import Redactor
from vmctl.simulate import SimulatedHost

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("bare", [False, True])
def test_it_prints_one_document_whatever_is_missing(tmp_path: Path, bare: bool) -> None:
    """On a bare machine, where not even the libraries of the environment are there, nor any tool."""
    done = subprocess.run(
        [sys.executable, *(["-S"] if bare else []), "-m", "scripts.gpu_check"],
        cwd=ROOT,
        env=os.environ | ({"PATH": str(tmp_path)} if bare else {}),
        capture_output=True,
        text=True,
        check=True,
    )
    document = json.loads(done.stdout)
    assert {"nvml", "nvidia_smi", "sysfs", "inventory", "vmctl"} <= set(document)
    assert document["vmctl"]["gpus"]


def test_relations_stay_and_identities_go() -> None:
    redactor = Redactor()
    first, second = "4f2b0c1e-1111-2222-3333-444455556666", "4f2b0c1e-1111-2222-3333-444455557777"
    facts = ("Serial Number : 1324", "    GPU PDI : 0xabc", "VBIOS Version : 90.04.38.00.03", "host 10.1.2.3")
    text = "\n".join([f"GPU UUID : GPU-{first}", *facts])
    cleaned = redactor.clean({f"vgpu {second}": [text, first]})
    said = json.dumps(cleaned)
    assert "4f2b0c1e" not in said
    assert "1324" not in said
    assert "0xabc" not in said
    assert "10.1.2.3" not in said
    assert "90.04.38.00.03" in said
    (key, (redacted, alone)) = next(iter(cleaned.items()))
    assert alone in redacted
    assert alone not in key


def test_structures_of_the_library_become_json() -> None:
    class Memory(ctypes.Structure):
        _fields_ = [("total", ctypes.c_ulonglong), ("name", ctypes.c_char * 4)]

    assert plain([Memory(7, b"T4"), b"x"]) == [{"total": 7, "name": "T4"}, "x"]


def test_what_vmctl_reads_is_in_it(t4: SimulatedHost) -> None:
    found = sysfs(t4)
    folder = f"{t4.root}/sys/bus/pci/devices/0000:3b:00.0"
    assert found[f"{folder}/driver"] == "-> nvidia"
    assert found[f"{folder}/mdev_supported_types/nvidia-232/name"] == "GRID T4-4Q"
    assert found[f"{folder}/mdev_supported_types/nvidia-232/available_instances"] == "4"
