"""What protects today's machines: generation, portal, lock, mass-stop guard, and the mark."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from tests.vmctl import build
from tests.vmctl.real.place import Place, libvirt_uri, virsh


def test_an_old_or_foreign_order_is_refused_and_changes_nothing(place: Place) -> None:
    wanted = place.machine("a")
    old = place.desired()
    place.apply(wanted)
    for document, code in (
        (old, "stale_generation"),
        (place.desired(portal=build.OTHER_PORTAL), "wrong_portal"),
        (place.desired(host="sim-a40"), "bad_input"),
    ):
        refused = place.run("apply", document)
        assert refused.document["error"]["code"] == code
        assert refused.status == (2 if code == "bad_input" else 1)
    assert list(place.domains().values()) == [place.uuid("a")]
    assert place.observe().states == {place.uuid("a"): "running"}


def test_a_wrong_portal_cannot_switch_a_host_off(place: Place) -> None:
    """A desired state that lost four machines stops none of them until an operator says so."""
    crowd = [place.machine(str(number)) for number in range(4)]
    assert len(place.settle(*crowd).states) == 4
    emptied = place.apply()
    assert emptied.kinds == []
    assert set(emptied.document["needs_confirmation"]) == {place.uuid(str(number)) for number in range(4)}
    assert len(place.domains()) == 4

    place.settle(confirmed_stops=emptied.document["needs_confirmation"], stop_grace_seconds=0)
    assert place.domains() == {}


@pytest.mark.field("C13")
def test_a_foreign_domain_is_not_touched_whatever_it_is_called(place: Place) -> None:
    wanted = place.machine("a")
    name = f"{wanted['hostname']}-{place.uuid('a')[:8]}"
    virsh("create", str(foreign(place, name)))
    before = virsh("dumpxml", name)
    refused = place.apply(wanted)
    assert refused.errors == {"start": "not_ours"}
    purged = place.apply(purge=[place.uuid("a")])
    assert purged.kinds == []
    assert [other["name"] for other in purged.document["foreign"] if other["name"] == name] == [name]
    assert virsh("dumpxml", name) == before


def foreign(place: Place, name: str) -> object:
    """A domain that somebody else made."""
    domain = ET.Element("domain", type="qemu")
    ET.SubElement(domain, "name").text = name
    ET.SubElement(domain, "memory", unit="MiB").text = "16"
    ET.SubElement(ET.SubElement(domain, "os"), "type", machine="q35").text = "hvm"
    path = place.folder / "foreign.xml"
    path.write_text(ET.tostring(domain, encoding="unicode"))
    return path


def test_another_hosts_machine_on_the_same_libvirt_is_foreign(place: Place) -> None:
    place.apply(place.machine("a"))
    other = Place(place.folder, host="sim-a40", layout="a40", portal=place.portal, tag=place.tag)
    other.know_kvm()
    seen = other.apply()
    assert (seen.kinds, seen.states) == ([], {})
    assert place.uuid("a") in {each["uuid"] for each in seen.document["foreign"]}
    assert list(place.domains().values()) == [place.uuid("a")]


def test_a_copied_mark_makes_no_domain_ours(place: Place) -> None:
    """virt-clone copies metadata; the copy has another uuid than its mark says."""
    place.apply(place.machine("a"))
    clone = place.xml("a")
    for tag, text in (("name", f"t{place.tag}-clone"), ("uuid", build.name_uuid(f"{place.tag} clone"))):
        element = clone.find(tag)
        assert element is not None
        element.text = text
    devices = clone.find("devices")
    assert devices is not None
    devices.clear()
    path = place.folder / "clone.xml"
    path.write_text(ET.tostring(clone, encoding="unicode"))
    virsh("create", str(path))
    emptied = place.apply(confirmed_stops=[place.uuid("a")], stop_grace_seconds=0)
    assert "force_stop" in emptied.kinds
    assert list(place.domains()) == [f"t{place.tag}-clone"]
    assert libvirt_uri() not in path.read_text()
