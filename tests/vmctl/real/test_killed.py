"""An apply that is killed anywhere leaves nothing that the next one does not mend."""

from __future__ import annotations

from tests.vmctl.real.place import Json, Place

ENOUGH = 60


def apply_with_kills(place: Place, desired: Json) -> int:
    """Apply the same document, killed one effect later each time, until it gets through: how many kills."""
    for effect in range(1, ENOUGH):
        answer = place.run("apply", desired, kill_at=effect)
        if answer.status >= 0:
            assert (answer.status, answer.errors) == (0, {}), answer.document
            return effect - 1
    raise AssertionError("it never got through")


def test_killed_at_every_effect_it_still_gets_there(place: Place) -> None:
    wanted = place.with_vgpu("a")
    place.observe()  # lays the simulated host's files out, which is no effect of apply
    assert apply_with_kills(place, place.desired(wanted)) > 10
    assert list(place.domains().values()) == [place.uuid("a")]
    assert place.mdevs() == {place.vgpu_uuid("a")}
    assert place.apply(wanted).kinds == []

    stop = wanted | {"order": "stop", "force_at": wanted["start"]}
    leave = place.desired(stop, confirmed_stops=[place.uuid("a")])
    assert apply_with_kills(place, leave) > 5
    assert (place.domains(), place.mdevs(), place.files("a")) == ({}, set(), ["disk.qcow2"])
    assert not place.socket("a").exists()

    purge = place.apply(purge=[place.uuid("a")])
    assert (purge.kinds, place.files("a"), purge.document["vgpus"]) == (["purge"], [], [])
