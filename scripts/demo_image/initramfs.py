"""The guest's user space as one cpio archive, written without root: busybox, jq, script and the files in guest/."""

import gzip
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from scripts.demo_image.errors import call, find_program

GUEST = Path(__file__).parent / "guest"

FOLDERS = ("dev", "dev/pts", "proc", "sys", "run", "tmp", "mnt", "home", "root", "var/run", "lib/modules")

DYNAMIC_PROGRAMS = (("jq", "jq"), ("script", "bsdutils"))
"""Programs that busybox does not have, with the package that brings them: jq reads the seed, and script copies
what is shown on the screen to the serial port."""


@dataclass(frozen=True)
class Entry:
    """One file of the archive: mode with the type bits, content (a link's target), and a device's numbers."""

    mode: int
    content: bytes = b""
    device: tuple[int, int] = (0, 0)


def build_initramfs(modules: list[tuple[str, bytes]], busybox: Path) -> bytes:
    """The compressed archive; equal inputs give equal bytes."""
    entries: dict[str, Entry] = {}
    for folder in FOLDERS:
        _add(entries, folder, Entry(stat.S_IFDIR | (0o1777 if folder == "tmp" else 0o755)))
    entries["dev/console"] = Entry(stat.S_IFCHR | 0o600, device=(5, 1))
    entries["dev/null"] = Entry(stat.S_IFCHR | 0o666, device=(1, 3))
    for file in sorted(path for path in GUEST.rglob("*") if path.is_file()):
        mode = 0o755 if file.read_bytes().startswith(b"#!") else 0o644
        _add(entries, str(file.relative_to(GUEST)), Entry(stat.S_IFREG | mode, file.read_bytes()))
    for target, source in _programs(busybox):
        _add(entries, target, Entry(stat.S_IFREG | 0o755, source.read_bytes()))
    _add(entries, "bin/sh", Entry(stat.S_IFLNK | 0o777, b"busybox"))
    for number, (name, content) in enumerate(modules):
        _add(entries, f"lib/modules/{number:02d}-{name}.ko", Entry(stat.S_IFREG | 0o644, content))
    # Level 6: a higher level makes the archive 1 % smaller, and the guest in emulation pays for reading, not for size.
    return gzip.compress(write_cpio(entries), 6, mtime=0)


def _programs(busybox: Path) -> Iterable[tuple[str, Path]]:
    """Path in the guest and file here of every program, with the libraries that the dynamic ones name."""
    yield "bin/busybox", busybox
    libraries: set[str] = set()
    for name, package in DYNAMIC_PROGRAMS:
        program = find_program(name, package)
        yield f"usr/bin/{name}", program
        listed = call(["ldd", program], remedy=f"install the package {package} again.")
        libraries |= set(re.findall(r"(/\S+) \(0x", listed))
    for library in sorted(libraries):
        yield library.lstrip("/"), Path(library).resolve()


def _add(entries: dict[str, Entry], name: str, entry: Entry) -> None:
    for parent in reversed(Path(name).parents):
        if parent.name:
            entries.setdefault(str(parent), Entry(stat.S_IFDIR | 0o755))
    entries[name] = entry


def write_cpio(entries: dict[str, Entry]) -> bytes:
    """The entries as a cpio archive of kind newc (kernel documentation, driver-api/early-userspace/buffer-format)."""
    parts: list[bytes] = []
    for inode, (name, entry) in enumerate([*sorted(entries.items()), ("TRAILER!!!", Entry(0))], start=1):
        encoded = name.encode() + b"\0"
        major, minor = entry.device
        fields = (inode, entry.mode, 0, 0, 1, 0, len(entry.content), 0, 0, major, minor, len(encoded), 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
        parts += [head, b"\0" * (-len(head) % 4), entry.content, b"\0" * (-len(entry.content) % 4)]
    return b"".join(parts)
