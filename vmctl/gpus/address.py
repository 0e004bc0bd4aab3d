"""PCI addresses: every tool writes them in its own way, inside vmctl there is one (as sysfs writes it)."""

import re

# sysfs 0000:3b:00.0 and (VMD) 10001:80:05.0, nvidia-smi 00000000:3B:00.0, libvirt pci_0000_3b_00_0, lspci 3b:00.0.
FORMS = re.compile(r"(?:pci_)?(?:([0-9a-f]{4,8})[:_])?([0-9a-f]{2})[:_]([01][0-9a-f])[._]([0-7])", re.IGNORECASE)


def normalise(text: str) -> str:
    """An address in any of the usual forms as sysfs writes it: lower case, a domain of four digits or more.

    Raises ValueError when it is none.
    """
    found = FORMS.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no PCI address")
    domain, bus, slot, function = found.groups(default="0")
    return f"{int(domain, 16):04x}:{bus}:{slot}.{function}".lower()
