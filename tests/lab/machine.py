"""One running lab host: started from a saved state or cold, put back, and made to fail."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.lab import board, cache, monitor, process
from tests.lab.cache import Ready
from tests.lab.errors import LabError
from tests.lab.ssh import Keys, Line

__all__ = ["Keys", "Lab", "LabError"]

RESTORED = 120.0  # seconds until somebody can log in after a start from the saved state; mostly three
BOOTED = 400.0  # the same after a boot; mostly twenty
SAVED = 120.0
LENT = 20.0


@dataclass
class Lab:
    """A lab host that listens with its sshd on `port` of 127.0.0.1; its files are in `folder`."""

    folder: Path
    port: int
    ready: Ready
    lasting: bool = False
    keys: Keys = field(init=False)
    _line: Line = field(init=False, repr=False)
    _layers: list[int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.keys = self.ready.keys
        self._line = Line(self.folder, self.port, self.keys)
        self._layers = cache.hold(self.ready.image, self.ready.disk.parent)

    @classmethod
    def start(
        cls, folder: Path, *, cold: bool = False, kernel: str = "", port: int = 0, lasting: bool = False,
        ready: Ready | None = None,
    ) -> Self:  # fmt: skip
        """A lab in this folder from the cache.

        `cold`: boots, with more words for its kernel. `port`: one of one's own choice. `lasting`: outlives this
        process. `ready`: another saved state than that of the sources as they are now. Raises LabError where one runs
        there already, where the lab was never made, or it does not come up.
        """
        folder.mkdir(parents=True, exist_ok=True)
        lab = cls(folder.absolute(), port or process.free_port(), ready or cache.ready(), lasting)
        already = process.running(lab.folder) is not None  # somebody else's, which is refused and goes on
        try:
            if cold or kernel:
                lab.boot(kernel)
            else:
                lab.restore()
        except BaseException:
            if not already:
                lab.stop()
            raise
        return lab

    @classmethod
    def found(cls, folder: Path) -> Self | None:
        """The lab that runs in a folder, whoever started it; None: none does."""
        if process.running(folder) is None:
            return None
        ready = cache.of(Path((folder / "ready").read_text()))
        return cls(folder.absolute(), int((folder / "port").read_text()), ready, lasting=True)

    # -- its state

    def reset(self) -> None:
        """As at its start from the saved state: nothing is left of what was done. A few seconds."""
        self.kill()
        self.restore()

    def power_cycle(self) -> None:
        """As if somebody pressed reset: it boots anew, with what was on its disk and its cards where they were."""
        boot = "/proc/sys/kernel/random/boot_id"
        before = self.shell(f"cat {boot}").strip()
        self._line.close()
        monitor.ask(self.folder, "system_reset")
        self._line.wait(BOOTED, f"[ $(cat {boot}) != {before} ]")
        self._settle()

    def stop(self) -> None:
        """End it; its disk goes, its logs stay."""
        self._line.close()
        process.stop(self.folder)
        for handle in self._layers:
            os.close(handle)
        self._layers = []

    def kill(self) -> None:
        """End its process at once."""
        self._line.close()
        process.kill(self.folder)

    # -- within

    def shell(self, script: str, *, limit: float = 30) -> str:
        """Standard output of a script, run as root until its first failure; never the portal's way.

        Raises LabError with all output where it fails or is not done in `limit` seconds: that is watched from here, so
        a lab that hangs keeps nobody.
        """
        return self._line.run(script, limit=limit)

    @contextmanager
    def lent(self, file: Path) -> Iterator[str]:
        """A file of this machine as a disk of the lab's that can only be read."""
        source = {"driver": "file", "filename": str(file.absolute())}
        monitor.ask(self.folder, "blockdev-add", driver="raw", node_name="lent", read_only=True, file=source)
        monitor.human(self.folder, "device_add virtio-blk-pci,id=lent,drive=lent,serial=lent,bus=rp1")
        disk = "/dev/disk/by-id/virtio-lent"
        self.shell(f"for n in $(seq 100); do [ ! -e {disk} ] || break; sleep 0.1; done; ls {disk}")
        yield disk
        monitor.human(self.folder, "device_del lent")
        end = time.monotonic() + LENT
        while True:  # until the lab's kernel has let go of it
            try:
                monitor.ask(self.folder, "blockdev-del", node_name="lent")
                return
            except LabError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def wait_ssh(self, seconds: float) -> None:
        """Until somebody can log in. Raises LabError."""
        self._line.wait(seconds)

    # -- faults

    def freeze(self) -> None:
        """Its processors stand still; connections stay open and nobody answers."""
        monitor.ask(self.folder, "stop")

    def thaw(self) -> None:
        monitor.ask(self.folder, "cont")

    def cut(self) -> None:
        """The network cable is out."""
        monitor.ask(self.folder, "set_link", name="link", up=False)

    def mend(self) -> None:
        monitor.ask(self.folder, "set_link", name="link", up=True)

    def kill_libvirtd(self) -> None:
        """By SIGKILL; systemd starts it again."""
        self.shell("pkill -KILL -x libvirtd")

    # -- starting

    def restore(self) -> None:
        """Start from the saved state."""
        self._spawn("", incoming=f"exec:cat {shlex.quote(str(self.ready.state))}")
        self._until("paused", RESTORED, "query-status")  # as it was when it was saved
        self.thaw()
        self._plug()
        self._line.wait(RESTORED)
        self._settle()

    def boot(self, words: str = "", *, plug: bool = True) -> None:
        """Start with more words for the kernel. `plug`: with the cards that can only be plugged in later."""
        self._spawn(words)
        self._line.wait(BOOTED)
        if plug:
            self._plug()
            self._settle()

    def save(self) -> None:
        """Write memory and devices to the file of the saved state and end; the disk stays as it was then."""
        self._line.close()
        monitor.ask(self.folder, "stop")
        monitor.ask(self.folder, "migrate-set-parameters", max_bandwidth=2**40)
        monitor.ask(self.folder, "migrate", uri=f"exec:cat > {shlex.quote(str(self.ready.state))}")
        self._until("completed", SAVED, "query-migrate")
        monitor.ask(self.folder, "quit")
        process.await_end(self.folder, SAVED)

    def _until(self, wanted: str, seconds: float, question: str) -> None:
        end = time.monotonic() + seconds
        while (told := monitor.ask(self.folder, question).get("status")) != wanted:
            if told == "failed" or time.monotonic() > end:
                raise LabError(f"QEMU is not {wanted} in {seconds:g} s, but {told}; see {self.folder}/qemu.log.")
            time.sleep(0.05)

    def _plug(self) -> None:
        for _, name, port in board.HOT:
            monitor.human(self.folder, f"device_add {board.hot_card(name, port)}")

    def _settle(self) -> None:
        """Set the clock, which is as old as the saved state, and wait until every card is on its driver."""
        cards = " ".join(f"/sys/bus/pci/devices/{card.address}/driver" for card in board.CARDS)
        wait = f"for n in $(seq 150); do ls -d {cards} >/dev/null 2>&1 && exit; sleep 0.1; done; ls -d {cards}"
        self.shell(f"date -u -s @{time.time():.3f} >/dev/null\n{wait}", limit=60)

    def _spawn(self, words: str, *, incoming: str = "") -> None:
        base = self.ready
        disk = self.folder / "disk.qcow2"
        if process.running(self.folder) is None:
            disk.unlink(missing_ok=True)
            base.new_disk(disk)
            (self.folder / "port").write_text(f"{self.port}\n")
            (self.folder / "ready").write_text(str(self.ready.disk.parent))
        line = board.command(self.port, str(base.kernel), str(base.initrd), words, incoming=incoming)
        process.start(self.folder, line, inherits=self._layers, lasting=self.lasting)
