"""A machine's folder: made whole or not at all, cleared to the disk alone, purged to nothing."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.vmctl.build import name_uuid, wish
from vmctl.errors import Code, VmctlError
from vmctl.host import Host
from vmctl.machine import storage

MACHINE = name_uuid("machine a")


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    folder.mkdir()
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", folder / "demo.qcow2", "64M"], check=True, timeout=30)
    return folder


def make(tmp_path: Path, images: Path, **other: str) -> Path:
    storage.make_disk(Host("here", state_dir=tmp_path), tmp_path / "machines", images, wish("a", **other))
    return tmp_path / "machines" / MACHINE / "disk.qcow2"


def test_a_disk_is_an_overlay_that_says_what_lies_under_it(tmp_path: Path, images: Path) -> None:
    disk = make(tmp_path, images)
    told = subprocess.run(["qemu-img", "info", "--output=json", disk], capture_output=True, check=True, timeout=30)
    facts = json.loads(told.stdout)
    assert (facts["virtual-size"], facts["backing-filename-format"]) == (2**30, "qcow2")
    assert facts["full-backing-filename"] == str(images / "demo.qcow2")
    assert (disk.stat().st_mode & 0o777, disk.parent.stat().st_mode & 0o777) == (0o600, 0o711)


def test_a_disk_that_is_there_stays_as_it_is(tmp_path: Path, images: Path) -> None:
    disk = make(tmp_path, images)
    before = (disk.stat().st_ino, disk.stat().st_mtime_ns)
    make(tmp_path, images)
    assert (disk.stat().st_ino, disk.stat().st_mtime_ns) == before


def test_a_disk_is_never_put_on_another_image(tmp_path: Path, images: Path) -> None:
    make(tmp_path, images)
    (images / "demo.qcow2").rename(images / "other.qcow2")
    with pytest.raises(VmctlError, match=r"made on the image demo\.qcow2, not on other\.qcow2"):
        make(tmp_path, images, image="other")


def test_a_disk_follows_its_image_to_another_folder(tmp_path: Path, images: Path) -> None:
    make(tmp_path, images)
    make(tmp_path, images.rename(tmp_path / "moved"))


def test_an_image_that_does_not_fit_on_the_disk_is_refused(tmp_path: Path, images: Path) -> None:
    subprocess.run(["qemu-img", "resize", "-q", images / "demo.qcow2", "5G"], check=True, timeout=30)
    with pytest.raises(VmctlError, match="needs a disk of 5 GiB"):
        make(tmp_path, images)


def test_a_serial_log_that_grew_too_large_begins_anew(tmp_path: Path) -> None:
    log = tmp_path / MACHINE / "serial.log"
    storage.trim_serial(tmp_path, MACHINE)
    log.parent.mkdir()
    log.write_bytes(b"x")
    storage.trim_serial(tmp_path, MACHINE)
    assert log.stat().st_size == 1
    os.truncate(log, storage.LARGEST_SERIAL + 1)
    storage.trim_serial(tmp_path, MACHINE)
    assert log.stat().st_size == 0


@pytest.mark.field("C14")
def test_a_half_made_disk_is_made_anew(tmp_path: Path, images: Path) -> None:
    disk = make(tmp_path, images)
    disk.rename(disk.with_name("disk.qcow2.new"))
    assert make(tmp_path, images).exists()
    assert not disk.with_name("disk.qcow2.new").exists()


def test_a_missing_image_says_where_it_should_be(tmp_path: Path, images: Path) -> None:
    (images / "demo.qcow2").unlink()
    with pytest.raises(VmctlError) as caught:
        make(tmp_path, images)
    assert caught.value.code == Code.NO_IMAGE
    assert str(images / "demo.qcow2") in caught.value.what
    assert not (tmp_path / "machines").exists()


def test_a_broken_image_is_a_sentence(tmp_path: Path, images: Path) -> None:
    (images / "demo.qcow2").write_bytes(b"no image at all")
    with pytest.raises(VmctlError, match="qemu-img"):
        make(tmp_path, images)


def test_clearing_leaves_the_disk_alone_and_purging_leaves_nothing(tmp_path: Path, images: Path) -> None:
    disk = make(tmp_path, images)
    for name in ("seed.iso", "serial.log", "seed.iso.new"):
        (disk.parent / name).write_text("x")
    (disk.parent / ".seed-x").mkdir()
    storage.clear(tmp_path / "machines", MACHINE)
    assert [path.name for path in disk.parent.iterdir()] == ["disk.qcow2"]
    storage.purge(tmp_path / "machines", MACHINE)
    assert not disk.parent.exists()


def test_uefis_variables_stay_with_the_disk_and_the_tpms_state_goes_with_it(
    tmp_path: Path, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "TPM_STATES", tmp_path / "swtpm")
    folder = make(tmp_path, images).parent
    for kept in ("nvram-uefi.fd", "nvram-uefi-secure.fd"):
        (folder / kept).write_text("x")
    for machine in (MACHINE, name_uuid("machine b")):
        (tmp_path / "swtpm" / machine / "tpm2").mkdir(parents=True)
    storage.clear(tmp_path / "machines", MACHINE)
    assert sorted(path.name for path in folder.iterdir()) == ["disk.qcow2", "nvram-uefi-secure.fd", "nvram-uefi.fd"]
    assert storage.disks(tmp_path / "machines")[0].leftovers == ()
    for _ in range(2):
        storage.purge(tmp_path / "machines", MACHINE)
    assert not folder.exists()
    assert [path.name for path in (tmp_path / "swtpm").iterdir()] == [name_uuid("machine b")]


@pytest.mark.field("C11")
def test_purging_may_be_repeated_and_works_when_the_disk_was_removed_by_hand(tmp_path: Path, images: Path) -> None:
    disk = make(tmp_path, images)
    disk.unlink()
    (found,) = storage.disks(tmp_path / "machines")
    assert (found.machine, found.present) == (MACHINE, False)
    for _ in range(2):
        storage.purge(tmp_path / "machines", MACHINE)
    assert storage.disks(tmp_path / "machines") == ()


def test_only_folders_of_machines_are_looked_at(tmp_path: Path, images: Path) -> None:
    make(tmp_path, images)
    (tmp_path / "machines" / "lost+found").mkdir()
    (tmp_path / "machines" / "notes.txt").write_text("x")
    assert [disk.machine for disk in storage.disks(tmp_path / "machines")] == [MACHINE]
