"""libvirt stopped, libvirt hanging, one domain stuck: seconds, a sentence, and nobody else affected."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from tests.vmctl.real.place import Place


@pytest.fixture
def elsewhere(place: Place, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place whose libvirt is said to listen on this socket."""
    path = place.folder / "libvirt-sock"
    monkeypatch.setenv("LIBVIRT_URI", f"qemu+unix:///system?socket={path}")
    monkeypatch.setattr(Place, "domains", lambda self: {})
    return path


def test_a_stopped_libvirt_is_a_sentence_in_seconds(place: Place, elsewhere: Path) -> None:
    answer = place.observe()
    assert (answer.status, answer.document["error"]["code"], answer.document["error"]["retry"]) == (
        3,
        "unreachable",
        True,
    )
    assert str(elsewhere) in answer.document["error"]["what"]
    assert answer.seconds < 15


@pytest.mark.field("C04")
def test_a_hanging_libvirt_is_a_sentence_in_seconds(place: Place, elsewhere: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(elsewhere))
        listener.listen()
        answer = place.apply(place.machine("a"))
    assert (answer.status, answer.document["error"]["code"]) == (3, "unreachable")
    assert answer.seconds < 20


@pytest.mark.field("C08")
def test_a_stuck_machine_loses_its_own_state_only_and_ends_at_last(place: Place) -> None:
    both = [place.machine("stuck"), place.machine("fine")]
    place.settle(*both)
    os.kill(place.qemu("stuck"), signal.SIGSTOP)
    stop = {"order": "stop"}
    told = place.apply(*(each | stop for each in both), confirmed_stops=[each["machine"] for each in both])
    assert told.seconds < 30
    assert [step["machine"] for step in told.document["steps"] if step["error"]] == [place.uuid("stuck")]

    seen = place.observe()
    assert seen.states == {place.uuid("stuck"): "unknown", place.uuid("fine"): "stopping"}
    troubles = {machine["machine"]: machine["trouble"] for machine in seen.document["machines"]}
    assert "has held" in troubles[place.uuid("stuck")]
    assert troubles[place.uuid("fine")] is None
    assert seen.document["unknown"] == []  # nothing is missing from the lists, so the others may end

    force = {"force_at": both[0]["start"]}
    for _ in range(3):  # libvirt tries SIGTERM first, and gives a stopped process ten seconds
        last = place.apply(*(each | stop | force for each in both), confirmed_stops=[each["machine"] for each in both])
        assert last.seconds < 45
        if not place.domains():
            break
    assert place.domains() == {}


def test_a_bus_of_vgpus_that_cannot_be_read_is_a_gap_in_the_lists(place: Place) -> None:
    """Not only on each card: while it lasts, nobody's absence may be believed."""
    place.observe()
    bus = place.root / "sys/bus/mdev/devices"
    bus.rename(bus.with_name("aside"))
    bus.touch()
    seen = place.observe().document
    bus.unlink()
    bus.with_name("aside").rename(bus)
    assert [gap["what"].split()[0] for gap in seen["unknown"]] == ["holders", "holders"]  # of each of its two cards
    assert place.observe().document["unknown"] == []
