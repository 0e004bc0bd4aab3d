"""One address for one card, whoever printed it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vmctl.gpus import normalise

PARTS = st.tuples(
    st.integers(0, 0xFFFFF), st.integers(0, 0xFF), st.integers(0, 0x1F), st.integers(0, 7)
)  # five digits of domain: VMD


@pytest.mark.field("A22")
@pytest.mark.field("B05")
@given(PARTS)
def test_every_tool_means_the_same_card(parts: tuple[int, int, int, int]) -> None:
    domain, bus, slot, function = parts
    sysfs = f"{domain:04x}:{bus:02x}:{slot:02x}.{function}"
    smi = f"{domain:08X}:{bus:02X}:{slot:02X}.{function}"
    libvirt = f"pci_{domain:04x}_{bus:02x}_{slot:02x}_{function}"
    assert normalise(sysfs) == normalise(smi) == normalise(libvirt) == sysfs


@given(PARTS)
def test_normalising_twice_changes_nothing(parts: tuple[int, int, int, int]) -> None:
    domain, bus, slot, function = parts
    once = normalise(f"{domain:x}:{bus:02x}:{slot:02x}.{function}".rjust(12, "0"))
    assert normalise(once) == once


def test_a_short_address_is_of_domain_zero() -> None:
    assert normalise("3b:00.0") == "0000:3b:00.0"


@pytest.mark.parametrize(
    "text", ["", "3b:00", "0000:3b:00.8", "0000:3b:20.0", "GPU-1234", "mtty", "0000:3b:00.0/../.."]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no PCI address"):
        normalise(text)
