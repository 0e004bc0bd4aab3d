"""Does KVM work here?  Not: is /dev/kvm there.

There are machines (guests of some clouds) where /dev/kvm opens, machines are made and a kernel inside hangs; even a
real-mode self-test passes there.  So QEMU runs a boot sector that goes to long mode with paging, counts, asks CPUID a
thousand times and leaves by the debug-exit device: about a second where KVM works, never where it does not.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from base64 import b64decode
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from vmctl.errors import VmctlError
from vmctl.host import Host, TooSlow
from vmctl.model import Accelerator

LIMIT_SECONDS = 5.0
HUNG_SECONDS = 600.0
"""So long a test machine that hung counts; then it is tried again: on a host that was only busy then it runs now."""
WORKS = 85  # the sector writes 0x2a to the debug-exit device, which ends QEMU with (0x2a << 1) | 1

# 16-bit start, page tables for the first 2 MiB at 0x1000-0x3fff, CR4.PAE, EFER.LME, CR0.PG, jump to 64-bit code.
LONG_MODE_SECTOR = (
    "+jHAjtiOwI7QvAB8Zr8AEAAAZjHAZrkADAAA/Gbzq2bHBgAQAyAAAGbHBgAgAzAAAGbHBgAwgwAAAGa4IAAAAA8i4Ga4ABAAAA8i"
    "2Ga5gAAAwA8yZg0AAQAADzAPARa4fA8gwGYNAQAAgA8iwOpyfAgAuQAtMQH/yXX8vugDAAAxwA+i/851+Ga6+AOwTO6wTe6wCu5m"
    "uvQAsCru9Ov9kAAAAAAAAAAAAAAAAACaIAAAAAAAAJIAABcAoHw="
)


def accelerator(host: Host) -> Accelerator:
    """Which domain type machines get here, and why.  At most `LIMIT_SECONDS` the first time after a boot, then at once.

    A machine that ran is remembered until the next boot, one that hung for `HUNG_SECONDS`.
    Raises nothing: where it cannot be told, machines are emulated.
    """
    try:
        host.ensure_live()
    except VmctlError as error:
        return _emulated(f"KVM could not be tested: {error.what}")
    obstacle = _obstacle(host.path("/dev/kvm"))
    if obstacle is not None:
        return _emulated(obstacle)
    boot = host.read_or_none(host.path("/proc/sys/kernel/random/boot_id"))
    remembered = _recall(host, boot)
    if remembered is not None:
        return remembered
    try:
        status = self_test(host, "kvm")
    except TooSlow:
        verdict = _emulated(f"/dev/kvm is there, but a test machine on it hung (no answer in {LIMIT_SECONDS:g} s).")
    except VmctlError as error:
        return _emulated(f"KVM could not be tested: {error.what}")
    else:
        if status != WORKS:
            return _emulated(f"/dev/kvm is there, but a test machine on it failed (QEMU ended with {status}).")
        verdict = Accelerator(True, "kvm", "A test machine ran on KVM.")
    _remember(host, boot, verdict)
    return verdict


def self_test(host: Host, accelerator: str) -> int:
    """Run the sector on a QEMU accelerator and give QEMU's exit status: `WORKS` where it does ("tcg" always does)."""
    with tempfile.NamedTemporaryFile(suffix=".img") as image:
        image.write(sector())
        image.flush()
        command = (
            f"qemu-system-x86_64 -accel {accelerator} -machine pc -cpu qemu64 -m 8 -nodefaults -no-user-config "
            f"-display none -no-reboot -drive file={image.name},format=raw,if=ide,snapshot=on "
            "-device isa-debug-exit,iobase=0xf4,iosize=4 -serial null"
        )
        return host.run(command.split(), limit=LIMIT_SECONDS).status


def memory(host: Host) -> Path:
    """Where the verdict of this boot is kept; removing the file makes the next call test again."""
    return host.state_dir / "kvm.json"


def sector() -> bytes:
    """The boot sector: 512 bytes with the signature."""
    return b64decode(LONG_MODE_SECTOR).ljust(510, b"\0") + b"\x55\xaa"


def _obstacle(device: Path) -> str | None:
    """What stands in the way before anything is tried."""
    try:
        mode = device.stat().st_mode
    except OSError:
        return "There is no /dev/kvm: virtualisation is off in the firmware, or the kvm module is not loaded."
    if not stat.S_ISCHR(mode):
        return "/dev/kvm is no device here: something was put over it, as make run does where KVM was tried and failed."
    if not os.access(device, os.R_OK | os.W_OK):
        return "/dev/kvm may not be opened by this user."
    return None


def _emulated(reason: str) -> Accelerator:
    return Accelerator(False, "qemu", reason)


def _recall(host: Host, boot: str | None) -> Accelerator | None:
    """The verdict of this boot, where it still counts.  An unreadable or half-written file counts as none."""
    try:
        kept = json.loads(memory(host).read_text())
        if boot is None or kept["boot_id"] != boot:
            return None
        if not kept["kvm"] and host.now().timestamp() - kept["at"] > HUNG_SECONDS:
            return None
        return Accelerator(kept["kvm"], kept["domain_type"], kept["reason"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _remember(host: Host, boot: str | None, verdict: Accelerator) -> None:
    """Where this user may write; an ordinary user's next look tries again."""
    draft = memory(host).with_suffix(f".{os.getpid()}")
    try:
        host.state_dir.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps({"boot_id": boot, "at": host.now().timestamp()} | asdict(verdict)))
        draft.replace(memory(host))
    except OSError:
        with suppress(OSError):
            draft.unlink(missing_ok=True)  # a full disk gives a name, and no room for the words
