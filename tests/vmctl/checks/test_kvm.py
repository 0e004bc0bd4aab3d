"""Whether KVM works: by trying it, once per boot, with a limit."""

from __future__ import annotations

import errno
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.vmctl.build import NOW
from vmctl import kvm
from vmctl.errors import Code, VmctlError
from vmctl.host import Answer, Host, TooSlow, run_command


@dataclass
class Recorded:
    """QEMU as it answers on some machine; counts how often it was started."""

    status: int = kvm.WORKS
    error: VmctlError | None = None
    started: list[Sequence[str]] = field(default_factory=list)

    def __call__(self, command: Sequence[str], *, limit: float, given: str = "") -> Answer:
        self.started.append(command)
        if self.error is not None:
            raise self.error
        return Answer(self.status, "", "")


HANGS = TooSlow(Code.FAILED, "qemu-system-x86_64 gave no answer in 5 s.", "Look at it.", retry=True)


@pytest.fixture
def host(bare: Host) -> Host:
    """A host with a /dev/kvm that opens: any character device will do."""
    (bare.root / "dev").mkdir()
    (bare.root / "dev/kvm").symlink_to("/dev/null")
    boot(bare, "first")
    return bare


def boot(host: Host, name: str) -> None:
    file = host.path("/proc/sys/kernel/random/boot_id")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{name}\n")


def test_a_machine_that_ran_means_kvm(host: Host) -> None:
    found = kvm.accelerator(replace(host, commands=Recorded()))
    assert (found.kvm, found.domain_type) == (True, "kvm")


def test_a_machine_that_hangs_means_emulation_and_the_reason_says_so(host: Host) -> None:
    found = kvm.accelerator(replace(host, commands=Recorded(error=HANGS)))
    assert (found.kvm, found.domain_type) == (False, "qemu")
    assert "hung (no answer in 5 s)" in found.reason


@pytest.mark.parametrize("status", [0, 1, 84, 134])
def test_any_other_end_means_emulation(host: Host, status: int) -> None:
    found = kvm.accelerator(replace(host, commands=Recorded(status=status)))
    assert not found.kvm
    assert f"ended with {status}" in found.reason


def test_a_missing_qemu_is_a_sentence_and_not_remembered(host: Host) -> None:
    missing = VmctlError(Code.COULD_NOT_TELL, "The command qemu-system-x86_64 is not there.", "Install it.")
    assert "is not there" in kvm.accelerator(replace(host, commands=Recorded(error=missing))).reason
    assert kvm.accelerator(replace(host, commands=Recorded())).kvm


@pytest.mark.parametrize("first", [Recorded(), Recorded(error=HANGS)])
def test_the_verdict_holds_for_one_boot(host: Host, first: Recorded) -> None:
    told = kvm.accelerator(replace(host, commands=first))
    again = Recorded(status=1)
    assert kvm.accelerator(replace(host, commands=again)) == told
    assert again.started == []
    boot(host, "second")
    assert not kvm.accelerator(replace(host, commands=again)).kvm
    assert len(again.started) == 1


def test_a_host_that_was_only_busy_gets_kvm_later_in_the_same_boot(host: Host) -> None:
    """A test machine on a loaded host takes longer than one on an idle one; that was held against it until a reboot."""

    def after(seconds: float) -> Host:
        return replace(host, clock=lambda: NOW + timedelta(seconds=seconds))

    assert not kvm.accelerator(replace(after(0), commands=Recorded(error=HANGS))).kvm
    assert not kvm.accelerator(replace(after(kvm.HUNG_SECONDS - 1), commands=Recorded())).kvm
    assert kvm.accelerator(replace(after(kvm.HUNG_SECONDS + 1), commands=Recorded())).kvm
    assert kvm.accelerator(replace(after(kvm.HUNG_SECONDS + 2), commands=Recorded(error=HANGS))).kvm


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"boot_id": "first"}', "\x00"])
def test_a_spoiled_memory_counts_as_none(host: Host, text: str) -> None:
    host.state_dir.mkdir()
    kvm.memory(host).write_text(text)
    assert kvm.accelerator(replace(host, commands=Recorded())).kvm
    assert json.loads(kvm.memory(host).read_text())["kvm"] is True


def test_a_memory_that_cannot_be_kept_spoils_nothing(host: Host) -> None:
    host.state_dir.write_text("a file, not a folder")
    assert kvm.accelerator(replace(host, commands=Recorded())).kvm


def test_a_full_disk_keeps_no_drafts(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look left one file behind at every call."""

    def full(path: Path, *_: object) -> None:
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    assert kvm.accelerator(replace(host, commands=Recorded())).kvm
    assert list(host.state_dir.iterdir()) == []


def test_without_the_device_nothing_is_started(bare: Host) -> None:
    qemu = Recorded()
    assert "There is no /dev/kvm" in kvm.accelerator(replace(bare, commands=qemu)).reason
    assert qemu.started == []


def test_a_file_over_the_device_is_seen(bare: Host) -> None:
    (bare.root / "dev").mkdir()
    (bare.root / "dev/kvm").touch()
    assert "is no device here" in kvm.accelerator(replace(bare, commands=Recorded())).reason


def test_a_device_that_may_not_be_opened_is_seen(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vmctl.kvm.os.access", lambda path, mode: False)  # tests may run as root, who may open all
    assert "may not be opened" in kvm.accelerator(replace(host, commands=Recorded())).reason


def test_the_boot_sector_itself_runs(tmp_path: Path) -> None:
    """On QEMU's own emulation it must end as it should, or the verdict above would mean nothing."""
    assert len(kvm.sector()) == 512
    assert kvm.self_test(Host("here", state_dir=tmp_path), "tcg") == kvm.WORKS


def test_a_command_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    begun = time.monotonic()
    with pytest.raises(TooSlow, match=r"sh gave no answer in 0\.3 s"):
        run_command(["sh", "-c", f"sleep 60 & echo $! > {tmp_path}/pid; wait"], limit=0.3)
    assert time.monotonic() - begun < 3
    child = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 3
    while running(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not running(child)


def test_tools_of_administrators_are_found_by_anybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert run_command(["sh", "-c", "echo $PATH"], limit=5).output == "/usr/bin:/bin:/usr/sbin:/sbin\n"


def running(process: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False


@pytest.mark.field("C07")
def test_much_output_on_both_streams_comes_back_whole() -> None:
    script = "import sys; sys.stdout.write('o' * 10_485_760); sys.stderr.write('e' * 10_485_760)"
    answer = run_command(["python3", "-c", script], limit=30)
    assert (answer.status, len(answer.output), len(answer.errors)) == (0, 10_485_760, 10_485_760)
