"""What is made once and kept, in two layers below $XDG_CACHE_HOME/tessera/lab.

`image-KEY` hangs on the scripts in image/ alone; `ready-KEY` on that image, the module's sources, the board, QEMU's
version, vmctl and the demo image: it is the saved state of a lab that has booted with all of these.  The two newest of
each are kept.  A layer appears under its name when it is whole.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.lab.errors import LabError
from tests.lab.ssh import Keys

HERE = Path(__file__).parent
CHECKOUT = HERE.parents[1]
IMAGE, MODULE, HOST = HERE / "image", HERE / "module", HERE / "host"
KEPT = 2
PART = ".part"


@dataclass(frozen=True)
class Ready:
    """What a lab is started from: an image, the disk that it begins with, and its saved memory and devices."""

    image: Path
    disk: Path
    state: Path

    @property
    def kernel(self) -> Path:
        return self.image / "vmlinuz"

    @property
    def initrd(self) -> Path:
        return self.image / "initrd"

    @property
    def keys(self) -> Keys:
        folder = self.image / "keys"
        host = " ".join((folder / "host.pub").read_text().split()[:2])
        told = call(["ssh-keygen", "-l", "-E", "sha256", "-f", folder / "host.pub"])
        return Keys(folder / "apply", folder / "console", folder / "admin", told.split()[1], host)

    def new_disk(self, file: Path) -> None:
        """A disk that begins as this one, which stays as it is."""
        call(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", self.disk, file])


def ready() -> Ready:
    """The lab of these sources; with LAB_STALE set, the newest there is, whatever the sources say now.

    Raises LabError where it has not been made.
    """
    image = home() / image_name()
    folder = home() / ready_name(image) if image.is_dir() else image
    if os.environ.get("LAB_STALE"):
        folder = max(home().glob("ready-*[0-9a-f]"), key=lambda each: each.stat().st_mtime, default=folder)
    if not folder.is_dir():
        raise LabError("The lab of these sources has not been made: run `python -m tests.lab build`.")
    return of(folder)


def of(folder: Path) -> Ready:
    """The saved state in a folder, with the image on which it stands."""
    return Ready(home() / (folder / "image").read_text(), folder / "disk.qcow2", folder / "state")


def home() -> Path:
    """Where all of it lies."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tessera" / "lab"


# Names: a hash over all that a layer is made of ---------------------------------------------------


def image_name() -> str:
    return f"image-{hash_of(*_contents(_files(IMAGE)))}"


def ready_name(image: Path) -> str:
    """Of the layer on this image, which is there."""
    vmctl = [*_files(CHECKOUT / "vmctl"), CHECKOUT / "pyproject.toml", CHECKOUT / "requirements/run.txt"]
    demo = _files(CHECKOUT / "scripts/demo_image")
    own = [HERE / name for name in ("board.py", "build.py")]
    made_of = image.name, (image / "kernel").read_text(), call(["qemu-system-x86_64", "--version"])
    return f"ready-{hash_of(*made_of, *_contents([*_files(MODULE), *_files(HOST), *vmctl, *demo, *own]))}"


def _files(folder: Path) -> list[Path]:
    """Every file below a folder but what tools leave there."""
    found = (file for file in folder.rglob("*") if file.is_file() or file.is_symlink())
    return sorted(file for file in found if "__pycache__" not in file.parts)


def _contents(named: Iterable[Path]) -> Iterator[str]:
    for file in named:
        inside, content = file.relative_to(CHECKOUT), hashlib.sha256(file.read_bytes())
        yield f"{inside} {os.lstat(file).st_mode & 0o111} {content.hexdigest()}"


def hash_of(*words: str) -> str:
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]


# Making and keeping -------------------------------------------------------------------------------


@contextmanager
def building() -> Iterator[None]:
    """Only one builds at a time; who comes second waits and finds it made. What a killed build left is cleared."""
    home().mkdir(parents=True, exist_ok=True)
    handle = os.open(home() / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        for half in home().glob(f"*{PART}"):
            remove(half)
        yield
    finally:
        os.close(handle)


@contextmanager
def layer(name: str, mib: int) -> Iterator[Path]:
    """A folder to make a layer in; it gets its name when all went well. `mib`: the free space that it takes.

    Raises LabError where there is less.
    """
    free = shutil.disk_usage(home()).free // 2**20
    if free < mib:
        raise LabError(f"Only {free} MiB are free in {home()}; this takes {mib}. Make room, or set XDG_CACHE_HOME.")
    part = home() / f"{name}{PART}"
    part.mkdir()
    try:
        yield part
    except BaseException:
        remove(part)
        raise
    part.rename(home() / name)
    _forget_old(name.partition("-")[0])


def _forget_old(kind: str) -> None:
    """All but the newest, and but those that a lab stands on which runs."""
    found = sorted(home().glob(f"{kind}-*"), key=lambda folder: folder.stat().st_mtime, reverse=True)
    for folder in found[KEPT:]:
        handle = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(folder)
        except BlockingIOError:
            pass  # its time comes with the next layer
        finally:
            os.close(handle)


def hold(*folders: Path) -> list[int]:
    """Keep layers from being forgotten as long as these handles are open, here or in a process that inherits them."""
    handles = [os.open(folder, os.O_RDONLY) for folder in folders]
    for handle in handles:
        fcntl.flock(handle, fcntl.LOCK_SH)
    return handles


def touch(*folders: Path) -> None:
    """Say that these are in use."""
    for folder in folders:
        os.utime(folder)


def remove(folder: Path) -> None:
    """A layer with all in it; part of an image belongs to root."""
    call([*as_root(), "rm", "-rf", "--one-file-system", folder], seconds=600)


def as_root() -> list[str]:
    """What to put before a command that only root may do."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") is None:
        raise LabError("Making the lab needs root, and sudo is not installed. Run it as root.")
    return ["sudo", "--preserve-env=LAB_MIRROR", "--"]


def call(command: Sequence[str | Path], *, seconds: float = 60, cwd: Path | None = None) -> str:
    """Standard output. Raises LabError with the end of all output where it fails or takes longer."""
    name = " ".join(str(word) for word in command[:3])
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"  # a plain `su` leaves these two out
    try:
        done = subprocess.run(
            command, cwd=cwd, env=dict(os.environ, PATH=path), stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=seconds,
        )  # fmt: skip
    except FileNotFoundError:
        raise LabError(f"{command[0]} is not installed: run scripts/setup lab.") from None
    except subprocess.TimeoutExpired:
        raise LabError(f"{name} was not done in {seconds:g} s.") from None
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()[-15:]
        raise LabError(f"{name} failed:\n" + "\n".join(said))
    return done.stdout
