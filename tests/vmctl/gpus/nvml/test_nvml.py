"""NVML through a small library of the same calls: what it says, refuses, writes past a buffer, or never says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from vmctl.card import Mode, Policy, Scheduler
from vmctl.errors import Code, VmctlError
from vmctl.gpus.driver.answers import Active, GPUFigures, Instance, Load, Profile, TypeFacts, Untold, VGPUFigures
from vmctl.gpus.driver.nvml import NVML
from vmctl.host import Host, TooSlow

L40S = "0000:41:00.0"
Library = Callable[..., Host]


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, and an older one without the scheduler's call."""
    folder = tmp_path_factory.mktemp("nvml")
    source = Path(__file__).parent / "library.c"
    for name, flags in (("new", []), ("old", ["-DOLD"])):
        (folder / name).mkdir()
        made = folder / name / "libnvidia-ml.so.1"
        subprocess.run(["cc", "-shared", "-fPIC", "-Wall", "-Werror", *flags, "-o", made, source], check=True)
    return folder


@pytest.fixture
def library(libraries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    """`library("mig")` is this machine with that behaviour of NVML."""

    def behaving(behaviour: str = "", release: str = "new") -> Host:
        monkeypatch.setenv("LD_LIBRARY_PATH", str(libraries / release))
        monkeypatch.setenv("NVML_STAND_IN", behaviour)
        return Host("here", state_dir=tmp_path)

    return behaving


def test_facts_of_a_card(library: Library) -> None:
    nvml = NVML(library().nvml(20, "facts"))
    assert nvml.vgpu_host(L40S) is True
    assert nvml.name(L40S) == ("GPU-00000000-0000-0000-0000-000000000001", "NVIDIA L40S")
    assert (nvml.mig(L40S), nvml.ecc(L40S), nvml.mixed(L40S)) == (None, Mode(True, False), True)
    assert nvml.scheduler(L40S) == Scheduler(Policy.EQUAL_SHARE, 2083)
    assert nvml.types(L40S, creatable=True) == {
        "L40S-24Q": TypeFacts("L40S-24Q", 1155, 24576, 2, placement_size=24, placements=(0, 24), creatable=()),
        "L40S-4Q": TypeFacts("L40S-4Q", 1150, 4096, 12, placement_size=4, placements=(0, 4), creatable=(4,)),
    }


def test_frame_buffers_beyond_4_gib_are_told_whole(library: Library) -> None:
    """The binding's own call would answer 904 MiB of 5000, and let the library write past its buffer."""
    first, second = known(NVML(library().nvml(20, "usage")).active(L40S))
    assert first == Active(
        number=7,
        vm="00000000-0000-4000-8000-000000000007",
        type="L40S-24Q",
        placement=24,
        licence="licensed until 2026-04-03 09:01:06 GMT",
        guest_driver="570.86.15",
        frame_buffer_used_mib=5000,
    )
    assert second == Active(
        number=8, type="L40S-4Q", placement=0, licence="unlicensed (restricted)", frame_buffer_used_mib=128
    )


def test_the_bindings_own_call_is_wrong(library: Library) -> None:
    """The control: why the child has a buffer of its own. In a process of its own, for it writes past its buffer."""
    library()
    script = "import pynvml; pynvml.nvmlInit(); print(pynvml.nvmlVgpuInstanceGetFbUsage(7) >> 20)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.strip() != "5000"


def known(told: tuple[Active, ...] | Untold) -> tuple[Active, ...]:
    assert not isinstance(told, Untold)
    return told


def test_usage_is_the_newest_sample(library: Library) -> None:
    nvml = NVML(library().nvml(20, "usage"))
    assert nvml.figures(L40S) == GPUFigures(Load(41, 17, 5, None), 30000, 48, 161.5)
    running = nvml.vgpus(L40S)
    assert not isinstance(running, Untold)
    assert [(each.load, each.frame_buffer_mib) for each in running] == [(Load(38, 16, 4, 0), 24576), (Load(), 4096)]
    assert isinstance(running[0], VGPUFigures)


def test_gpu_instances_of_a_card_in_mig_mode(library: Library) -> None:
    nvml = NVML(library("mig").nvml(20, "facts"))
    assert (nvml.mig(L40S), nvml.mixed(L40S)) == (Mode(True, True), None)
    assert nvml.profiles(L40S) == (Profile(9, "3g.47gb", 4, (0, 4), 1, 2),)
    assert nvml.instances(L40S) == (Instance(2, "3g.47gb", 9, 4, 4),)


def test_a_refusal_is_no_zero(library: Library) -> None:
    told = NVML(library("lost").nvml(20, "facts")).ecc(L40S)
    assert isinstance(told, Untold)
    assert "GPU is lost" in told.reason


def test_an_older_library_says_less(library: Library) -> None:
    nvml = NVML(library(release="old").nvml(20, "facts"))
    assert isinstance(nvml.scheduler(L40S), Untold)
    assert nvml.mixed(L40S) is True


def test_a_card_that_is_lost_is_not_told_of(library: Library) -> None:
    told = library().nvml(20, "facts")
    assert len(told["gpus"]) == 1  # type: ignore[arg-type]
    assert isinstance(NVML(told).mig("0000:42:00.0"), Untold)


def test_a_library_that_hangs_is_left(library: Library) -> None:
    with pytest.raises(TooSlow):
        library("hang").nvml(1.5, "facts")


@pytest.mark.parametrize("behaviour", ["no-driver", "no library"])
def test_without_library_or_driver_it_could_not_tell(
    library: Library, behaviour: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    host = library(behaviour)
    if behaviour == "no library":
        monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    with pytest.raises(VmctlError, match="NVML cannot be used") as raised:
        host.nvml(20, "facts")
    assert raised.value.code == Code.COULD_NOT_TELL


def test_a_part_that_is_missing_is_not_told() -> None:
    """Of any document of another release, too."""
    nvml = NVML(json.loads('{"gpus": [{"address": {"said": "00000000:41:00.0"}}, {"address": {"error": 15}}]}'))
    for told in (nvml.mig(L40S), nvml.types(L40S, creatable=True), nvml.active(L40S), nvml.instances(L40S)):
        assert isinstance(told, Untold)
