"""A kernel from the distribution: downloaded and unpacked, never installed."""

import gzip
import lzma
import os
import re
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scripts.demo_image.errors import BuildError, call, find_program

META_PACKAGES = ("linux-image-amd64", "linux-image-virtual", "linux-image-generic")
"""Debian's name first, then Ubuntu's two: its virtual kernel has the same drivers in a smaller closure."""

CONCRETE = re.compile(r"linux-(?:image|modules)-\d[0-9A-Za-z.+~-]*")

APT_REMEDY = "run `apt-get update` and check that this machine reaches its package mirror."


@dataclass(frozen=True)
class Kernel:
    """An unpacked kernel: its release, its boot file, its configuration and the folder of its modules."""

    release: str
    boot_file: Path
    config: dict[str, str]
    modules: Path


def concrete_packages() -> list[str]:
    """Names of the packages that hold the distribution's current kernel and its drivers."""
    for meta in META_PACKAGES:
        done = subprocess.run(
            [
                "apt-cache", "depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts",
                "--no-breaks", "--no-replaces", "--no-enhances", meta,
            ],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        names = {line for line in done.stdout.splitlines() if CONCRETE.fullmatch(line)}
        if any(name.startswith("linux-image-") for name in names):
            return sorted(names)
    raise BuildError(f"apt knows none of {', '.join(META_PACKAGES)}: {APT_REMEDY}")


def download(names: list[str], cache: Path, say: Callable[[str], None]) -> list[Path]:
    """The packages' files in the cache folder, fetched by apt (which checks their hashes) unless they lie there."""
    found: list[Path] = []
    for name in names:
        version = _candidate(name)
        file = cache / f"{name}_{version.replace(':', '%3a')}_amd64.deb"
        if not file.exists():
            say(f"downloading {name} {version}")
            _fetch(name, version, cache)
        if not file.exists():
            raise BuildError(f"apt did not leave {file.name} in the cache folder: {APT_REMEDY}")
        found.append(file)
    return found


def _candidate(name: str) -> str:
    shown = call(["apt-cache", "show", "--no-all-versions", name], remedy=APT_REMEDY)
    match = re.search(r"^Version: (\S+)$", shown, re.MULTILINE)
    if match is None:
        raise BuildError(f"apt names no version of {name}: {APT_REMEDY}")
    return match.group(1)


def _fetch(name: str, version: str, cache: Path) -> None:
    # As root, apt would download as user _apt, who cannot enter a cache folder below a 0700 home.
    sandbox = ["-o", "APT::Sandbox::User=root"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory(prefix="download-", dir=cache) as temporary:
        folder = Path(temporary)
        call(["apt-get", *sandbox, "download", f"{name}={version}"], remedy=APT_REMEDY, folder=folder)
        for file in folder.glob("*.deb"):
            os.replace(file, cache / file.name)


def unpack(packages: list[Path], folder: Path) -> Kernel:
    """The kernel in these package files, laid out in the folder."""
    find_program("dpkg-deb", "dpkg")
    for package in packages:
        call(["dpkg-deb", "-x", package, folder], remedy=f"remove {package} and run this again.")
    boot_files = sorted(folder.glob("boot/vmlinuz-*"))
    if not boot_files:
        raise BuildError("The kernel package holds no boot/vmlinuz: report this with the name of your distribution.")
    release = boot_files[-1].name.removeprefix("vmlinuz-")
    roots = [root for root in (folder / "lib/modules" / release, folder / "usr/lib/modules" / release) if root.is_dir()]
    if not roots:
        raise BuildError(f"The kernel packages hold no modules of {release}: run `apt-get update` and try again.")
    return Kernel(release, boot_files[-1], _read_config(folder / f"boot/config-{release}"), roots[0])


def _read_config(file: Path) -> dict[str, str]:
    if not file.exists():
        return {}
    lines = (line.partition("=") for line in file.read_text().splitlines() if line.startswith("CONFIG_"))
    return {name: value for name, _, value in lines}


def read_module(file: Path) -> bytes:
    """A kernel module's ELF file, whatever the distribution packed it with."""
    match file.suffix:
        case ".xz":
            return lzma.decompress(file.read_bytes())
        case ".gz":
            return gzip.decompress(file.read_bytes())
        case ".zst":
            find_program("zstd", "zstd")
            return subprocess.run(["zstd", "-dcq", file], capture_output=True, check=True, timeout=60).stdout
        case _:
            return file.read_bytes()


def pick_modules(kernel: Kernel, wanted: tuple[str, ...], optional: tuple[str, ...]) -> list[tuple[str, bytes]]:
    """Name and content of the modules with all they depend on, in the order in which they can be loaded.

    What is built into the kernel is left out. A wanted module that is nowhere is a BuildError; an optional one is
    skipped.
    """
    files = {_module_name(file.name): file for file in kernel.modules.rglob("*.ko*")}
    built_in = {_module_name(Path(line).name) for line in (kernel.modules / "modules.builtin").read_text().split()}
    picked: dict[str, bytes] = {}

    def add(name: str) -> None:
        if name in picked or name in built_in:
            return
        if name not in files:
            raise BuildError(
                f"Kernel {kernel.release} has no driver {name}: report this with the name of your distribution."
            )
        content = read_module(files[name])
        for needed in _dependencies(content):
            add(needed)
        picked[name] = content

    for name in wanted:
        add(name)
    for name in optional:
        if name in files:
            add(name)
    return list(picked.items())


def _module_name(file_name: str) -> str:
    return file_name.partition(".ko")[0].replace("-", "_")


def _dependencies(module: bytes) -> list[str]:
    """What a module's own .modinfo section says it needs (`depends=a,b`); the package comes without modules.dep."""
    match = re.search(rb"\0depends=([^\0]*)\0", module)
    return [_module_name(name) for name in match.group(1).decode().split(",") if name] if match else []
