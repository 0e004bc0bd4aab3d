"""Acceptance with the real libvirt: a guest that boots, tells what it sees, and is gone afterwards."""

from __future__ import annotations

import json
import subprocess

from tests.vmctl.build import settings
from tests.vmctl.real.place import LIMIT, Place, libvirt_uri, make_image, virsh
from vmctl.guest_trial import TOLD

FLEX = "0000:6a:00.0"
TALE = f"tessera-pci: 8086:56c0 1af4:1100 030000 0000:00:05.0\r\n{TOLD} x\r\n"

# A boot sector that writes what follows it to the serial port and sleeps: cli; cld; ds = 0; si = what follows; dx = the
# port; next: lodsb; at a zero sleep, else out; again.
TELLING = bytes.fromhex("fa fc 31c0 8ed8 be 177c ba f803 ac 84c0 74 03 ee eb f8 f4 eb fd") + TALE.encode()


def test_a_card_is_tried_with_a_guest_and_nothing_stays(place: Place) -> None:
    place.layout, place.host = "flex", "sim-flex"
    place.know_kvm()
    make_image(place.folder / "images", "telling", TELLING)
    place.apply(cards=[settings(FLEX, regime="vf", vfs=2)])
    report = place.folder / "report.json"
    words = ["--gpu", FLEX, "--rounds", "2", "--image", "telling", "--report", str(report)]
    before = set(virsh("list", "--all", "--uuid").split())
    done = subprocess.run(
        place.command("accept", *words), capture_output=True, text=True, timeout=2 * LIMIT, check=False
    )
    assert (done.returncode, json.loads(done.stdout)["problems"]) == (0, [])
    assert json.loads(report.read_text()) == json.loads(done.stdout)
    rounds = json.loads(done.stdout)["rounds"]
    assert [each["guest"]["seen"] for each in rounds] == [["8086:56c0"]] * 2
    assert [each["guest"]["stand_in"] for each in rounds] == ["simulated vGPU"] * 2
    assert [each["types"][0]["created"] for each in rounds] == [2, 2]
    assert "Round 2 of 2: as predicted." in done.stderr
    assert set(virsh("list", "--all", "--uuid").split()) <= before
    assert list(place.storage.glob("*")) == []
    assert libvirt_uri() not in report.read_text()
