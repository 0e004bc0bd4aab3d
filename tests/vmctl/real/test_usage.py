"""What a real machine uses, counted by the real libvirt."""

from __future__ import annotations

from tests.vmctl.real.place import Place, until
from tests.vmctl.test_schemas import check


def test_a_running_machine_is_counted_with_its_share(running: Place) -> None:
    place = running
    found = place.run("usage").document
    check("usage", found)
    (mine,) = (each for each in found["machines"] if each["machine"] == place.uuid("a"))
    assert (mine["ours"], mine["vcpus"], mine["users"]) == (True, 1, None)  # no agent: nobody tells who is logged in
    assert mine["cpu_ns"] > 0
    assert mine["memory_mib"] > 0
    assert mine["disk"]["read_bytes"] >= 512  # its boot sector
    assert mine["network"]["sent_bytes"] is not None
    (share,) = mine["vgpus"]
    assert (share["device"], share["type"]) == (place.vgpu_uuid("a"), "T4-4Q")
    assert share["utilisation_percent"] is None  # no driver runs it here: not 0
    until(lambda: used(place) > mine["cpu_ns"], 20)


def used(place: Place) -> int:
    """CPU time of the machine."""
    machines = place.run("usage").document["machines"]
    return next(int(each["cpu_ns"]) for each in machines if each["machine"] == place.uuid("a"))
