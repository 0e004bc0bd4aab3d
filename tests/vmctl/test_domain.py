"""Domain XML: a person can read it, nothing can be smuggled in, and what it claims can be read back."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vmctl.build import NOW, machine, marked, name_uuid, running, state, vgpu
from vmctl import mark
from vmctl.machine import domain
from vmctl.machine.board import Pinning
from vmctl.model import Attachment, Firmware, MediatedDevice, PCIFunction, StandInVideo
from vmctl.observation import Mark, Screen
from vmctl.plan import reconcile

WIRING = domain.Wiring("tessera", "52:54:00:01:02:03", "10.0.0.7", "10.0.0.1", "10.0.0.0", "255.255.255.0")
ATTACHMENTS: dict[str, tuple[Attachment, ...]] = {
    "simulated": (StandInVideo(name_uuid("vgpu a"), "simulated vGPU"),),
    "mediated": (MediatedDevice(name_uuid("vgpu a")),),
    "function": (PCIFunction(name_uuid("vgpu a"), "0001:41:00.4"),),
    "whole": tuple(PCIFunction(name_uuid("vgpu a"), f"0000:41:00.{function}") for function in range(4)),
    "two": (MediatedDevice(name_uuid("vgpu a")), MediatedDevice(name_uuid("vgpu b"))),
    "plain": (),
}


def blueprint(attachments: tuple[Attachment, ...] = (), domain_type: str = "qemu") -> domain.Blueprint:
    wanted = state(machine("a", vgpus=[vgpu("a")]))
    folder = Path("/storage/a")
    return domain.Blueprint(
        machine=wanted.machines[0],
        mark=reconcile.mark(wanted, wanted.machines[0]),
        domain_type=domain_type,
        disk=folder / "disk.qcow2",
        image=Path("/images/demo.qcow2"),
        seed=folder / "seed.iso",
        serial=folder / "serial.log",
        console=Path("/run/console/a.sock"),
        wiring=WIRING,
        attachments=attachments,
        nvram=folder / "nvram-uefi.fd",
    )


@pytest.mark.parametrize("kind", ATTACHMENTS)
def test_each_way_of_attaching(kind: str, golden: Callable[[str, str], None]) -> None:
    golden(domain.render(blueprint(ATTACHMENTS[kind])), f"domain/{kind}.xml")


@pytest.mark.parametrize("kind", ["mediated", "function", "two"])
def test_one_vgpu_shows_its_picture_and_the_boot_consoles_card_is_gone(
    kind: str, golden: Callable[[str, str], None]
) -> None:
    plan = blueprint(ATTACHMENTS[kind])
    shown = domain.render(replace(plan, shows=plan.attachments[0]))
    golden(shown, f"domain/{kind}-shown.xml")
    assert domain.read_screen(shown) is Screen.VGPU
    assert len(ET.fromstring(shown).findall("devices/hostdev[@display='on']")) == 1


@pytest.mark.parametrize(("kind", "screen"), [("mediated", "boot"), ("whole", "boot"), ("simulated", "vgpu")])
def test_where_no_vgpu_shows_its_picture_the_console_is_that_of_the_boot(kind: str, screen: str) -> None:
    assert domain.read_screen(domain.render(blueprint(ATTACHMENTS[kind]))) == screen


@pytest.mark.parametrize(("firmware", "tpm"), [("uefi", False), ("uefi-secure", True)])
@pytest.mark.parametrize("kind", ["qemu", "kvm"])
def test_each_firmware(kind: str, firmware: str, tpm: bool, golden: Callable[[str, str], None]) -> None:
    plan = blueprint(domain_type=kind)
    board = replace(plan.machine, firmware=Firmware(firmware), tpm=tpm)
    golden(domain.render(replace(plan, machine=board)), f"domain/{firmware}-{kind}.xml")


def test_on_a_node_processors_and_memory_are_the_nodes(golden: Callable[[str, str], None]) -> None:
    plan = blueprint(ATTACHMENTS["mediated"])
    golden(domain.render(replace(plan, pinning=Pinning(1, "8-15,24-31"))), "domain/node.xml")


def test_on_kvm_the_type_is_said_and_the_cpu_is_the_hosts(golden: Callable[[str, str], None]) -> None:
    golden(domain.render(blueprint(domain_type="kvm")), "domain/kvm.xml")


@pytest.mark.parametrize("kind", ATTACHMENTS)
def test_a_claim_can_be_read_back(kind: str) -> None:
    claims = domain.read_claims(domain.render(blueprint(ATTACHMENTS[kind])))
    devices = [each for each in ATTACHMENTS[kind] if not isinstance(each, StandInVideo)]
    expected = {each.uuid for each in ATTACHMENTS[kind]}
    assert claims == expected.union(*(device.claims for device in devices))


@pytest.mark.field("B05")
def test_a_function_in_another_pci_domain_keeps_it() -> None:
    (address,) = ET.fromstring(domain.render(blueprint(ATTACHMENTS["function"]))).findall(
        "devices/hostdev/source/address"
    )
    assert address.attrib == {"domain": "0x0001", "bus": "0x41", "slot": "0x00", "function": "0x4"}


def test_claims_of_domains_that_others_made() -> None:
    xml = """<domain><devices>
      <hostdev type='mdev'><source><address uuid='4B20D080-1B54-4048-85B3-A6A62D165C01'/></source></hostdev>
      <hostdev type='pci'><source><address domain='0x0000' bus='0x3b' slot='0x00' function='0x0'/></source></hostdev>
      <hostdev type='usb'><source><vendor id='0x1234'/><address bus='1' device='2'/></source></hostdev>
      <interface type='hostdev'><source><address type='pci' domain='0x2711' bus='0x80' slot='0x05' function='0x1'/>
      </source></interface></devices></domain>"""
    assert domain.read_claims(xml) == {"4b20d080-1b54-4048-85b3-a6a62d165c01", "0000:3b:00.0", "2711:80:05.1"}


def test_the_address_is_read_from_the_filter() -> None:
    assert domain.read_address(domain.render(blueprint())) == "10.0.0.7"
    assert domain.read_address("<domain><devices/></domain>") is None


@pytest.mark.field("G08")
@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=30))
def test_no_text_can_add_an_element(text: str) -> None:
    plan = blueprint(ATTACHMENTS["simulated"])
    hostile = replace(
        plan,
        machine=replace(plan.machine, hostname=text),
        mark=replace(plan.mark, reservation=text),
        wiring=replace(WIRING, network=text),
    )
    shape = [element.tag for element in ET.fromstring(domain.render(plan)).iter()]
    assert [element.tag for element in ET.fromstring(domain.render(hostile)).iter()] == shape


@given(st.sampled_from([None, NOW]), st.sampled_from([None, NOW + timedelta(days=1)]), st.booleans())
def test_a_mark_comes_back_as_it_was(asked: datetime | None, promised: datetime | None, with_share: bool) -> None:
    plain = running("a").mark
    written = replace(plain, asked=asked, promised=promised, vgpus=(marked("a"),) if with_share else ())
    assert mark.read(domain.render(replace(blueprint(), mark=written))) == written


def test_a_domain_without_a_mark_has_none() -> None:
    assert mark.read("<domain><metadata><x xmlns='y'/></metadata></domain>") is None


@pytest.mark.parametrize("wrong", ["", "end='x'", "end='2026-12-01T10:00:00'"])
def test_a_broken_mark_is_an_error_not_a_none(wrong: str) -> None:
    xml = f"<domain><metadata><m:mark xmlns:m='{mark.NAMESPACE}' portal='p' host='h' {wrong}/></metadata></domain>"
    with pytest.raises(ValueError, match="mark"):
        mark.read(xml)


def test_the_mark_for_libvirt_brings_no_namespace() -> None:
    """libvirt puts it on, and refuses one that is there."""
    written: Mark = running("a").mark
    assert "xmlns" not in mark.to_xml(written)
