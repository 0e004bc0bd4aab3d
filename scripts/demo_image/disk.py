"""The disk around kernel and initramfs: a BIOS boot partition and an ext4 partition for /home.

No loop device, no mount, no root. Layout, file-system UUIDs and times are fixed, so that a kept machine's overlay
still fits when the image is made again: nothing in a guest writes the boot partition, and an empty /home is the same
bytes every time.
"""

import os
import struct
from pathlib import Path

from scripts.demo_image.errors import BuildError, call, find_program

SECTOR = 512
MIB = 2**20
BOOT_START, BOOT_SIZE = 1 * MIB, 63 * MIB
HOME_START, HOME_SIZE = 64 * MIB, 448 * MIB
DISK_SIZE = HOME_START + HOME_SIZE
HOME_UUID = "7e55e1a0-0000-4000-8000-000000000001"
FIXED_TIME = "1767225600"  # 2026-01-01, the time in every file system made here
REMEDY = "remove the cache folder and run this again; if it stays, install the packages in packages.txt again."


def write_disk(boot_file: Path, initramfs: bytes, command_line: str, folder: Path, output: Path) -> None:
    """The qcow2 file `output`, made of parts in `folder`."""
    raw = folder / "disk.raw"
    with raw.open("wb") as file:
        file.truncate(DISK_SIZE)
        file.write(_boot_record())
    _fill_boot_partition(raw, boot_file, initramfs, command_line, folder)
    _make_home(raw)
    find_program("qemu-img", "qemu-utils")
    call(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, output], remedy=REMEDY)


def _boot_record() -> bytes:
    """syslinux's master boot record with two partitions: the first is FAT and active, the second is Linux."""
    places = [Path("/usr/lib/SYSLINUX/mbr.bin"), Path("/usr/lib/syslinux/mbr/mbr.bin")]
    code = next((place.read_bytes() for place in places if place.exists()), None)
    if code is None:
        raise BuildError("The file mbr.bin of syslinux is missing: install the package syslinux.")
    table = b"".join(
        struct.pack("<B3sB3sII", active, b"\xfe\xff\xff", kind, b"\xfe\xff\xff", start // SECTOR, size // SECTOR)
        for active, kind, start, size in (
            (0x80, 0x0E, BOOT_START, BOOT_SIZE),
            (0, 0x83, HOME_START, HOME_SIZE),
        )
    )
    return code[:440].ljust(440, b"\0") + b"TSRA\0\0" + table.ljust(64, b"\0") + b"\x55\xaa"


def _fill_boot_partition(raw: Path, boot_file: Path, initramfs: bytes, command_line: str, folder: Path) -> None:
    (folder / "initrd").write_bytes(initramfs)
    (folder / "syslinux.cfg").write_text(
        "DEFAULT tessera\nPROMPT 0\nTIMEOUT 0\n"
        f"LABEL tessera\n  KERNEL linux\n  INITRD initrd\n  APPEND {command_line}\n"
    )
    for name in ("mformat", "mcopy"):
        find_program(name, "mtools")
    find_program("syslinux", "syslinux")
    drive = f"{raw}@@{BOOT_START}"
    # mtools would complain about the geometry of a partition inside a file.
    env = os.environ | {"MTOOLS_SKIP_CHECK": "1", "SOURCE_DATE_EPOCH": FIXED_TIME}
    heads, sectors = 255, 63
    call(
        ["mformat", "-i", drive, "-T", str(BOOT_SIZE // SECTOR), "-h", str(heads), "-s", str(sectors),
         "-H", str(BOOT_START // SECTOR), "-N", "54535241", "-v", "TESSERA", "::"],
        remedy=REMEDY, env=env,
    )  # fmt: skip
    call(["syslinux", "--install", "--offset", str(BOOT_START), raw], remedy=REMEDY, env=env)
    for source, name in (
        (boot_file, "linux"),
        (folder / "initrd", "initrd"),
        (folder / "syslinux.cfg", "syslinux.cfg"),
    ):
        call(["mcopy", "-i", drive, source, f"::{name}"], remedy=REMEDY, env=env)


def _make_home(raw: Path) -> None:
    """An empty ext4 file system; the options keep out everything random, and space for a root that nobody is."""
    program = find_program("mke2fs", "e2fsprogs")
    options = f"hash_seed={HOME_UUID},root_owner=0:0,lazy_itable_init=1,nodiscard,offset={HOME_START}"
    call(
        [program, "-q", "-F", "-t", "ext4", "-L", "home", "-U", HOME_UUID, "-E", options, "-m", "0", "-J", "size=4",
         raw, f"{HOME_SIZE // 1024}k"],
        remedy=REMEDY, env=os.environ | {"E2FSPROGS_FAKE_TIME": FIXED_TIME, "SOURCE_DATE_EPOCH": FIXED_TIME},
    )  # fmt: skip
