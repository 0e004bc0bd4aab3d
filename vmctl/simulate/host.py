"""The simulated machine as a `Host`, and the ways to make one, boot it and load its driver anew.

The folder is the file-system root and also the whole state, so it survives between short-lived processes. It answers
kernel writes and the driver's commands by the rules of the vGPU dossier. What is not simulated, /dev/kvm and some of
/proc, is a link to the real thing: machines of a simulated host run on a real QEMU.
"""

from __future__ import annotations

import errno
import os
import tempfile
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vmctl.errors import Code, VmctlError, bad_input
from vmctl.host import Answer, Host, TooSlow
from vmctl.model import MediatedDevice, PCIFunction, StandInVideo
from vmctl.simulate import attributes, commands, faults
from vmctl.simulate.kernel import LAYOUT_FILE, LOG, Busy, Kernel, lose
from vmctl.simulate.layouts import LAYOUTS
from vmctl.simulate.machine import BOOT_ID, build
from vmctl.simulate.state import STATE_FILE

TICK = 0.05  # seconds between two looks at a node that somebody has open


def prepare(root: Path, layout: str) -> None:
    """Make the tree of a simulated machine at `root` unless it is there. Two at once: one makes it, both use it."""
    if layout not in LAYOUTS:
        raise bad_input(f"There is no simulated layout {layout!r}.", f"Choose one of {', '.join(sorted(LAYOUTS))}.")
    if not (root / LAYOUT_FILE).exists():
        try:
            _make(root, layout)
        except OSError as error:
            raise VmctlError(
                Code.FAILED, f"No simulated host can be made at {root}: {error.strerror}.", "Choose another root."
            ) from error
    found = (root / LAYOUT_FILE).read_text() if (root / LAYOUT_FILE).exists() else "something else"
    if found != layout:
        raise bad_input(f"{root} holds {found}, not the layout {layout}.", "Give each simulated host its own root.")
    if not (root / STATE_FILE).exists():
        raise bad_input(f"{root} was made by an older vmctl.", "Remove that folder: it is made anew.")


def _make(root: Path, layout: str) -> None:
    root.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{root.name}-", dir=root.parent) as folder:
        draft = Path(folder) / "root"
        build(draft, layout)
        (draft / LAYOUT_FILE).write_text(layout)
        try:
            draft.rename(root)  # whole or not at all; an empty folder gives way
        except OSError:
            pass  # somebody else was faster, or something else lies there: seen by its layout


def reboot(root: Path) -> None:
    """Boot the machine anew: what is volatile is gone, and its boot id is another one."""
    kernel = Kernel(root.resolve())
    with kernel.alone() as state:
        lose(state, kernel.cards, rebooted=True)
        kernel.tree.show(BOOT_ID, str(uuid.uuid4()), 0o444)
        (kernel.root / LOG).unlink(missing_ok=True)
        state.boot = kernel.boot_id()
        kernel.settle(state)


def reload_driver(root: Path) -> None:
    """Unload and load the GPU driver: what it kept in memory is gone, and the machine goes on."""
    kernel = Kernel(root.resolve())
    with kernel.alone() as state:
        lose(state, kernel.cards, rebooted=False)
        kernel.settle(state)


@dataclass(frozen=True)
class SimulatedHost(Host):
    """A host on such a tree."""

    def __post_init__(self) -> None:
        kernel = Kernel(self.root.resolve())
        if not kernel.is_settled():
            with kernel.alone():
                pass  # a process died while the kernel was answering, or the machine was booted anew

    @property
    def simulated(self) -> bool:
        return True

    def attachment(self, device: MediatedDevice | PCIFunction) -> StandInVideo:
        """No GPU is behind the share: a plain video device stands in for it, and says so on the screen."""
        return StandInVideo(device.uuid, "simulated vGPU")

    def run(self, command: Sequence[str], *, limit: float = 10.0, given: str = "") -> Answer:
        """The driver's tools and the kernel's log are the simulated machine's; any other command is run for real."""
        fault = faults.take(self.root, " ".join(command))
        if fault is not None:
            time.sleep(min(fault.delay, limit))
            if fault.delay > limit:
                raise too_slow(command[0], limit)
            if fault.output is not None or fault.status or not fault.effect:
                return Answer(fault.status, fault.output or "", "")
        answer = commands.answer(Kernel(self.root.resolve()), command, self.now())
        return super().run(command, limit=limit, given=given) if answer is None else answer

    def _store(self, path: Path, value: str) -> None:
        fault = faults.take(self.root, self._inside(path))
        if fault is not None:
            limit = self.left(self.write_limit)
            time.sleep(min(fault.delay, limit))
            if fault.delay > limit:
                raise self._asleep(path)
            if fault.error is not None:
                number = int(getattr(errno, fault.error))
                raise OSError(number, os.strerror(number), str(path))
            if not fault.effect:
                return
        self._answered(path, value.strip())

    def _answered(self, path: Path, value: str) -> None:
        """Write, and wait while the kernel sleeps; not for ever."""
        kernel = Kernel(self.root.resolve())
        end = time.monotonic() + self.left(self.write_limit)
        while True:
            try:
                attributes.write(kernel, path, value)
                return
            except Busy:
                if time.monotonic() > end:
                    raise self._asleep(path) from None
                time.sleep(TICK)

    def _asleep(self, path: Path) -> VmctlError:
        """As from a write that does not come back from a real kernel."""
        what = f"The kernel does not come back from a write to {self._inside(path)}."
        advice = "Find out what holds the device (fuser -v /dev/nvidia* /dev/vfio/*) and end that."
        return VmctlError(Code.BUSY, what, advice, retry=True)


def too_slow(tool: str, limit: float) -> TooSlow:
    """As from a command that was ended at its limit."""
    return TooSlow(Code.FAILED, f"{tool} gave no answer in {limit:g} s.", "Look at what holds it.", retry=True)
