"""Makes the lab a host of the portal that `make run` runs in this checkout."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from tests.lab.cache import CHECKOUT
from tests.lab.errors import LabError
from tests.lab.machine import Lab

NAME = "lab"
SECONDS = 120
TRIES = 3
NO_PORTAL = (
    "No portal of this checkout runs: start `make run` in another terminal, then `make lab` again adds it there."
)
STAYS = f"The portal keeps the host {NAME} with its bookings; `manage.py remove_host {NAME}` takes it out."


def join(lab: Lab) -> str:
    """Let the portal's keys in and add the lab as a host, or tell the portal its new place; gives what there is to say.

    Raises LabError where the portal refuses.
    """
    keys = _manage("ssh_keys", "--host", NAME)
    if keys is None:
        return NO_PORTAL
    known = "~/.ssh/authorized_keys"
    for line in keys.splitlines():
        lab.shell(f"grep -qxF '{line}' {known} || echo '{line}' >>{known}")
    place = ["--ssh", f"root@127.0.0.1:{lab.port}", "--fingerprint", lab.keys.host_fingerprint]
    try:
        return _manage("change_host", NAME, *place, "--enable") or NO_PORTAL
    except LabError as error:
        if f"There is no host {NAME}" not in str(error):
            raise
    return _added(place) or NO_PORTAL


def _added(place: Sequence[str]) -> str | None:
    """As `_manage`; on a busy machine the first call may take longer than the portal waits."""
    for tries_left in range(TRIES - 1, -1, -1):
        try:
            return _manage("add_host", NAME, *place, "--simulated-gpus")
        except LabError:
            if not tries_left:
                raise
    return None


def _manage(*words: str) -> str | None:
    """What a command of the running portal's manage.py prints; None: no portal runs. Raises LabError."""
    inside = [sys.executable, "-m", "scripts.stack", "inside", "--", sys.executable, "manage.py", *words]
    try:
        done = subprocess.run(
            inside, cwd=CHECKOUT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        raise LabError(f"manage.py {words[0]} was not done in {SECONDS} s. Is the machine very busy?") from None
    if done.returncode and "Nothing of this checkout runs" in done.stderr:
        return None
    if done.returncode:
        raise LabError(f"manage.py {words[0]}: {done.stderr.strip()}")
    return done.stdout.strip()
