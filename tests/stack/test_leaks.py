"""The checker of leaks finds every kind of leak: each is planted and must be named."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from tests.leaks import Places, leaks, query

MACHINE, RESERVATION, PLACEMENT = str(uuid4()), str(uuid4()), str(uuid4())
DOMAIN = f"""<domain type='qemu'><name>leak-{MACHINE[:8]}</name><uuid>{MACHINE}</uuid>
<memory unit='MiB'>16</memory><os><type arch='x86_64' machine='pc'>hvm</type></os></domain>"""


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """A database with the two columns that the checker asks for; the real table stands in the journeys."""
    server = os.environ["DATABASE_URL"]
    name = f"leaks_{MACHINE[:8]}"
    psql(server, f"CREATE DATABASE {name}")
    url = server.replace("/tessera?", f"/{name}?")
    psql(url, "CREATE TABLE bookings_placement (id uuid, reservation_id uuid, held boolean)")
    psql(url, f"INSERT INTO bookings_placement VALUES ('{PLACEMENT}', '{RESERVATION}', false)")
    yield url
    psql(server, f"DROP DATABASE {name}")


@pytest.fixture
def places(database: str, tmp_path: Path) -> Places:
    """Everything as it should be after the end of a kept machine's reservation."""
    for folder in ("console", f"storage/sim/{MACHINE}", "hosts/sim/root/sys/bus/mdev/devices"):
        (tmp_path / folder).mkdir(parents=True)
    (disk_folder(tmp_path) / "disk.qcow2").touch()
    environ = dict(os.environ) | {
        "DATABASE_URL": database,
        "RUN_DIR": str(tmp_path),
        "STORAGE_DIR": str(tmp_path / "storage"),
        "VAR_DIR": str(tmp_path),
    }
    return Places.of(environ)


def found(places: Places, *, kept: bool = True) -> str:
    return "\n".join(leaks(places, machine=MACHINE, reservation=RESERVATION, kept=kept))


def test_nothing_is_found_where_nothing_is_left(places: Places) -> None:
    (disk_folder(places.run_dir) / "OVMF_VARS.fd").touch()
    assert found(places) == ""


def test_a_running_domain_and_its_process(places: Places, tmp_path: Path) -> None:
    xml = tmp_path / "domain.xml"
    xml.write_text(DOMAIN)
    virsh("create", str(xml))
    try:
        report = found(places)
    finally:
        virsh("destroy", MACHINE)
    assert f"domain {MACHINE} is there (running)" in report
    assert "QEMU runs" in report
    assert found(places) == ""


def test_a_domain_that_is_only_defined(places: Places, tmp_path: Path) -> None:
    xml = tmp_path / "domain.xml"
    xml.write_text(DOMAIN)
    virsh("define", str(xml))
    try:
        assert "is there (shut off)" in found(places)
    finally:
        virsh("undefine", MACHINE)


def test_a_process_that_libvirt_has_lost(places: Places) -> None:
    lost = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "-uuid", MACHINE])
    try:
        assert "QEMU runs" in found(places)
    finally:
        lost.kill()
        lost.wait()


def test_a_held_placement(places: Places) -> None:
    query(places, "UPDATE bookings_placement SET held = true")
    try:
        assert f"placement {PLACEMENT} is still held" in found(places)
    finally:
        query(places, "UPDATE bookings_placement SET held = false")


@pytest.mark.parametrize("device", [PLACEMENT, str(uuid4())], ids=["its own", "one that nobody holds"])
def test_a_vgpu(places: Places, device: str) -> None:
    (places.hosts / "sim/root/sys/bus/mdev/devices" / device).mkdir()
    assert f"vGPU {device} exists on sim" in found(places)


def test_a_console_socket(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX) as screen:
        monkeypatch.chdir(places.run_dir / "console")  # a test may have too long a path for a socket
        screen.bind(f"{MACHINE}.sock")
        assert f"console socket {MACHINE}.sock is there" in found(places)


@pytest.mark.parametrize("name", ["seed.iso", "serial.log", "disk.qcow2.new"])
def test_a_file_beside_a_kept_disk(places: Places, name: str) -> None:
    (disk_folder(places.run_dir) / name).touch()
    assert f"{name} is left" in found(places)


def test_a_kept_disk_that_is_gone(places: Places) -> None:
    (disk_folder(places.run_dir) / "disk.qcow2").unlink()
    assert "a kept machine has 0 disks" in found(places)


def test_a_folder_of_a_disposable_machine(places: Places) -> None:
    assert "of a disposable machine is there" in found(places, kept=False)


def test_what_cannot_be_asked_is_no_clean_bill(places: Places) -> None:
    for blind in (
        replace(places, libvirt_uri="qemu+unix:///system?socket=/nowhere"),
        replace(places, database_url="postgres:///x?host=/nowhere"),
    ):
        with pytest.raises(subprocess.CalledProcessError):
            found(blind)


def disk_folder(run_dir: Path) -> Path:
    return run_dir / "storage" / "sim" / MACHINE


def virsh(*words: str) -> None:
    subprocess.run(["virsh", "-q", "-c", os.environ["LIBVIRT_URI"], *words], check=True, capture_output=True)


def psql(url: str, sql: str) -> None:
    subprocess.run(["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", url, "-c", sql], check=True)
