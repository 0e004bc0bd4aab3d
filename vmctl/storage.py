"""A machine's folder: its disk, which is kept, and what lies there only while it runs.

Layout: `<storage>/<machine uuid>/{disk.qcow2, seed.iso, serial.log}`.  The folder is ours and passable for QEMU's user;
no folder above it is touched.
"""

import os
import re
import shutil
from pathlib import Path

from vmctl.errors import Code, VmctlError
from vmctl.host import Host
from vmctl.model import DesiredMachine
from vmctl.observation import Disk

DISK = "disk.qcow2"
SEED = "seed.iso"
SERIAL = "serial.log"
KEPT = (DISK,)
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
LIMIT = 20.0
MIB = 2**20


def folder(storage: Path, machine: str) -> Path:
    """Where everything of a machine lies."""
    return storage / machine


def disks(storage: Path) -> tuple[Disk, ...]:
    """Every machine's folder.  What vanishes while we look is not there (field log C12)."""
    try:
        names = sorted(os.listdir(storage))
    except FileNotFoundError:
        return ()
    return tuple(_disk(storage / name) for name in names if UUID.fullmatch(name))


def _disk(path: Path) -> Disk:
    sizes = {entry: _size(path / entry) for entry in _names(path)}
    return Disk(
        machine=path.name,
        mib=-(-sum(sizes.values()) // MIB),
        present=DISK in sizes,
        seed=SEED in sizes,
        leftovers=tuple(sorted(name for name in sizes if name not in KEPT)),
    )


def _names(path: Path) -> list[str]:
    try:
        return os.listdir(path)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _size(path: Path) -> int:
    """Bytes that a file takes on the disk, holes not counted."""
    try:
        return path.lstat().st_blocks * 512
    except FileNotFoundError:
        return 0


def free_mib(storage: Path) -> int:
    """Room for more, in MiB."""
    path = storage
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free // MIB


def image(images: Path, machine: DesiredMachine) -> Path:
    """The image that a machine's disk is an overlay of. Raises `no_image` when it is not on this host."""
    path = images / f"{machine.image}.qcow2"
    if not path.is_file():
        raise VmctlError(
            Code.NO_IMAGE,
            f"The image {machine.image} is not on this host: {path} is missing.",
            "Copy the image to that place, or choose another image.",
        )
    return path


def make_disk(host: Host, storage: Path, images: Path, machine: DesiredMachine) -> None:
    """Give a machine its disk: an overlay on its image, whole or not at all.  One that is there stays as it is."""
    path = folder(storage, machine.machine)
    if (path / DISK).exists():
        return
    base = image(images, machine)
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o711)  # QEMU's user passes through; nobody lists it
    new = path / f"{DISK}.new"
    new.unlink(missing_ok=True)
    command = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", str(base), str(new)]
    answer = host.run([*command, f"{machine.disk_gib}G"], limit=LIMIT)
    if answer.status:
        raise VmctlError(
            Code.FAILED,
            f"qemu-img made no disk for {machine.name}: {answer.errors.strip()[-300:]}.",
            f"See whether {storage} is full and {base} is a sound qcow2 image (qemu-img check).",
        )
    new.chmod(0o600)
    os.replace(new, path / DISK)


def clear(storage: Path, machine: str) -> None:
    """Remove what lay there only while the machine ran."""
    path = folder(storage, machine)
    for name in _names(path):
        if name not in KEPT:
            _remove(path / name)


def purge(storage: Path, machine: str) -> None:
    """Remove a machine's folder with everything in it.  May be repeated (field log C11)."""
    path = folder(storage, machine)
    for name in _names(path):
        _remove(path / name)
    try:
        path.rmdir()
    except FileNotFoundError:
        pass


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
