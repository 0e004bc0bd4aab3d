"""What a tick costs on a host where nothing changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

from tests.bench.bookings import milliseconds
from tests.bench.result import Result, at_most


def apply_nothing() -> Iterator[Result]:
    """`vmctl apply` with nothing to do on a simulated host, the whole process, beside `virsh list`."""
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder)
        settings = {
            "VMCTL_STATE_DIR": str(state / "state"),
            "VMCTL_STORAGE_DIR": str(state / "storage"),
            "VMCTL_IMAGES_DIR": os.environ["IMAGES_DIR"],
            "VMCTL_RUN_DIR": os.environ["RUN_DIR"],
            "VMCTL_NETWORK": os.environ["GUEST_NETWORK"],
            "VMCTL_HOST": "bench",
            "VMCTL_ROOT": str(state / "root"),
            "VMCTL_SIMULATE": "a40",
        }
        desired = {"schema": 1, "portal": str(uuid.uuid4()), "host": "bench", "generation": 1, "machines": []}
        desired |= {"stop_grace_seconds": 60, "expire_allowance_seconds": 900, "confirmed_stops": [], "purge": []}

        def apply() -> None:
            subprocess.run(
                [sys.executable, "-m", "vmctl", "apply", "--json"],
                input=json.dumps(desired).encode(),
                env=os.environ | settings,
                check=True,
                stdout=subprocess.DEVNULL,
                timeout=60,
            )

        apply()  # the first makes the tree and tries KVM
        ours = milliseconds(apply, rounds=10)
    listing = ["virsh", "-c", os.environ["LIBVIRT_URI"], "list", "--all"]
    virsh = milliseconds(lambda: subprocess.run(listing, check=True, capture_output=True, timeout=60), rounds=10)
    yield at_most("apply_nothing", ours, "ms", virsh, "ms for virsh list --all", 80)
