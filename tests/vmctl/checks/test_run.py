"""The doctor as a whole: every question answered, in time, whatever hangs, whoever asks."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import pytest

from tests.vmctl.checks.hosts import ANSWERS, GPU, good, seen, site, unit
from vmctl import checks, gpus, kvm, state
from vmctl.card import Regime
from vmctl.checks import CHECKS, Status
from vmctl.checks import look as looking
from vmctl.checks.together import together
from vmctl.errors import Code, VmctlError
from vmctl.host import Answer, Host
from vmctl.kvm import WORKS
from vmctl.model import WantedVGPU
from vmctl.simulate import SimulatedHost, prepare

NOW = datetime(2026, 12, 1, 9, tzinfo=UTC)
SCHEMAS = Path(__file__).parents[3] / "docs/schemas"


@dataclass
class Recorded:
    """Commands that answer as the good host's do; `hangs`: those that sleep until the test ends."""

    hangs: tuple[str, ...] = ()
    asked: list[str] = field(default_factory=list)
    end: threading.Event = field(default_factory=threading.Event)

    def __call__(self, command: Sequence[str], *, limit: float, given: str = "") -> Answer:
        line = " ".join(command)
        self.asked.append(line)
        if line.startswith("qemu-system"):
            return Answer(WORKS, "", "")
        if any(line.startswith(name) for name in self.hangs):
            self.end.wait(60)
        answer = ANSWERS.get(line, Answer(2, "", "unknown"))
        if isinstance(answer, VmctlError):
            raise answer
        return answer


@pytest.fixture
def whole(tmp_path: Path) -> Host:
    (tmp_path / "root").mkdir()
    (tmp_path / "storage").mkdir()
    return replace(good(tmp_path / "root"), commands=Recorded())


def test_a_good_host_passes_everything(good: Host) -> None:
    found = checks.examine(seen(good))
    assert {finding.status for finding in found} <= {Status.PASS, Status.NOT_APPLICABLE}
    assert checks.exit_status(found) == 0
    assert [finding.remedy for finding in found if finding.remedy] == []


def test_every_question_is_answered_once_for_each_subject(good: Host) -> None:
    found = [(finding.id, finding.subject) for finding in checks.examine(seen(good))]
    assert len(set(found)) == len(found)
    assert {name for name, _ in found} == {check.id for check in CHECKS}
    assert all(check.question.endswith("?") for check in CHECKS)


def test_the_questions_of_the_issue_are_there() -> None:
    asked = {check.id for check in CHECKS}
    assert asked >= {
        "iommu.enabled", "iommu.remapping", "iommu.group_viable", "vfio.available", "kvm.works", "driver.bound",
        "driver.versions", "driver.package", "vgpu.manager", "vgpu.types", "sriov.enabled", "mig.pending",
        "nouveau.absent", "secureboot.modules", "memory.lock_limit", "libvirt.version", "tools.present",
        "sshd.limits", "clock", "disk",
    }  # fmt: skip
    assert any(name.startswith("leftovers.") for name in asked)


def test_a_look_asks_each_source_once(whole: Host) -> None:
    found = looking.look_at(site(whole))
    commands = whole.commands
    assert isinstance(commands, Recorded)
    ours = [line for line in commands.asked if line in looking.COMMANDS]
    assert set(ours) == set(looking.COMMANDS)
    once = [line for line in ours if line != "dmesg"]  # which the look at the driver reads, too
    assert len(once) == len(looking.COMMANDS) - 1
    assert checks.exit_status(checks.examine(found)) in (0, 3)
    assert found.libvirt.version > (1, 0, 0)
    assert "no /dev/kvm" in found.kvm.reason
    assert found.free_bytes[1] > 0


@pytest.mark.parametrize("hung", ["nvidia-smi", "lvs", "dmesg", "systemctl"])
def test_a_command_that_hangs_costs_its_own_answer_and_no_other(
    whole: Host, hung: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "ALL_SECONDS", 1.5)
    monkeypatch.setattr(looking, "DRIVER_SECONDS", 0.7)
    commands = Recorded(hangs=(hung,))
    begun = time.monotonic()
    found = {finding.id: finding for finding in checks.run(site(replace(whole, commands=commands)))}
    commands.end.set()
    assert time.monotonic() - begun < 8
    assert found["gpus.present"].status is Status.PASS
    assert found["iommu.enabled"].status is Status.PASS
    late = [finding for finding in found.values() if finding.status is Status.UNKNOWN]
    assert late
    assert any("No answer about" in each.said for finding in late for each in finding.evidence)


def test_the_limits_add_up_to_ten_seconds() -> None:
    assert looking.COMMAND_SECONDS < looking.DRIVER_SECONDS < looking.ALL_SECONDS < 10


def test_an_ordinary_user_gets_answers_and_reasons(good: Host) -> None:
    """What root alone may see is unknown, with the reason and what to do; nothing of it passes."""
    refused = {name: VmctlError(Code.COULD_NOT_TELL, f"{name}: not permitted.", "Run as root.") for name in ANSWERS}
    named = [finding for finding in checks.examine(seen(good, **refused)) if finding.status is Status.UNKNOWN]
    assert {finding.id for finding in named} >= {
        "vgpu.manager", "confinement", "tools.present", "libvirt.daemons", "storage.thin_pools",
    }  # fmt: skip
    assert all(finding.remedy and finding.evidence for finding in named)


def test_what_was_not_asked_is_unknown_and_not_a_pass(good: Host) -> None:
    look = replace(seen(good), answers={})
    found = checks.examine(look)
    assert {finding.status for finding in found if finding.id.startswith(("driver", "vgpu", "leftovers"))} == {
        Status.UNKNOWN
    }
    assert checks.exit_status(found) == 3


def test_exit_statuses_tell_the_worst(good: Host) -> None:
    finding = checks.examine(seen(good))[0]
    by_status = {status: replace(finding, status=status) for status in Status}
    assert checks.exit_status(list(by_status.values())) == 1
    del by_status[Status.FAIL]
    assert checks.exit_status(list(by_status.values())) == 3
    del by_status[Status.UNKNOWN]
    assert checks.exit_status(list(by_status.values())) == 0


def test_documents_and_the_example_keep_the_schema(good: Host) -> None:
    schema = json.loads((SCHEMAS / "check.schema.json").read_text())
    jsonschema.validate(checks.document(site(good), checks.examine(seen(good)), NOW), schema)
    jsonschema.validate(json.loads((SCHEMAS / "check.example.json").read_text()), schema)


def test_answers_come_together_and_errors_are_answers() -> None:
    refusal = VmctlError(Code.FAILED, "No.", "Ask again.")

    def refuse() -> int:
        raise refusal

    waiting = threading.Event()
    begun = time.monotonic()
    found = together({"one": lambda: 1, "two": refuse, "late": lambda: waiting.wait(30) and 3}, 0.3)
    waiting.set()
    assert time.monotonic() - begun < 5
    late = found.pop("late")
    assert found == {"one": 1, "two": refusal}
    assert isinstance(late, VmctlError)
    assert "No answer about late in 0.3 s." in late.what


def test_a_bug_in_a_question_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda told: None)  # it would tell it a second time
    with pytest.raises(ZeroDivisionError):
        together({"bug": lambda: 1 // 0}, 5)


def test_a_simulated_host_is_examined_like_any_other(tmp_path: Path) -> None:
    prepare(tmp_path / "t4", "t4")
    host = SimulatedHost("t4", root=tmp_path / "t4", state_dir=tmp_path / "state", clock_state=lambda: 0)
    wish = WantedVGPU("00000000-0000-4000-8000-00000000aaaa", GPU, "T4-4Q", Regime.EQUAL, (0, 1), 0)
    share = gpus.provide(host, wish)
    boot = host.read(host.path("/proc/sys/kernel/random/boot_id"))
    told = {"boot_id": boot, "kvm": False, "domain_type": "qemu", "reason": "Tried before."}
    kvm.memory(host).write_text(json.dumps(told))  # the test of KVM may take seconds
    found = {(finding.id, finding.subject): finding for finding in checks.run(site(host))}
    left = found["leftovers.vgpus", "host"]
    assert left.status is Status.WARN
    assert f"echo 1 > /sys/bus/mdev/devices/{share.uuid}/remove" in left.remedy
    assert found["vgpu.types", GPU].status is Status.PASS
    assert found["driver.bound", GPU].status is Status.PASS


def test_a_libvirt_that_is_away_fails_and_the_rest_is_still_checked(whole: Host, tmp_path: Path) -> None:
    away = replace(site(whole), libvirt_uri=f"qemu+unix:///system?socket={tmp_path}/none")
    found = {finding.id: finding for finding in checks.run(away)}
    assert found["libvirt.version"].status is Status.FAIL
    assert found["leftovers.functions"].status is Status.PASS
    assert found["disk"].status is Status.PASS
    assert checks.exit_status(list(found.values())) == 1


def test_units_are_asked_only_for_what_holds_no_secret() -> None:
    assert "Environment" not in looking.systemctl("libvirtd.service")
    assert unit("libvirtd.service").status == 0


def test_the_doctor_does_not_ask_the_driver_while_a_card_is_changed(whole: Host) -> None:
    """nvidia-smi holds the cards while it looks, and the change would not get hold of its own ("unbindLock")."""
    with state.locked(whole.gpus_lock):
        look = looking.look_at(site(whole))
        with pytest.raises(VmctlError, match="at work on this host"):
            look.said(looking.SMI)
    asked = whole.commands.asked  # type: ignore[attr-defined]
    assert not [line for line in asked if line.startswith("nvidia-smi")]
    assert looking.look_at(site(whole)).said(looking.SMI).status == 0
