"""The type that a virtual function bears by the vendor's own VFIO interface (dossier 1.3)."""

from __future__ import annotations

import os

from vmctl.errors import Code, VmctlError
from vmctl.gpus.cards import VENDOR_TYPES
from vmctl.host import Host

CURRENT = "nvidia/current_vgpu_type"
NOTHING = "0"


def current(host: Host, address: str) -> str | None:
    """The number of the type that a function has now; None: it has none, or no such interface.

    Raises VmctlError where that cannot be told.
    """
    folder = host.pci(address)
    try:
        said = host.read(folder / CURRENT).strip()
    except FileNotFoundError:
        if not any(os.path.lexists(folder / name) for name in (CURRENT, VENDOR_TYPES)):
            return None
        said = "nothing"
    except OSError as error:
        said = error.strerror or str(error)
    if not said.isdecimal():
        what = f"Whether there is a vGPU on {address} cannot be told: {CURRENT} says {said[:60]!r}."
        raise VmctlError(Code.COULD_NOT_TELL, what, "Run vmctl check on the host.", retry=True)
    return None if int(said) == 0 else said
