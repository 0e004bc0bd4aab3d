"""A host of its own for a test: folders, tiny guests, vmctl as a child, and virsh as the independent eye."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any
from uuid import uuid4

from tests.vmctl import build
from tests.vmctl.real import forked
from vmctl.host import Host
from vmctl.kvm import accelerator

Json = dict[str, Any]

LIMIT = 90

# 512-byte boot sectors. Both write "up" to the serial port. One switches the power button on in ACPI's enable register
# (q35: 0x602), sleeps from timer tick to timer tick until its status bit (0x600) is set, and powers off (0x604). The
# other sleeps for ever.
UP = bytes.fromhex("fa ba f803 b0 75 ee b0 70 ee b0 0a ee")
OBEDIENT = UP + bytes.fromhex("ba 0206 b8 0001 ef ba 0006 fb f4 ed f6 c4 01 74 f8 ba 0406 b8 0020 ef f4")
DEAF = UP + bytes.fromhex("fa f4 eb fc")


def libvirt_uri() -> str:
    """Where the tests' libvirt listens. Its absence is a failure, not a reason to skip."""
    uri = os.environ.get("LIBVIRT_URI", "")
    assert uri, "These tests need LIBVIRT_URI: run them by `make test`, or inside `scripts.stack with libvirt`."
    return uri


@dataclass
class Answer:
    """What a child answered."""

    status: int
    document: Json
    seconds: float

    @property
    def kinds(self) -> list[str]:
        return [step["kind"] for step in self.document["steps"]]

    @property
    def errors(self) -> dict[str, str]:
        """Codes of the steps that did not work, by kind."""
        return {step["kind"]: step["error"]["code"] for step in self.document["steps"] if step["error"]}

    @property
    def states(self) -> dict[str, str]:
        return {machine["machine"]: machine["state"] for machine in self.document["machines"]}


@dataclass
class Place:
    """One simulated host with its own portal; nobody else's domains are touched."""

    folder: Path
    host: str = "sim-t4"
    layout: str = "t4"
    portal: str = field(default_factory=lambda: str(uuid4()))
    tag: str = field(default_factory=lambda: token_hex(3))
    generation: int = 0

    def command(self, verb: str, *more: str) -> list[str]:
        """The argument list of a verb."""
        options = {
            "--libvirt-uri": libvirt_uri(),
            "--state-dir": self.folder / self.host / "state",
            "--storage-dir": self.storage,
            "--images-dir": self.folder / "images",
            "--run-dir": self.folder / "run",
            "--network": os.environ.get("GUEST_NETWORK", "tessera"),
            "--host": self.host,
            "--simulate": self.layout,
            "--root": self.root,
        }
        flat = [str(word) for option in options.items() for word in option]
        return [sys.executable, "-m", "vmctl", *flat, verb, "--json", *more]

    @property
    def storage(self) -> Path:
        return self.folder / self.host / "machines"

    @property
    def root(self) -> Path:
        return self.folder / self.host / "root"

    def socket(self, name: str) -> Path:
        return self.folder / "run" / "console" / f"{self.uuid(name)}.sock"

    def run(self, verb: str, document: Json | None = None, *, kill_at: int | None = None) -> Answer:
        """Run a verb as a child; `kill_at`: it is killed at that effect of it."""
        given = "" if document is None else json.dumps(document)
        began = time.monotonic()
        status, printed, errors = forked.call(self.command(verb)[3:], given, LIMIT, kill_at)
        seconds = time.monotonic() - began
        return Answer(status, json.loads(printed) if printed else {"stderr": errors}, seconds)

    def know_kvm(self) -> None:
        """Spare each test the self-test of KVM, which takes 5 s where KVM hangs: one verdict serves them all."""
        state = self.folder / self.host / "state"
        state.mkdir(parents=True)
        verdict = accelerator(Host("here", state_dir=Path(tempfile.gettempdir()) / "tessera-kvm-verdict"))
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        (state / "kvm.json").write_text(json.dumps({"boot_id": boot, "at": time.time()} | asdict(verdict)))

    def uuid(self, name: str) -> str:
        return build.name_uuid(f"machine {self.tag} {name}")

    def vgpu_uuid(self, name: str) -> str:
        return build.name_uuid(f"vgpu {self.tag} {name}")

    def machine(self, name: str, *, image: str = "deaf", minutes: float = 60, **other: Any) -> Json:
        """A small machine that should run."""
        usual = {"hostname": f"t{self.tag}-{name}", "image": image, "memory_mib": 32}
        return build.machine(f"{self.tag} {name}", now=datetime.now(UTC), minutes=minutes, **usual | other)

    def with_vgpu(self, name: str, **other: Any) -> Json:
        """The same with a share of the first GPU."""
        return self.machine(name, vgpus=[build.vgpu(f"{self.tag} {name}")], **other)

    def desired(self, *machines: Json, **other: Any) -> Json:
        """The next desired state."""
        self.generation += 1
        usual = {"portal": self.portal, "host": self.host, "generation": self.generation, "stop_grace_seconds": 3}
        return build.document(*machines, **usual | other)

    def apply(self, *machines: Json, **other: Any) -> Answer:
        """Apply the next desired state."""
        return self.run("apply", self.desired(*machines, **other))

    def settle(self, *machines: Json, **other: Any) -> Answer:
        """Apply until nothing is left for later: a busy machine may need more than one run."""
        for _ in range(5):
            answer = self.apply(*machines, **other)
            if not any(step["error"] and step["error"]["retry"] for step in answer.document["steps"]):
                break
        return answer

    def observe(self) -> Answer:
        return self.run("observe")

    # -- the independent eye

    def domains(self) -> dict[str, str]:
        """Our domains by name with their uuid, as virsh lists them: running and defined."""
        pairs = (line.split() for line in virsh("list", "--all", "--uuid", "--name").splitlines() if line)
        return {name: uuid for uuid, name in pairs if name.startswith(f"t{self.tag}-")}

    def xml(self, name: str) -> ET.Element:
        return ET.fromstring(virsh("dumpxml", self.uuid(name)))

    def qemu(self, name: str) -> int:
        """The pid of a machine's QEMU."""
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and self.uuid(name).encode() in _command_line(folder):
                return int(folder.name)
        raise AssertionError(f"no QEMU runs {name}")

    def mdevs(self) -> set[str]:
        """The mediated devices in the simulated kernel."""
        return {path.name for path in (self.root / "sys/bus/mdev/devices").iterdir()}

    def files(self, name: str) -> list[str]:
        folder = self.storage / self.uuid(name)
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []

    def serial(self, name: str) -> str:
        return (self.storage / self.uuid(name) / "serial.log").read_text()

    def until_up(self, name: str) -> None:
        """Wait until the guest has written to its serial port."""
        until(lambda: "up" in self.serial(name), 30)


def _command_line(folder: Path) -> bytes:
    try:
        words = (folder / "cmdline").read_bytes()
    except OSError:
        return b""
    return words if b"qemu" in words.split(b"\0")[0] else b""


def virsh(*words: str) -> str:
    """What libvirt's own tool says."""
    command = ["virsh", "-q", "-c", libvirt_uri(), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def until(true: Callable[[], object], seconds: float) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


@contextmanager
def a_place() -> Iterator[Place]:
    """A place that leaves nothing behind."""
    # QEMU's user must be able to enter it, and a socket's path in it must stay short: no tmp_path.
    folder = Path(tempfile.mkdtemp(prefix="vm-", dir=os.environ.get("RUN_DIR", "/tmp")))
    folder.chmod(0o755)
    place = Place(folder)
    place.know_kvm()
    try:
        make_images(folder / "images")
        yield place
    finally:
        end_all(place)
        shutil.rmtree(folder)


def end_all(place: Place) -> None:
    """End the place's machines at once, stuck ones too; libvirt cleans up after a QEMU that was killed."""
    left = place.domains().values()
    for process in Path("/proc").iterdir():
        words = _command_line(process) if process.name.isdigit() else b""
        if any(uuid.encode() in words for uuid in left):
            os.kill(int(process.name), signal.SIGKILL)
    until(lambda: not place.domains(), 60)


def make_images(folder: Path) -> None:
    """The two tiny guests as images."""
    folder.mkdir()
    make_image(folder, "deaf", DEAF)
    make_image(folder, "obedient", OBEDIENT)


def make_image(folder: Path, name: str, code: bytes) -> None:
    """A tiny guest as an image: its boot sector is all of it."""
    raw = folder / f"{name}.raw"
    raw.write_bytes(code.ljust(510, b"\0") + b"\x55\xaa" + bytes(2**20 - 512))
    command = ["qemu-img", "convert", "-f", "raw", "-O", "qcow2", str(raw), str(folder / f"{name}.qcow2")]
    subprocess.run(command, check=True, timeout=30)
    raw.unlink()
