"""A machine's folder: its disk, which is kept, and what lies there only while it runs.

Layout: `<storage>/<machine uuid>/{disk.qcow2, nvram-*.fd, seed.iso, serial.log}`.  The folder is ours and passable for
QEMU's user; no folder above it is touched.  A TPM's state is the one thing of a machine that libvirt keeps elsewhere.
"""

import json
import os
import re
import shutil
from pathlib import Path

from vmctl.errors import Code, VmctlError
from vmctl.host import Host
from vmctl.model import DesiredMachine, Firmware
from vmctl.observation import Disk

DISK = "disk.qcow2"
SEED = "seed.iso"
SERIAL = "serial.log"
TPM_STATES = Path("/var/lib/libvirt/swtpm")
"""Where libvirt keeps the state of emulated TPMs, a folder per machine; before 10.10 it takes no other place."""


def nvram(firmware: Firmware) -> str:
    """The file of UEFI's variables; one for each kind, since one that was made without Secure Boot's keys has none."""
    return f"nvram-{firmware}.fd"


KEPT = (DISK, nvram(Firmware.UEFI), nvram(Firmware.SECURE))
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
LIMIT = 20.0
MIB = 2**20
GIB = 2**30
LARGEST_SERIAL = 16 * MIB
"""Above it a serial log begins anew: a guest must not be able to fill the host's disk by talking."""


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
    base = image(images, machine)
    if (path / DISK).exists():
        _check_base(host, path / DISK, base, machine)
        return
    least = _number(_facts(host, base), "virtual-size")
    if least > machine.disk_gib * GIB:
        raise VmctlError(
            Code.FAILED,
            f"The image {machine.image} needs a disk of {-(-least // GIB)} GiB; {machine.name} has {machine.disk_gib}.",
            "Give the machine a larger disk, or choose a smaller image.",
        )
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
            f"See whether {storage} is full.",
        )
    new.chmod(0o600)
    os.replace(new, path / DISK)


def _check_base(host: Host, disk: Path, base: Path, machine: DesiredMachine) -> None:
    """Refuse to put a disk on another image than it was made on: every block that it did not write would change."""
    made_on = Path(str(_facts(host, disk).get("backing-filename", ""))).name
    if made_on != base.name:
        raise VmctlError(
            Code.FAILED,
            f"The disk of {machine.name} was made on the image {made_on or 'none'}, not on {base.name}.",
            "Choose that image for the machine again, or purge its disk.",
        )


def _facts(host: Host, path: Path) -> dict[str, object]:
    """What qemu-img tells of an image."""
    answer = host.run(["qemu-img", "info", "--output=json", str(path)], limit=LIMIT)
    if answer.status:
        raise VmctlError(
            Code.FAILED,
            f"qemu-img cannot read {path}: {answer.errors.strip()[-300:]}.",
            "See whether it is a sound qcow2 image (qemu-img check).",
        )
    found = json.loads(answer.output)
    return found if isinstance(found, dict) else {}


def _number(facts: dict[str, object], key: str) -> int:
    value = facts.get(key, 0)
    return value if isinstance(value, int) else 0


def trim_serial(storage: Path, machine: str) -> None:
    """Begin a serial log anew when it has grown too large; QEMU appends, so its next word comes first."""
    path = folder(storage, machine) / SERIAL
    try:
        if path.stat().st_size > LARGEST_SERIAL:
            os.truncate(path, 0)
    except FileNotFoundError:
        pass


def clear(storage: Path, machine: str) -> None:
    """Remove what lay there only while the machine ran."""
    path = folder(storage, machine)
    for name in _names(path):
        if name not in KEPT:
            _remove(path / name)


def purge(storage: Path, machine: str) -> None:
    """Remove a machine's folder with everything in it, its TPM's state first.  May be repeated (field log C11)."""
    _remove(TPM_STATES / machine)
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
