"""A mount namespace of our own: short paths to our folders, and a libvirt that does not meet the system's.

Two libvirtd of root share /run/libvirt and /var/lib/libvirt and collide there; no option moves these.  So they are
covered, for us and our children only.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
from pathlib import Path

from scripts.instance import Instance
from scripts.terminal import Refusal

CLONE_NEWNS = 0x00020000  # sched.h
MS_BIND, MS_REC, MS_SLAVE = 4096, 16384, 1 << 19  # sys/mount.h
MNT_DETACH = 2

libc = ctypes.CDLL(None, use_errno=True)

# What libvirtd, and the TPMs that it starts, keep in fixed places, and the folder that covers it.
LIBVIRT_FOLDERS = {
    "/var/lib/libvirt": "lib",
    "/var/log/libvirt": "log",
    "/var/cache/libvirt": "cache",
    "/etc/libvirt": "etc",
    "/var/lib/swtpm-localca": "swtpm-localca",
    "/var/log/swtpm": "swtpm-log",
}


def enter(instance: Instance) -> None:
    """Leave the machine's mount namespace for one that only our children will share, and bind our data to short paths.

    What is mounted on the machine later still reaches us (slave); what we mount reaches nobody.
    """
    if libc.unshare(CLONE_NEWNS) != 0:
        raise Refusal(f"No mount namespace: {os.strerror(ctypes.get_errno())}.", "Run as root, outside a container.")
    mount("none", "/", MS_REC | MS_SLAVE)
    bind(instance.data, instance.var)
    for source, name in ((instance.images, "images"), (instance.storage, "storage")):
        if source != instance.data / name:
            bind(source, instance.var / name)


def cover_libvirt(instance: Instance) -> None:
    """Put our folders over those of the system's libvirt."""
    ours = instance.data / "libvirt"
    (instance.run_dir / "libvirt").mkdir(exist_ok=True)
    first_time(ours / "etc")
    bind(instance.run_dir / "libvirt", Path("/run/libvirt"))
    for covered, name in LIBVIRT_FOLDERS.items():
        owner = os.stat(covered) if os.path.exists(covered) else None  # a TPM's certificates are its program's own
        (ours / name).mkdir(mode=0o755, parents=True, exist_ok=True)
        bind(ours / name, Path(covered))
        if owner is not None:
            os.chown(ours / name, owner.st_uid, owner.st_gid)


def first_time(etc: Path) -> None:
    """Our own configuration begins with the packet filters that the package brings (clean-traffic and its parts)."""
    if (etc / "nwfilter").is_dir():
        return
    for packaged in ("/etc/libvirt/nwfilter", "/usr/share/libvirt/nwfilter"):
        if list(Path(packaged).glob("*.xml")):
            etc.mkdir(mode=0o755, parents=True, exist_ok=True)
            shutil.copytree(packaged, etc / "nwfilter")
            return
    raise Refusal("libvirt's packet filters are missing.", "Install libvirt-daemon-config-nwfilter.")


def cover_kvm(instance: Instance) -> None:
    """Hide a /dev/kvm that does not work: with it in sight libvirtd's look at QEMU takes 78 s at every start of a
    machine (seen with libvirt 9.0, QEMU 7.2 on a host whose /dev/kvm opens but runs no kernel)."""
    nothing = instance.run_dir / "no-kvm"
    nothing.touch()
    if Path("/dev/kvm").exists():
        bind(nothing, Path("/dev/kvm"))


def bind(source: Path, target: Path) -> None:
    if source.is_dir():
        target.mkdir(mode=0o755, parents=True, exist_ok=True)
    mount(str(source), str(target), MS_BIND)


def mount(source: str, target: str, flags: int) -> None:
    if libc.mount(os.fsencode(source), os.fsencode(target), None, ctypes.c_ulong(flags), None) != 0:
        raise Refusal(f"Mounting {source} on {target}: {os.strerror(ctypes.get_errno())}.", "Run as root.")


def leave(instance: Instance) -> None:
    """Take our binds away and remove what was made in RUN_DIR.  Data are behind the binds: nothing is removed there."""
    for target in (instance.var / "images", instance.var / "storage", instance.var):
        libc.umount2(os.fsencode(str(target)), MNT_DETACH)
    for entry in instance.run_dir.iterdir():
        if entry == instance.var:
            entry.rmdir()  # refuses if it is not empty, so never a folder that is still bound
        elif entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    instance.run_dir.rmdir()


def inhabitants(instance: Instance) -> list[int]:
    """Processes that live in a namespace of this instance (this process aside), also those of an earlier start.

    Told by the bind of our data in their list of mounts, never by a name: another copy's processes have another.
    """
    mark = f" {instance.var} "
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                mounts = (entry / "mountinfo").read_text()
            except OSError:  # ended meanwhile
                continue
            if mark in mounts:
                found.append(int(entry.name))
    return found


def program_of(pid: int) -> str:
    """The file name of a process's program, empty when it has just ended."""
    try:
        return Path(f"/proc/{pid}/exe").resolve().name
    except OSError:
        return ""


def send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # it ended by itself
