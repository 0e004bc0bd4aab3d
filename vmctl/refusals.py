"""What to do about what libvirt says.  Pure.

The causes that lie deeper, in QEMU, the kernel or the GPU's driver, are diagnosis's.
"""

import re
from collections.abc import Iterable

from vmctl import firewall

REMEDIES = (
    (firewall.REFUSED, "Another program changes the firewall at the same time; see which, or wait."),
    (r"Cannot access storage file", "Put vmctl's storage folder where QEMU's user may enter every folder above it."),
    (r"in use by driver QEMU", "Wait until the other machine is off."),
    (r"Failed to bind socket|Unable to bind|VNC server", "Let QEMU's user write into the console folder of --run-dir."),
    (r"cannot set up guest memory|Cannot allocate memory", "Free memory on the host, or give the machine less."),
    (r"could not find capabilities|invalid argument: KVM|Emulator .* does not support", "Run vmctl check."),
    (r"already exists|already defined|already active", "Rename or remove the other domain; vmctl does not touch it."),
    (r"cannot acquire state change lock", "Wait; if it stays, look at that machine's QEMU process."),
    (
        r"firmware that is compatible|UEFI",
        "Install a UEFI for QEMU on the host (Debian: ovmf), or choose another image.",
    ),
    (r"swtpm|TPM", "Install swtpm and swtpm-tools on the host, or choose an image without a TPM."),
)
UNREACHABLE = (
    (r"Permission denied|[Aa]uthenticat|polkit|[Aa]ccess denied", "Run vmctl as root, or join the group libvirt."),
    (r"Failed to connect socket", "Start libvirtd, or virtqemud; vmctl check tells how."),
)
HUNG = "Start libvirtd, or see why it hangs; one that has just started first writes the rules of all its machines."
OTHERWISE = "Read libvirtd's log on the host; vmctl check may tell more."


def remedy(text: str) -> str:
    """The advice for a message of libvirt's."""
    return _first(REMEDIES, text, OTHERWISE)


def way_to_libvirt(text: str) -> str:
    """The advice where no connection came about."""
    return _first(UNREACHABLE, text, HUNG)


def _first(remedies: Iterable[tuple[str, str]], text: str, otherwise: str) -> str:
    return next((remedy for pattern, remedy in remedies if re.search(pattern, text)), otherwise)
