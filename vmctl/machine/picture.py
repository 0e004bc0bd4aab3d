"""Whether a vGPU's picture can be on the machine's console.  Pure.

Where it can, the console goes on when the guest's driver takes over; else it is that of the boot.
"""

import re
from collections.abc import Iterable, Sequence

from vmctl.card import ProvidedVGPU
from vmctl.errors import VmctlError
from vmctl.model import Attachment, MediatedDevice, PCIFunction

WITH_SCREEN = re.compile(r".*-[0-9]+[QB][0-9]*")
"""NVIDIA's types for desktops. Intel's need OpenGL on the host for it; A and C types have no screen of their own."""
FUNCTIONS_SINCE = (10, 3, 0)
"""libvirt's first release with a picture of a PCI device; mediated devices have had theirs since 5.10 (dossier 6.1)."""
REFUSED = re.compile(r"display method|vfio-display|ramfb", re.IGNORECASE)


def shown(
    provided: Iterable[ProvidedVGPU], attachments: Sequence[Attachment], libvirt: tuple[int, ...]
) -> Attachment | None:
    """The one device of a machine whose picture its console shows; None: none can be."""
    with_screen = {vgpu.uuid for vgpu in provided if WITH_SCREEN.fullmatch(vgpu.type)}
    for attachment in attachments:
        able = isinstance(attachment, MediatedDevice) or (
            isinstance(attachment, PCIFunction) and libvirt >= FUNCTIONS_SINCE
        )
        if able and attachment.uuid in with_screen:
            return attachment
    return None


def is_refused(error: VmctlError) -> bool:
    """Whether a start failed only because the device has no picture that QEMU could show."""
    return REFUSED.search(error.what) is not None
