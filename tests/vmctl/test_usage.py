"""What machines use: libvirt's counters beside the driver's figures, each vGPU at its own machine; null, never 0."""

from __future__ import annotations

import json
import re
import time
import xml.etree.ElementTree as ET
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.vmctl.build import NOW, name_uuid
from tests.vmctl.fixtures.captured import fixture
from tests.vmctl.gpus.driver import Driver, q
from tests.vmctl.gpus.trees import function, plant
from tests.vmctl.test_schemas import check
from vmctl import mark, usage
from vmctl.answers import tables
from vmctl.errors import Code, VmctlError
from vmctl.host import Answer, Host
from vmctl.hypervisor import Hypervisor
from vmctl.ledger import Ledger, Made
from vmctl.node import Domain
from vmctl.observation import MachineState, Mark, MarkedVGPU
from vmctl.site import Site
from vmctl.statistics import DomainStatistics

GPU, SMI = "0001:c8:00.0", "00000001:C8:00.0"
TYPE = "RTX Pro 6000 Blackwell DC-3Q"
FIRST, SECOND = "00000000-0000-4000-8000-000000000004", "00000000-0000-4000-8000-000000000005"
SHARE = name_uuid("share")
VIRTUAL = "0001:c8:00.4"


class FakeHypervisor:
    """Answers from values."""

    def __init__(self, *domains: Domain, counted: tuple[DomainStatistics, ...] | VmctlError = ()) -> None:
        self._domains = domains
        self._counted = counted
        self.asked: Collection[str] = ()

    def domains(self) -> tuple[Domain, ...]:
        return self._domains

    def statistics(self, asked: Collection[str] = (), agent_seconds: float = 2.0) -> tuple[DomainStatistics, ...]:
        self.asked = asked
        if isinstance(self._counted, VmctlError):
            raise self._counted
        return self._counted


def domain(uuid: str, name: str, *, marked: str | None = None, device: str = VIRTUAL, **other: Any) -> Domain:
    """A domain with a virtual function; `marked`: one of ours with that share."""
    bus, slot, number = device[5:7], device[8:10], device[-1]
    metadata = "" if marked is None else f"<metadata>{_mark(uuid, marked)}</metadata>"
    source = f'<address domain="0x{device[:4]}" bus="0x{bus}" slot="0x{slot}" function="0x{number}"/>'
    xml = f"<domain>{metadata}<devices><hostdev><source>{source}</source></hostdev></devices></domain>"
    return replace(Domain(name, uuid, MachineState.RUNNING, xml), **other)


def _mark(machine: str, share: str) -> str:
    found = Mark("portal", "here", machine, "reservation", NOW, vgpus=(MarkedVGPU(share, GPU, TYPE),))
    return ET.tostring(mark.element_of(found), encoding="unicode")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A card in PCI domain 1 with two running vGPUs, on a driver without NVML."""
    plant(tmp_path / "root", function(GPU) + function(VIRTUAL))
    plant(tmp_path / "root", f"/sys/bus/pci/devices/{GPU}/virtfn0 -> /sys/bus/pci/devices/{VIRTUAL}")
    plant(tmp_path / "root", f"/sys/bus/pci/devices/{VIRTUAL}/physfn -> /sys/bus/pci/devices/{GPU}")
    answers: dict[str, str | Answer | VmctlError] = {
        "nvidia-smi -q": q(SMI)
        + "    FB Memory Usage\n        Total : 97887 MiB\n        Reserved : 2288 MiB\n"
        + "        Used : 5952 MiB\n        Free : 89648 MiB\n",
        "nvidia-smi vgpu -q": fixture("nvidia-smi-vgpu-q-rtxpro6000-580-two.txt"),
    }
    host = Host("here", root=tmp_path / "root", state_dir=tmp_path / "state", commands=Driver(answers))
    Ledger(host.state_dir).note(Made(SHARE, SECOND, GPU, TYPE, device=VIRTUAL))
    folder = tmp_path / "folder"
    return Site(host, "test:///default", folder, folder, folder, "tessera")


def used(site: Site, hypervisor: FakeHypervisor | None) -> dict[str, Any]:
    found = usage.usage(site, cast("Hypervisor | None", hypervisor), NOW)
    check("usage", found)
    return cast("dict[str, Any]", json.loads(json.dumps(found)))


def test_each_vgpu_stands_at_its_own_machine(site: Site) -> None:
    counted = DomainStatistics("mine", SECOND, 5, 2, 64, 10, 20, 30, 40, ("ada",))
    hypervisor = FakeHypervisor(
        domain(SECOND, "mine", marked=SHARE), domain(FIRST, "theirs", device="0001:c8:00.5"), counted=(counted,)
    )
    found = used(site, hypervisor)
    mine, theirs = found["machines"]
    assert (mine["machine"], mine["name"], mine["ours"]) == (SECOND, "mine", True)
    assert (mine["cpu_ns"], mine["vcpus"], mine["memory_mib"], mine["users"]) == (5, 2, 64, ["ada"])
    assert (mine["disk"], mine["network"]) == (
        {"read_bytes": 10, "written_bytes": 20},
        {"received_bytes": 30, "sent_bytes": 40},
    )
    assert mine["vgpus"] == [
        {
            "device": VIRTUAL,
            "gpu": GPU,
            "type": TYPE,
            "utilisation_percent": 12,
            "memory_utilisation_percent": 7,
            "encoder_percent": 0,
            "decoder_percent": 0,
            "frame_buffer_mib": 3072,
            "frame_buffer_used_mib": 128,
            "licence": "unlicensed (unrestricted)",
        }
    ]
    (share,) = theirs["vgpus"]
    assert (theirs["ours"], theirs["cpu_ns"], share["type"], share["licence"]) == (False, None, TYPE, None)
    assert hypervisor.asked == [SECOND]  # a foreign guest is not talked to
    assert found["gpus"] == [
        {
            "address": GPU,
            "utilisation_percent": None,
            "memory_used_mib": 5952,
            "temperature_c": None,
            "power_w": None,
        }
    ]
    (gap,) = found["unknown"]
    assert gap == {"what": f"utilisation, temperature, power of {GPU}", "reason": "The driver does not tell."}


def test_a_machine_that_is_off_uses_nothing(site: Site) -> None:
    assert used(site, FakeHypervisor(domain(SECOND, "mine", state=MachineState.OFF)))["machines"] == []


def test_a_share_that_the_driver_does_not_see_has_no_figures(site: Site) -> None:
    """Its guest's driver is not there yet, or the card is given away whole: null, never 0."""
    told = used(site, FakeHypervisor(domain(name_uuid("other"), "mine", marked=SHARE)))
    (mine,) = told["machines"]
    (share,) = mine["vgpus"]
    assert (share["gpu"], share["type"], share["device"]) == (GPU, TYPE, VIRTUAL)
    assert {share[name] for name in share if name not in ("gpu", "type", "device")} == {None}
    reason = next(gap["reason"] for gap in told["unknown"] if gap["what"] == f"figures of {VIRTUAL} on {GPU} for mine")
    assert reason.startswith("The driver tells of no such vGPU")


def test_older_drivers_tell_only_a_machines_name(site: Site) -> None:
    assert isinstance(site.host.commands, Driver)
    lines = fixture("nvidia-smi-vgpu-q-rtxpro6000-580-two.txt").splitlines(keepends=True)
    text = "".join(line.replace(f"VM UUID                           : {FIRST}", "VM ID : 77") for line in lines)
    site.host.commands.answers = dict(site.host.commands.answers) | {"nvidia-smi vgpu -q": text}
    hypervisor = FakeHypervisor(domain(name_uuid("x"), "instance-00000004"), domain(name_uuid("y"), "another"))
    first, second = used(site, hypervisor)["machines"]
    assert (len(first["vgpus"]), len(second["vgpus"])) == (1, 0)


def test_without_libvirt_cards_are_told_all_the_same(site: Site) -> None:
    found = used(site, None)
    assert (found["machines"], len(found["gpus"])) == (None, 1)
    assert "machines" in [gap["what"] for gap in found["unknown"]]


def test_guests_that_do_not_say_who_is_logged_in_are_named(site: Site) -> None:
    counted = tuple(DomainStatistics(name, uuid, 5) for name, uuid in (("mine", SECOND), ("theirs", FIRST)))
    hypervisor = FakeHypervisor(domain(SECOND, "mine", marked=SHARE), domain(FIRST, "theirs"), counted=counted)
    told = used(site, hypervisor)
    assert {each["users"] for each in told["machines"]} == {None}
    assert {"what": "users", "reason": "No guest agent answers in mine."} in told["unknown"]


def test_figures_that_the_driver_leaves_out_are_named(site: Site) -> None:
    assert isinstance(site.host.commands, Driver)
    text = re.sub(r"(Encoder +): .*", r"\1: N/A", fixture("nvidia-smi-vgpu-q-rtxpro6000-580-two.txt"))
    site.host.commands.answers = dict(site.host.commands.answers) | {"nvidia-smi vgpu -q": text}
    told = used(site, FakeHypervisor(domain(SECOND, "mine", marked=SHARE)))
    assert told["machines"][0]["vgpus"][0]["encoder_percent"] is None
    assert "The driver does not tell encoder." in [gap["reason"] for gap in told["unknown"]]


def test_a_host_whose_libvirt_is_away_says_so(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    found = usage.look(replace(site, libvirt_uri="qemu+unix:///system?socket=/nonexistent"))
    check("usage", found)
    assert "cannot be reached" in str(found["unknown"])
    tables.show_usage(cast("dict[str, Any]", found))
    assert "5952" in capsys.readouterr().out


def test_counters_that_libvirt_does_not_give_are_null_and_named(site: Site) -> None:
    late = VmctlError(Code.TIMEOUT, "libvirt did not answer.", "Wait.")
    found = used(site, FakeHypervisor(domain(SECOND, "mine", marked=SHARE), counted=late))
    assert found["machines"][0]["cpu_ns"] is None
    assert found["machines"][0]["vgpus"][0]["utilisation_percent"] == 12
    assert {"what": "what machines use", "reason": "libvirt did not answer."} in found["unknown"]


def test_a_driver_that_does_not_answer_leaves_gaps_by_card(site: Site) -> None:
    assert isinstance(site.host.commands, Driver)
    site.host.commands.answers = {}
    found = used(site, FakeHypervisor())
    assert found["gpus"][0]["memory_used_mib"] is None
    assert [gap["what"] for gap in found["unknown"]] == [f"figures of {GPU}", f"vgpus of {GPU}"]


def test_a_domain_whose_xml_makes_no_sense_is_foreign(site: Site) -> None:
    (other,) = used(site, FakeHypervisor(Domain("odd", name_uuid("odd"), MachineState.UNKNOWN, "<", "Stuck.")))[
        "machines"
    ]
    assert (other["ours"], other["vgpus"]) == (False, [])


def test_a_look_every_ten_seconds_costs_little(site: Site) -> None:
    """A hundred machines, without the driver's own time: well below the second that a tick may take of it."""
    domains = [domain(name_uuid(str(number)), f"vm-{number}", marked=SHARE) for number in range(100)]
    counted = tuple(DomainStatistics(each.name, each.uuid, 1) for each in domains)
    began = time.monotonic()
    assert len(used(site, FakeHypervisor(*domains, counted=counted))["machines"]) == 100
    assert time.monotonic() - began < 2
