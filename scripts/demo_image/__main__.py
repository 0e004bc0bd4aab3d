"""Makes the demo image: `python3 -m scripts.demo_image OUTPUT.qcow2`.

Needs the packages in packages.txt, and a package mirror for the kernel. Runs as any user.
"""

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from scripts.demo_image.disk import write_disk
from scripts.demo_image.errors import BuildError, find_program
from scripts.demo_image.initramfs import build_initramfs
from scripts.demo_image.kernel import Kernel, concrete_packages, download, pick_modules, unpack

HERE = Path(__file__).parent

WANTED_MODULES = (
    "virtio_pci", "virtio_blk", "virtio_net", "virtio_console", "evdev", "button", "ahci", "sr_mod", "isofs", "ext4",
)  # fmt: skip
OPTIONAL_MODULES = ("crc32c_generic", "nls_utf8", "virtio_gpu", "bochs")
"""crc32c is what ext4 asks the kernel for by name, hence not among its dependencies; newer kernels have it built in."""

VESA_800X600 = "0x314"


def main() -> int:
    """Exit status: 0 made or up to date, 1 with one sentence on standard error."""
    parser = argparse.ArgumentParser(prog="python3 -m scripts.demo_image", description="Makes the demo image.")
    parser.add_argument("output", type=Path, help="the qcow2 file to write")
    parser.add_argument("--cache", type=Path, help="folder for downloaded packages (default: .cache beside the output)")
    parser.add_argument("--again", action="store_true", help="make it even if it is up to date, with the newest kernel")
    arguments = parser.parse_args()
    output: Path = arguments.output.absolute()
    try:
        make_image(output, (arguments.cache or output.parent / ".cache").absolute(), again=arguments.again)
    except BuildError as error:
        print(f"demo image: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        remedy = "make room there or choose another folder."
        print(f"demo image: {error.strerror} ({error.filename or output}): {remedy}", file=sys.stderr)
        return 1
    return 0


def make_image(output: Path, cache: Path, *, again: bool) -> None:
    """Writes the image unless the one that is there was made by these very files.

    The old one stays until the new one is whole.
    """
    started = time.monotonic()
    stamp_file = output.with_name(output.name + ".json")
    source = hash_source()
    if not again and output.exists() and read_stamp(stamp_file).get("source") == source:
        say(f"{output.name} is up to date")
        return
    busybox = find_program("busybox", "busybox-static")
    output.parent.mkdir(parents=True, exist_ok=True)
    cache.mkdir(parents=True, exist_ok=True)
    packages = download(concrete_packages(), cache, say)
    with tempfile.TemporaryDirectory(prefix="build-", dir=cache) as name:
        folder = Path(name)
        say("unpacking the kernel")
        kernel = unpack(packages, folder / "kernel")
        say(f"packing user space for Linux {kernel.release}")
        initramfs = build_initramfs(pick_modules(kernel, WANTED_MODULES, OPTIONAL_MODULES), busybox)
        say("writing the disk")
        write_disk(kernel.boot_file, initramfs, command_line(kernel), folder, folder / "image.qcow2")
        size = (folder / "image.qcow2").stat().st_size
        os.replace(folder / "image.qcow2", output)
    stamp_file.write_text(json.dumps({"source": source, "kernel": kernel.release, "bytes": size}) + "\n")
    say(f"{output.name} made in {time.monotonic() - started:.0f} s: {size / 2**20:.0f} MiB, Linux {kernel.release}")


def command_line(kernel: Kernel) -> str:
    """What the boot loader tells the kernel; a VESA screen where the kernel can draw on one, else VGA text."""
    video = f"vga={VESA_800X600} " if kernel.config.get("CONFIG_FB_VESA") == "y" else ""
    return f"{video}console=tty0 console=ttyS0,115200 quiet loglevel=3 panic=10"


def hash_source() -> str:
    """A hash over every file of this folder, so that a changed script makes a new image."""
    digest = hashlib.sha256()
    for file in sorted(path for path in HERE.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        digest.update(f"{file.relative_to(HERE)}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def read_stamp(file: Path) -> dict[str, object]:
    """What was written beside the image when it was made; empty when there is nothing usable."""
    try:
        stamp = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def say(text: str) -> None:
    """One line of progress."""
    print(f"demo image: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
