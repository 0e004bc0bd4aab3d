"""The demo image in QEMU without libvirt: what a booked machine shows, takes and gives up."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from scripts.demo_image.__main__ import make_image
from scripts.demo_image.disk import write_disk
from tests.image.guest import Guest
from tests.image.seeds import PASSWORD, write_seed
from vmctl.guest_trial import FUNCTION

SCREEN_LIMIT = 150.0
"""Seconds that a test waits for a screen on a machine that does other things besides; on two idle cores it takes 13."""

SCREEN_COST = 30.0
"""Seconds to the first screen in emulation on a core of its own: the promise."""

ANSWER = 30.0
"""Seconds that a test waits for an answer to keys or to the power button; usually it is there at once."""

HOSTILE = "\N{PILE OF POO}\N{RIGHT-TO-LEFT OVERRIDE}Eve\nOwner: Ada\r\x1b[2J\"'`touch /tmp/x`;$(touch /tmp/x)"


@pytest.fixture(scope="module")
def image() -> Path:
    """The image that `make run` uses; made now if it is not there or its scripts have changed."""
    checkout = Path(__file__).parents[2]
    output = Path(os.environ.get("IMAGES_DIR", checkout / "var/images")) / "demo.qcow2"
    make_image(output, output.parent / ".cache", again=False)
    return output


@pytest.fixture(scope="module")
def booted(image: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Guest]]:
    """Ada's machine and one with a hostile seed, each at its first screen, and one without a seed, just begun."""
    folder = tmp_path_factory.mktemp("guests")
    with ExitStack() as stack:
        ada = write_seed(folder / "ada.iso", hostname="ada-demo", owner="ada", address="10.213.7.23", user="ada")
        eve = write_seed(
            folder / "eve.iso", hostname="x$(touch /tmp/x)", owner=HOSTILE, address="10.213.7.24; touch /tmp/x",
            user="root\n$(touch /tmp/x)", vgpu=HOSTILE, label="cidata",
        )  # fmt: skip
        guests = {
            "ada": stack.enter_context(Guest(folder / "ada-machine", image, ada)),
            "eve": stack.enter_context(Guest(folder / "eve-machine", image, eve, seed_on="cdrom")),
        }
        for guest in guests.values():
            guest.wait_for("login:", SCREEN_LIMIT)
            guest.screen_cost = guest.processor_seconds()
        guests["nobody"] = stack.enter_context(Guest(folder / "seedless-machine", image, None))
        yield guests


def log_in(guest: Guest, user: str) -> None:
    guest.wait_for("Password:", ANSWER, after=guest.type(f"{user}\n"))
    guest.wait_for(f"{user}@", ANSWER, after=guest.type(f"{PASSWORD}\n"))


def facts(guest: Guest) -> dict[str, str]:
    """What the guest says of itself, by the first word of each line."""
    lines = [line.removeprefix("tessera: ") for line in guest.log().splitlines() if line.startswith("tessera: ")]
    return dict(line.split(" ", 1) for line in lines if " " in line)


def test_the_screen_comes_soon(booted: dict[str, Guest]) -> None:
    assert booted["ada"].screen_cost < SCREEN_COST
    assert "screen ready" in booted["ada"].log()


def test_the_screen_says_what_the_seed_says(booted: dict[str, Guest]) -> None:
    said = facts(booted["ada"])
    assert said["host"] == "ada-demo"
    assert said["owner"] == "ada"
    assert said["period"] == "2026-12-01 10:00-12:00 CET"
    assert said["vgpu"] == "T4-4Q (simulated)"
    assert said["address"] == "10.213.7.23"


def test_it_tells_its_pci_functions_before_its_facts(booted: dict[str, Guest]) -> None:
    """By these lines `vmctl accept` finds the vGPU in its guest."""
    functions = FUNCTION.findall(booted["ada"].log().partition("tessera: reservation")[0])
    displays = [(vendor, device) for vendor, device, kind, _ in functions if kind.startswith("03")]
    assert displays == [("1234", "1111"), ("1af4", "1050")]
    listed = [address for _, _, _, address in functions]
    assert len(listed) == len(set(listed)) > 3


def test_two_seeds_give_two_screens(booted: dict[str, Guest]) -> None:
    ada, eve = (booted[name].screenshot("facts") for name in ("ada", "eve"))
    assert ada.startswith(b"P6\n800 600\n255\n")
    assert len({ada[at : at + 3] for at in range(15, len(ada), 3)}) >= 5, "a frame, a mosaic and text have more colours"
    assert ada != eve


def test_a_hostile_seed_is_text(booted: dict[str, Guest]) -> None:
    eve = booted["eve"]
    said = facts(eve)
    assert said["owner"].startswith("\N{PILE OF POO} Eve Owner: Ada [2J\"'`touch /tmp/x")
    assert said["vgpu"].endswith("...")
    assert said["host"] == "tessera", "a host name of the wrong form is not used"
    assert said["address"] == "not yet known"
    log_in(eve, "user")
    eve.wait_for("files:0\n", ANSWER, after=eve.type("echo files:$(ls /tmp /root | grep -c x)\n"))


def test_root_and_a_wrong_password_do_not_get_in(booted: dict[str, Guest]) -> None:
    ada = booted["ada"]
    ada.wait_for("Password:", ANSWER, after=ada.type("root\n"))
    ada.wait_for("Login incorrect", ANSWER, after=ada.type(f"{PASSWORD}\n"))
    ada.wait_for("Password:", ANSWER, after=ada.type("ada\n"))
    ada.wait_for("Login incorrect", ANSWER, after=ada.type("wrong\n"))


def test_what_is_typed_reaches_the_serial_log(booted: dict[str, Guest]) -> None:
    ada = booted["ada"]
    log_in(ada, "ada")
    ada.wait_for("\n42-abc\n", ANSWER, after=ada.type("echo $((6*7))-abc\n"))
    assert PASSWORD not in ada.log()


def test_home_outlives_the_power_button_and_a_new_seed(booted: dict[str, Guest], tmp_path: Path) -> None:
    ada = booted["ada"]
    ada.wait_for("kept\n", ANSWER, after=ada.type("echo kept > note; cat note\n"))
    ada.press_power_button()
    ada.wait_for_end(ANSWER)
    assert "tessera: power off" in ada.log()
    later = write_seed(tmp_path / "later.iso", hostname="ada-again", owner="ada", address="10.213.7.25", user="ada")
    with Guest(ada.folder, ada.image, later) as again:
        again.wait_for("login:", SCREEN_LIMIT)
        assert facts(again)["host"] == "ada-again"
        log_in(again, "ada")
        again.wait_for("\nkept\n", ANSWER, after=again.type("cat note\n"))


def test_without_a_seed_nobody_gets_in(booted: dict[str, Guest]) -> None:
    nobody = booted["nobody"]
    nobody.wait_for("tessera login:", SCREEN_LIMIT)
    assert "tessera: no seed found" in nobody.log()
    nobody.wait_for("Password:", ANSWER, after=nobody.type("root\n"))
    nobody.wait_for("Login incorrect", ANSWER, after=nobody.type("\n"))


def test_an_image_that_is_up_to_date_is_left_alone(image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = image.stat()
    make_image(image, image.parent / "no-such-cache", again=False)
    assert "up to date" in capsys.readouterr().out
    assert image.stat().st_mtime_ns == before.st_mtime_ns


def test_the_disk_is_the_same_bytes_each_time(tmp_path: Path) -> None:
    """A kept machine's disk stands on the image: making it again must not change a block below somebody's /home."""
    boot_file = tmp_path / "linux"
    boot_file.write_bytes(b"kernel")
    disks = []
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        write_disk(boot_file, b"user space", "quiet", folder, folder / "disk.qcow2")
        disks.append((folder / "disk.qcow2").read_bytes())
        time.sleep(1.1)  # a time of now in any file system would differ
    assert disks[0] == disks[1]


def test_a_build_without_package_lists_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "apt.conf").write_text(
        f'Dir::State::lists "{tmp_path}/lists"; Dir::Cache::pkgcache ""; Dir::Cache::srcpkgcache "";'
    )
    done = subprocess.run(
        [sys.executable, "-m", "scripts.demo_image", tmp_path / "demo.qcow2"],
        env=os.environ | {"APT_CONFIG": str(tmp_path / "apt.conf")}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "apt-get update" in done.stderr
    assert not (tmp_path / "demo.qcow2").exists()
