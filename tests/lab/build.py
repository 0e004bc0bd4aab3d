"""Makes the layers that are missing: the image, and on it a booted lab with module, vmctl and demo image."""

from __future__ import annotations

import getpass
import os
import re
import shutil
import sys
import time
from pathlib import Path

from tests.lab import board, cache
from tests.lab.cache import CHECKOUT, HOST, IMAGE, MODULE, Ready, call
from tests.lab.machine import Lab
from tests.lab.process import free_port

IMAGE_MIB, READY_MIB = 7000, 2500
TREE_SECONDS, PARTS_SECONDS = 1200, 300
NEEDED = ("typer", "rich", "nvidia-ml-py")
"""What vmctl needs beside libvirt's own module, which is Debian's."""
PYTHON = "3.13"
DEMO = CHECKOUT / "var/images/demo.qcow2"


def ensure(*, again: bool = False) -> Ready:
    """The lab of these sources, made where it is not there: minutes the first time. Raises LabError.

    `again`: made anew, with the newest packages.
    """
    if os.environ.get("LAB_STALE"):
        return cache.ready()
    with cache.building():
        image = cache.home() / cache.image_name()
        if again and image.is_dir():
            cache.remove(cache.home() / cache.ready_name(image))
            cache.remove(image)
        if not image.is_dir():
            _make_image(image.name)
        ready = cache.home() / cache.ready_name(image)
        if not ready.is_dir():
            _make_ready(image, ready.name)
        cache.touch(image, ready)
    return cache.of(ready)


def _make_image(name: str) -> None:
    began = time.monotonic()
    say("makes the image from Debian's packages; some two minutes")
    with cache.layer(name, IMAGE_MIB) as folder:
        call([*cache.as_root(), IMAGE / "make-tree", folder, getpass.getuser()], seconds=TREE_SECONDS)
    say(f"image made in {time.monotonic() - began:.0f} s")


def _make_ready(image: Path, name: str) -> None:
    began = time.monotonic()
    with cache.layer(name, READY_MIB) as folder:
        say("compiles the module, installs vmctl")
        archive = _parts(image, folder)
        say("boots it for the first time")
        lab = Lab(folder, free_port(), Ready(image, image / "root.qcow2", folder / "state"))
        try:
            lab.boot(plug=False)
            with lab.lent(archive) as disk:
                lab.shell(f"tar -C / --no-same-owner -xf {disk}", limit=120)
            script = (HOST / "first-boot").read_text()
            lab.shell(f"cards={board.cards_parameter()}\n{script}", limit=600)
            say("saves its state")
            lab.save()
        finally:
            lab.kill()
        archive.unlink()
        (folder / "image").write_text(image.name)
    say(f"lab made in {time.monotonic() - began:.0f} s")


def _parts(image: Path, folder: Path) -> Path:
    """An archive of what the lab gets beside its packages: module, stand-ins, vmctl, and an image for machines."""
    wheels, archive = folder / "wheels", folder / "parts.tar"
    shutil.copytree(_dependencies(), wheels)
    call([CHECKOUT / "scripts/wheel", wheels], seconds=PARTS_SECONDS)
    make: list[str | Path] = [*cache.as_root(), HOST / "make-parts", image / "kit", MODULE, wheels, archive]
    call([*make, _demo_image(), getpass.getuser()], seconds=PARTS_SECONDS)
    shutil.rmtree(wheels)
    return archive


def _dependencies() -> Path:
    """vmctl's dependencies for the lab's Python at the versions of the lock, downloaded once."""
    lock = (CHECKOUT / "requirements/run.txt").read_text()
    pinned = re.findall(r"^([a-z0-9-]+==\S+)", lock, re.MULTILINE)
    folder = cache.home() / f"wheels-{cache.hash_of(PYTHON, *NEEDED, *pinned)}"
    if not folder.is_dir():
        with cache.layer(folder.name, 100) as part:
            (part / "pins").write_text("\n".join(pinned))
            platform = ["--only-binary=:all:", f"--python-version={PYTHON}", "--implementation=cp"]
            call([*_pip("download"), *platform, "-c", part / "pins", "-d", part, *NEEDED], seconds=PARTS_SECONDS)
    return folder


def _pip(verb: str) -> list[str]:
    return [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", verb]


def _demo_image() -> Path:
    """Made in the checkout, where `make run` has it, too."""
    call([sys.executable, "-m", "scripts.demo_image", DEMO], cwd=CHECKOUT, seconds=PARTS_SECONDS)
    return DEMO


def say(line: str) -> None:
    """One line of progress."""
    print(f"lab: {line}", file=sys.stderr, flush=True)
