"""What only the driver can tell: taken by exit status and label, and every gap has a name and a reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vmctl.fixtures.captured import fixture, parts
from tests.vmctl.gpus.driver import LATE, Driver, q
from tests.vmctl.gpus.trees import function, kind, plant
from vmctl import state
from vmctl.card import Mode, Policy, Scheduler
from vmctl.errors import VmctlError
from vmctl.gpus.driver import facts, lock
from vmctl.gpus.driver.answers import DriverFacts, Instance, Profile
from vmctl.host import Answer, Host

L4, T4 = "0000:41:00.0", "0000:c1:00.0"
SMI = "00000000:41:00.0"
REFUSED = Answer(2, "ERROR: Option -ss is not recognized. Please run 'nvidia-smi vgpu -h'.\n", "")


def host(tmp_path: Path, answers: Mapping[str, str | Answer | VmctlError], tree: str) -> Host:
    (tmp_path / "root").mkdir(exist_ok=True)
    plant(tmp_path / "root", tree)
    return Host("here", root=tmp_path / "root", state_dir=tmp_path / "state", commands=Driver(answers))


def asked(host: Host) -> list[str]:
    assert isinstance(host.commands, Driver)
    return host.commands.asked


def gaps(found: DriverFacts) -> dict[str, str]:
    return {gap.what: gap.reason for gap in found.unknown}


def t4_tree() -> str:
    return function(T4) + kind(T4, "nvidia-232", name="GRID T4-4Q")


T4_ANSWERS: dict[str, str | Answer | VmctlError] = {
    "nvidia-smi -q": fixture("nvidia-smi-q-t4-525-host-non-sriov.txt"),
    "nvidia-smi vgpu -q": fixture("nvidia-smi-vgpu-q-t4-525.txt"),
    "nvidia-smi vgpu -ss": REFUSED,
    "dmesg": "[1.0] NVRM: GPU at 0000:c1:00.0 has software scheduler DISABLED with policy BEST_EFFORT.\n",
}


def test_an_old_card_has_no_mig_and_no_mixed_size_and_that_is_no_gap(tmp_path: Path) -> None:
    here = host(tmp_path, T4_ANSWERS, t4_tree())
    found = facts.read(here)[T4]
    assert (found.model, found.mig, found.ecc, found.mixed) == ("Tesla T4", None, Mode(True, True), None)
    assert found.scheduler == Scheduler(Policy.BEST_EFFORT)
    assert [active.type for active in found.active or ()] == ["T4-4Q"]
    assert found.unknown == ()
    assert asked(here) == ["nvidia-smi -q", "nvidia-smi vgpu -ss", "dmesg", "nvidia-smi vgpu -q"]


def test_a_driver_that_tells_no_policy_anywhere_leaves_a_gap(tmp_path: Path) -> None:
    found = facts.read(host(tmp_path, T4_ANSWERS | {"dmesg": ""}, t4_tree()))[T4]
    assert set(gaps(found)) == {"scheduler"}
    assert "it does not know the question" in gaps(found)["scheduler"]


def titled(text: str) -> str:
    return f"GPU {SMI}\n{text}"


def l4_answers() -> dict[str, str | Answer | VmctlError]:
    creatable, supported, running = parts(fixture("nvidia-smi-vgpu-placements-l4-mixed.txt")).values()
    return {
        "nvidia-smi -q": q(SMI, mixed="Enabled"),
        "nvidia-smi vgpu -q": running,
        "nvidia-smi vgpu -ss": fixture("nvidia-smi-vgpu-ss-active.txt").replace("65:00", "41:00"),
        "nvidia-smi vgpu -s -v": titled(supported),
        "nvidia-smi vgpu -c -v": titled(creatable),
    }


def test_a_card_in_mixed_size_tells_its_places(tmp_path: Path) -> None:
    found = facts.read(host(tmp_path, l4_answers(), function(L4)))[L4]
    assert (found.mixed, found.scheduler) == (True, Scheduler(Policy.EQUAL_SHARE, 2083))
    six = found.types["L4-6Q"]
    assert (six.placement_size, six.placements, six.creatable) == (6, (0, 6, 12, 18), (6, 18))
    assert [active.placement for active in found.active or ()] == [6]
    assert found.unknown == ()


def test_free_places_are_asked_for_only_in_mixed_size(tmp_path: Path) -> None:
    here = host(tmp_path, l4_answers() | {"nvidia-smi -q": q(SMI)}, function(L4))
    found = facts.read(here)[L4]
    assert (found.mixed, found.types["L4-6Q"].creatable) == (False, None)
    assert "nvidia-smi vgpu -c -v" not in asked(here)


def mig_answers() -> dict[str, str | Answer | VmctlError]:
    return l4_answers() | {
        "nvidia-smi -q": q(SMI, mig="Enabled", mixed="N/A"),
        "nvidia-smi vgpu -q": f"GPU {SMI}\n    Active vGPUs                          : 0\n",
        "nvidia-smi -L": "GPU 0: NVIDIA A2 (UUID: GPU-9)\n"
        "GPU 2: NVIDIA A100 (UUID: GPU-00000000-0000-0000-0000-000000000001)\n"
        "  MIG 2g.10gb     Device  0: (UUID: MIG-1)\n",
        "nvidia-smi mig -lgip": fixture("nvidia-smi-mig-lgip-a100-40-older-driver.txt").replace(
            "|   0  MIG", "|   2  MIG"
        ),
        "nvidia-smi mig -lgipp": fixture("nvidia-smi-mig-lgipp-a100-40-old.txt").replace("GPU  0", "GPU  2"),
        "nvidia-smi mig -lgi": fixture("nvidia-smi-mig-lgi-a100-two-2g.txt"),
    }


def test_a_card_in_mig_mode_tells_its_instances_by_its_own_number(tmp_path: Path) -> None:
    found = facts.read(host(tmp_path, mig_answers(), function(L4)))[L4]
    assert (found.mig, found.mixed) == (Mode(True, True), None)
    assert found.instances == (Instance(3, "2g.10gb", 14, 0, 2), Instance(5, "2g.10gb", 14, 4, 2))
    assert found.profiles[1] == Profile(14, "2g.10gb", 2, (0, 2, 4), 3, 3)
    assert len(found.profiles) == 5
    assert found.unknown == ()


def test_no_instances_are_told_by_exit_status_and_words_together(tmp_path: Path) -> None:
    none = Answer(6, "No GPU instances found: Not Found\n", "")
    assert facts.read(host(tmp_path, mig_answers() | {"nvidia-smi mig -lgi": none}, function(L4)))[L4].instances == ()
    for other in (Answer(6, "Nothing here.\n", ""), Answer(4, "No GPU instances found\n", ""), Answer(0, "", "")):
        here = replace(host(tmp_path, {}, ""), commands=Driver(mig_answers() | {"nvidia-smi mig -lgi": other}))
        assert facts.read(here)[L4].instances is None
        assert "mig" in gaps(facts.read(here)[L4])


def test_a_mode_that_waits_for_a_reset(tmp_path: Path) -> None:
    answers = l4_answers() | {"nvidia-smi -q": q(SMI, mig="Disabled", pending="Enabled")}
    assert facts.read(host(tmp_path, answers, function(L4)))[L4].mig == Mode(False, True)


def test_a_plain_driver_makes_no_vgpus_and_that_is_no_gap(tmp_path: Path) -> None:
    """A dossier 9 row 26 host: nothing is asked that only a vGPU driver knows."""
    here = host(tmp_path, {"nvidia-smi -q": q(SMI, mode="None", mixed="")}, function(L4))
    found = facts.read(here)[L4]
    assert (found.mixed, found.scheduler, found.types, found.active, found.unknown) == (None, None, {}, (), ())
    assert asked(here) == ["nvidia-smi -q"]


def test_a_host_without_the_driver_is_not_asked(tmp_path: Path) -> None:
    tree = (
        function(L4, driver="vfio-pci")
        + function("0000:42:00.0", driver="nouveau")
        + function("0000:00:02.0", driver="i915")
    )
    here = host(tmp_path, {}, tree)
    assert facts.read(here) == {}
    assert asked(here) == []


def test_without_nvidia_smi_every_gap_says_so(tmp_path: Path) -> None:
    found = facts.read(host(tmp_path, {}, function(L4)))[L4]
    assert set(gaps(found)) == {"mig", "ecc", "mixed", "scheduler", "types", "holders.licence"}
    assert set(gaps(found).values()) == {"The command nvidia-smi is not there."}
    assert (found.mig, found.active, found.instances) == (None, None, None)


@pytest.mark.field("A24")
@pytest.mark.parametrize("status", [0, 2, 3, 4, 6, 9, 12, 13, 14, 15, 255])
@pytest.mark.parametrize("text", ["", "Alles in Ordnung.\n", "No devices were found\n", "GPU\n    MIG Mode : 0\n"])
def test_no_wording_is_taken_for_an_answer(tmp_path: Path, status: int, text: str) -> None:
    """Whatever it prints, known or new: without its labels nothing is told, and nothing is "none"."""
    asked = [f"nvidia-smi {words}" for words in ("-q", "vgpu -q", "vgpu -ss", "vgpu -s -v")]
    found = facts.read(host(tmp_path, dict.fromkeys(asked, Answer(status, text, "")), function(L4)))[L4]
    assert set(gaps(found)) == {"mig", "ecc", "mixed", "scheduler", "types", "holders.licence"}
    assert found == DriverFacts(unknown=found.unknown)


def test_after_one_late_answer_nothing_more_is_asked(tmp_path: Path) -> None:
    """What holds nvidia-smi (a card off the bus) would hold every call, and the look would take a minute."""
    here = host(tmp_path, {"nvidia-smi -q": LATE}, function(L4))
    found = facts.read(here)[L4]
    assert [line for line in asked(here) if line.startswith("nvidia-smi")] == ["nvidia-smi -q"]
    assert set(gaps(found).values()) == {LATE.what}


def test_no_call_may_take_more_than_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "TOTAL_SECONDS", 0.1)
    here = host(tmp_path, l4_answers(), function(L4))
    assert set(gaps(facts.read(here)[L4]).values()) == {"There was no time left to ask nvidia-smi."}


def test_nobody_looks_while_a_mode_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "LOOK_SECONDS", 0.1)
    here = host(tmp_path, l4_answers(), function(L4))
    with state.locked(here.gpus_lock):
        assert "mig" in gaps(facts.read(here)[L4])
        assert "nvidia-smi -q" not in asked(here)
        assert facts.read(here, locked=True)[L4].mixed is True
    with state.locked(here.gpus_lock, shared=True):
        assert facts.read(here)[L4].unknown == ()


DAMAGED = ("mig", "ecc", "mixed", "scheduler", "types", "active", "profiles", "instances")
GAP = {"active": "holders.licence", "profiles": "mig", "instances": "mig"}


@given(data=st.data())
def test_of_a_damaged_answer_each_field_is_right_or_named_as_unknown(data: st.DataObject) -> None:
    """A line that is missing in one of the lists, anywhere: nothing changes in silence."""
    answers = data.draw(st.sampled_from([T4_ANSWERS, l4_answers(), mig_answers()]))
    tree, address = (t4_tree(), T4) if answers is T4_ANSWERS else (function(L4), L4)
    lists = sorted(name for name, text in answers.items() if isinstance(text, str))
    with TemporaryDirectory() as folder:
        whole = facts.read(host(Path(folder), answers, tree))[address]
        name = data.draw(st.sampled_from(lists))
        lines = str(answers[name]).splitlines(keepends=True)
        del lines[data.draw(st.integers(0, len(lines) - 1))]
        plain = host(Path(folder), answers | {name: "".join(lines)}, "")
        found = facts.read(plain)[address]
    for field in DAMAGED:
        value, right = getattr(found, field), getattr(whole, field)
        if value != right and not tells_less(value, right):
            assert GAP.get(field, field) in gaps(found), (field, value)


def tells_less(value: object, right: object) -> bool:
    """Parts of it are None, and all others are right: a vGPU without its name, a type without its size."""
    if isinstance(right, Mapping) and isinstance(value, Mapping):
        return set(value) == set(right) and all(tells_less(value[key], right[key]) for key in right)
    if isinstance(right, tuple) and isinstance(value, tuple):
        return len(value) == len(right) and all(map(tells_less, value, right))
    if is_dataclass(right) and type(value) is type(right):
        return all(tells_less(getattr(value, part.name), getattr(right, part.name)) for part in fields(right))
    return value == right or value is None or value == ""


class WithNVML(Host):
    """A host whose NVML answers, and whose nvidia-smi nobody should need."""

    def nvml(self, limit: float, question: str = "facts") -> dict[str, object]:
        said = {"address": SMI, "uuid": "GPU-1", "model": "NVIDIA L4", "virtualization": 3, "ecc": [1, 1], "mixed": 0}
        said |= {"scheduler": {"policy": 1, "slice_ns": 0}, "types": [], "active": []}
        card: dict[str, object] = {name: {"said": value} for name, value in said.items()}
        return {"gpus": [card | {"mig": {"error": 3, "text": "Not Supported"}, "profiles": []}]}


def test_nvml_is_enough(tmp_path: Path) -> None:
    plain = host(tmp_path, {}, function(L4))
    here = WithNVML("here", root=plain.root, state_dir=plain.state_dir, commands=plain.commands)
    assert facts.read(here)[L4] == DriverFacts(
        "GPU-1", "NVIDIA L4", None, Mode(True, True), False, Scheduler(Policy.BEST_EFFORT), {}, active=()
    )
    assert asked(here) == []
