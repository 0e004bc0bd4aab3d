"""From a booking to the machine's screen, beside the same machine started by hand."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.bench.result import Result, at_most
from tests.journeys.portal import Portal, drop_database, prepared, wait_until

READY = "screen ready"  # the guest's own word on its serial port, when its screen is drawn
LIMIT_SECONDS = 180


def first_screen() -> Iterator[Result]:
    """Seconds from the request to the guest's screen; then the same domain by plain `virsh create`."""
    with tempfile.TemporaryDirectory() as folder:
        portal = prepared(Path(folder), TICK_SECONDS="10")
        try:
            for name in ("web", "worker", "beat"):
                portal.start(name)
            wait_until(portal.ready, 60, "the portal is ready")
            booked, plain = booking_to_screen(portal)
        finally:
            portal.end()
            drop_database(portal.settings["DATABASE_URL"], os.environ["DATABASE_URL"])
    yield at_most("first_screen", booked, "s", plain, "s by plain virsh create of the same domain", 1.5)


def booking_to_screen(portal: Portal) -> tuple[float, float]:
    token = portal.token("student1")
    flavor = portal.call("GET", "flavors", token)[1]["items"][0]["slug"]
    end = (datetime.now(UTC) + timedelta(minutes=10)).replace(second=0, microsecond=0).isoformat()
    began = time.monotonic()
    status, document = portal.call(
        "POST", "reservations", token, {"flavor": flavor, "image": "demo", "end": end, "disposable": True}
    )
    assert status == 201, document
    machine = document["machine"]
    wait_until(lambda: READY in portal.serial(machine), LIMIT_SECONDS, "the booked machine's screen")
    booked = time.monotonic() - began
    plain = plain_create(portal, machine)
    portal.call("POST", f"reservations/{document['id']}/cancel", token)
    portal.wait_for_status(token, document["id"], "ended", 90)
    return booked, plain


def plain_create(portal: Portal, machine: str) -> float:
    """The running machine's own XML under another name, with a fresh overlay; the booked one is paused meanwhile."""
    folder = portal.machine_folder(machine)
    assert folder is not None
    virsh = ["virsh", "-q", "-c", os.environ["LIBVIRT_URI"]]
    run(*virsh, "suspend", machine)
    twin = folder.parent / "twin"
    twin.mkdir(mode=0o755)
    try:
        image = Path(portal.settings.get("IMAGES_DIR") or os.environ["IMAGES_DIR"], "demo.qcow2")
        run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", str(image), str(twin / "disk.qcow2"))
        (twin / "seed.iso").write_bytes((folder / "seed.iso").read_bytes())
        (twin / "domain.xml").write_text(twin_of(run(*virsh, "dumpxml", "--inactive", machine), folder, twin))
        began = time.monotonic()
        run(*virsh, "create", str(twin / "domain.xml"))
        log = twin / "serial.log"
        wait_until(
            lambda: log.exists() and READY in log.read_text(errors="replace"), LIMIT_SECONDS, "the twin's screen"
        )
        return time.monotonic() - began
    finally:
        subprocess.run([*virsh, "destroy", "bench-twin"], check=False, capture_output=True, timeout=60)
        for file in twin.iterdir():
            file.unlink()
        twin.rmdir()
        run(*virsh, "resume", machine)


def twin_of(xml: str, folder: Path, twin: Path) -> str:
    """The same machine under another identity: name, UUID, network card, paths, and no mark."""
    xml = re.sub(r"<metadata>.*?</metadata>", "", xml, flags=re.DOTALL)
    xml = re.sub(r"<name>[^<]*</name>", "<name>bench-twin</name>", xml, count=1)
    xml = re.sub(r"<uuid>[^<]*</uuid>", "", xml, count=1)
    xml = re.sub(r"<mac address='[^']*'/>", "", xml)
    xml = re.sub(r"(socket='[^']*/)[^/']*'", r"\1bench-twin.sock'", xml)  # in the folder that QEMU may write to
    return xml.replace(str(folder), str(twin))


def run(*command: str) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, f"{command[0]} {command[-2]}: {done.stderr}"
    return done.stdout
