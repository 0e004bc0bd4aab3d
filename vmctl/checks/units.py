"""What systemd tells of its units, by `systemctl show`."""

from __future__ import annotations

from collections.abc import Mapping

from vmctl.checks.look import Look, systemctl
from vmctl.errors import Code, VmctlError

Unit = Mapping[str, str]


def unit(look: Look, name: str) -> Unit:
    """A unit's facts; LoadState is "not-found" for one that is not there. Raises VmctlError where systemd is silent."""
    answer = look.said(systemctl(name))
    found = dict(_pairs(answer.output))
    if "LoadState" not in found:
        said = (answer.errors.strip() or answer.output.strip() or f"status {answer.status}").splitlines()[0].rstrip(".")
        raise VmctlError(
            Code.COULD_NOT_TELL, f"systemctl tells nothing of {name}: {said}.", f"Look at: systemctl status {name}"
        )
    return found


def is_there(found: Unit) -> bool:
    return found.get("LoadState") == "loaded"


def is_active(found: Unit) -> bool:
    return found.get("ActiveState") == "active"


def has_failed(found: Unit) -> bool:
    """Whether systemd has given up on it: after several failed starts within seconds not even its socket is left."""
    return found.get("ActiveState") == "failed"


def is_enabled(found: Unit) -> bool:
    return found.get("UnitFileState") in ("enabled", "enabled-runtime", "static", "alias", "indirect")


def told(found: Unit) -> str:
    """For evidence: "loaded, active (running), enabled"."""
    words = [
        found.get("LoadState"),
        f"{found.get('ActiveState')} ({found.get('SubState')})",
        found.get("UnitFileState"),
    ]
    return ", ".join(word for word in words if word)


def _pairs(text: str) -> list[tuple[str, str]]:
    lines = (line.partition("=") for line in text.splitlines())
    return [(key.strip(), value.strip()) for key, equals, value in lines if equals]
