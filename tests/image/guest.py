"""A QEMU of the shape that vmctl makes, driven by its monitor: keys, screenshots, power button, serial log."""

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

KEY_NAMES = {" ": "spc", "-": "minus", "=": "equal", "/": "slash", ".": "dot", ",": "comma", ";": "semicolon",
             "'": "apostrophe", "\n": "ret", "\\": "backslash", "[": "bracket_left", "]": "bracket_right"}  # fmt: skip
SHIFTED = dict(zip('~!@#$%^&*()_+{}|:"<>?', "`1234567890-=[]\\;',./", strict=True))


class Guest:
    """One machine in emulation; `with Guest(...) as guest` starts it, and leaves no process behind."""

    def __init__(self, folder: Path, image: Path, seed: Path | None, *, seed_on: str = "disk") -> None:
        self.folder, self.image, self.seed, self.seed_on = folder, image, seed, seed_on
        self.serial = folder / "serial.log"
        self.disk = folder / "disk.qcow2"
        self.screen_cost = 0.0

    def __enter__(self) -> "Guest":
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self.disk.exists():
            make: list[str | Path] = [
                "qemu-img",
                "create",
                "-q",
                "-f",
                "qcow2",
                "-F",
                "qcow2",
                "-b",
                self.image,
                self.disk,
                "4G",
            ]
            subprocess.run(make, check=True, timeout=30)
        self.serial.unlink(missing_ok=True)
        self.process = subprocess.Popen(self._command(), stderr=subprocess.PIPE)
        self.monitor = self._connect()
        self.replies = self.monitor.makefile("r", encoding="utf-8")
        self.replies.readline()
        self.ask("qmp_capabilities")
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(timeout=10)
        self.replies.close()
        self.monitor.close()
        assert self.process.stderr is not None
        self.process.stderr.close()

    def _command(self) -> list[str]:
        drive = "virtio-blk-pci,drive=seed" if self.seed_on == "disk" else "ide-cd,bus=ide.0,drive=seed"
        seed = ["-drive", f"if=none,id=seed,format=raw,readonly=on,file={self.seed}", "-device", drive]
        return [
            "qemu-system-x86_64", "-accel", "tcg", "-machine", "q35", "-cpu", "qemu64", "-m", "256", "-nodefaults",
            "-display", "none", "-vga", "std", "-device", "virtio-gpu-pci",
            "-drive", f"if=none,id=disk,format=qcow2,file={self.disk}", "-device", "virtio-blk-pci,drive=disk",
            *(seed if self.seed else []),
            "-netdev", "user,id=net,restrict=on", "-device", "virtio-net-pci,netdev=net,mac=52:54:00:12:34:56",
            "-device", "virtio-serial-pci", "-chardev", "null,id=agent",
            "-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0",
            "-serial", f"file:{self.serial}", "-qmp", f"unix:{self.folder}/qmp.sock,server=on,wait=off",
        ]  # fmt: skip

    def _connect(self) -> socket.socket:
        monitor = socket.socket(socket.AF_UNIX)
        monitor.settimeout(10)
        for _ in range(100):
            try:
                monitor.connect(str(self.folder / "qmp.sock"))
            except OSError:
                time.sleep(0.05)
            else:
                return monitor
        self.process.kill()
        raise AssertionError(f"QEMU did not start: {self.process.communicate()[1].decode()}")

    def ask(self, command: str, **arguments: Any) -> Any:
        """The answer of QEMU's monitor to one command."""
        self.monitor.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        while "return" not in (reply := json.loads(self.replies.readline())):
            assert "error" not in reply, reply
        return reply["return"]

    def processor_seconds(self) -> float:
        """Processor time that QEMU has used: what the boot would take on an idle core, however busy this machine is."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def log(self) -> str:
        """What has come out of the serial port so far."""
        return self.serial.read_bytes().decode(errors="replace").replace("\r\n", "\n") if self.serial.exists() else ""

    def wait_for(self, text: str, seconds: float, *, after: int = 0) -> None:
        """Waits until the serial log holds the text behind a position."""
        self._wait(lambda: text in self.log()[after:], seconds, f"no {text!r} in the serial log")

    def wait_for_end(self, seconds: float) -> None:
        """Waits until QEMU has ended by itself."""
        self._wait(lambda: self.process.poll() is not None, seconds, "the machine did not go off")

    def _wait(self, reached: Callable[[], bool], seconds: float, failure: str) -> None:
        end = time.monotonic() + seconds
        while not reached():
            assert time.monotonic() < end, f"{failure} within {seconds} s; the log ends with:\n{self.log()[-2000:]}"
            time.sleep(0.05)

    def type(self, text: str) -> int:
        """Presses the keys for the text, as on a US keyboard; the log's length before the first of them."""
        before = len(self.log())
        for character in text:
            plain = SHIFTED.get(character, character.lower())
            keys = ["shift"] if plain != character else []
            pressed = [{"type": "qcode", "data": key} for key in [*keys, KEY_NAMES.get(plain, plain)]]
            self.ask("send-key", keys=pressed, **{"hold-time": 20})
            time.sleep(0.05)
        return before

    def screenshot(self, name: str) -> bytes:
        """The screen as a PPM picture, kept in the guest's folder."""
        file = self.folder / f"{name}.ppm"
        self.ask("screendump", filename=str(file))
        return file.read_bytes()

    def press_power_button(self) -> None:
        """The ACPI power button, once."""
        self.ask("system_powerdown")
