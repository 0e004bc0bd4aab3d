"""A machine from its first start to nothing left, on a real QEMU."""

from __future__ import annotations

import os
import signal
import stat
from datetime import UTC, datetime, timedelta

import pytest

from tests.vmctl import build
from tests.vmctl.real.place import Place, until, virsh


@pytest.mark.field("A17")
def test_it_starts_with_its_share_obeys_and_leaves_only_its_disk(place: Place) -> None:
    wanted = place.with_vgpu("a", image="obedient")
    started = place.apply(wanted)
    assert (started.status, started.kinds) == (0, ["provide", "disk", "start"])
    assert started.seconds < 15

    assert list(place.domains().values()) == [place.uuid("a")]
    assert place.mdevs() == {place.vgpu_uuid("a")}
    assert place.xml("a").find(f"devices/video/alias[@name='ua-tessera-{place.vgpu_uuid('a')}']") is not None
    assert stat.S_ISSOCK(place.socket("a").stat().st_mode)
    (seen,) = started.document["vgpus"]
    assert (seen["machine"], seen["ours"]) == (place.uuid("a"), True)
    assert place.apply(wanted).kinds == []

    place.until_up("a")
    asked = place.apply(wanted | {"order": "stop"}, confirmed_stops=[place.uuid("a")])
    assert asked.kinds == ["ask_stop"]
    until(lambda: not place.domains(), 20)
    ended = place.apply(wanted | {"order": "stop"})
    assert (ended.status, ended.kinds) == (0, ["release", "clear"])
    assert (place.mdevs(), place.files("a"), place.socket("a").exists()) == (set(), ["disk.qcow2"], False)

    again = place.apply(wanted)
    assert again.kinds == ["provide", "disk", "start"]
    place.until_up("a")


@pytest.mark.field("C16")
def test_a_guest_that_is_deaf_is_asked_again_and_then_switched_off(place: Place) -> None:
    place.apply(place.with_vgpu("a"))
    place.until_up("a")
    stop = place.with_vgpu("a", order="stop", minutes=0.001)
    first = place.apply(stop, confirmed_stops=[place.uuid("a")], stop_grace_seconds=600)
    asked = first.document["machines"][0]["asked"]
    second = place.apply(stop, confirmed_stops=[place.uuid("a")], stop_grace_seconds=600)
    assert (first.kinds, second.kinds) == (["ask_stop"], ["ask_stop"])
    assert second.document["machines"][0]["asked"] == asked
    assert first.states == {place.uuid("a"): "stopping"}

    late = stop | {"force_at": (datetime.now(UTC) - timedelta(seconds=1)).isoformat()}
    forced = place.apply(late, purge=[place.uuid("a")], confirmed_stops=[place.uuid("a")])
    assert forced.kinds == ["force_stop", "release", "purge"]
    assert forced.seconds < 10
    assert (place.domains(), place.mdevs(), place.files("a")) == ({}, set(), [])


@pytest.mark.field("A15")
def test_a_machine_whose_qemu_was_killed_is_started_again_with_its_share(place: Place) -> None:
    wanted = place.with_vgpu("a")
    place.apply(wanted)
    os.kill(place.qemu("a"), signal.SIGKILL)
    until(lambda: not place.domains(), 20)
    again = place.apply(wanted)
    assert (again.status, again.kinds) == (0, ["provide", "disk", "start"])
    assert place.mdevs() == {place.vgpu_uuid("a")}
    assert list(place.domains().values()) == [place.uuid("a")]


@pytest.mark.field("C14")
def test_one_machine_in_trouble_stops_no_other_and_is_fine_once_helped(place: Place) -> None:
    lost = place.machine("lost", image="nowhere")
    full = place.machine("full", vgpus=[build.vgpu("none", type="T4-64Q")])
    found = place.apply(lost, full, place.machine("fine"))
    assert found.status == 1
    assert list(found.states) == [place.uuid("fine")]
    troubled = {step["machine"]: step["error"]["code"] for step in found.document["steps"] if step["error"]}
    assert set(troubled) == {place.uuid("lost"), place.uuid("full")}
    assert all(step["error"]["remedy"] for step in found.document["steps"] if step["error"])

    (place.folder / "images" / "nowhere.qcow2").symlink_to("deaf.qcow2")
    assert len(place.apply(lost, place.machine("fine")).states) == 2


def test_a_new_end_is_told_to_the_running_machine_and_the_image_stays_its_owners(place: Place) -> None:
    image = place.folder / "images" / "deaf.qcow2"
    before = image.stat()
    place.apply(place.machine("a", minutes=30))
    later = place.machine("a", minutes=90)
    told = place.apply(later)
    assert told.kinds == ["remark"]
    assert told.document["machines"][0]["end"] == later["end"]
    assert later["end"] in virsh("dumpxml", place.uuid("a"))
    assert owned(image.stat()) == owned(before)  # libvirt gives disks to QEMU's user: not what many machines share


def owned(file: os.stat_result) -> tuple[int, int, float]:
    return file.st_uid, file.st_mode, file.st_mtime


@pytest.mark.field("G03")
def test_the_screen_listens_on_no_port(running: Place) -> None:
    graphics = running.xml("a").find("devices/graphics")
    assert graphics is not None
    assert [(each.get("type"), each.get("socket")) for each in graphics] == [("socket", str(running.socket("a")))]
    assert (graphics.get("port"), graphics.get("keymap"), graphics.get("passwd")) == (None, None, None)
