"""From what a host says when something fails to what it means. Several texts name a reason that is not the reason."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from vmctl.diagnosis.failures import FAILURES, Failure
from vmctl.diagnosis.licences import LICENCE_FAILURES
from vmctl.errors import VmctlError
from vmctl.host import Host

KNOWN = FAILURES + LICENCE_FAILURES
LOG_SECONDS = 2.0
"""For each of two logs: a start that failed is told of late, not never."""
LINES = 60
QEMU_LINES = 20
SHOWN = 3
UNITS = ("nvidia-vgpu-mgr", "nvidia-vgpud")
QEMU_LOG = "/var/log/libvirt/qemu"
NAME = re.compile(r"[\w.+-]+")
TROUBLE = re.compile(r"error|fail|NVRM|refus|denied", re.IGNORECASE)
HARMLESS = re.compile(r"Could not enable error recovery for the device")
"""What QEMU says of every device that does not tell of its own errors, mediated ones among them."""


@dataclass(frozen=True)
class Diagnosis:
    """What one text means. `row`: of the dossier's table 9, None: from elsewhere in it; `said`: the line itself."""

    row: int | None
    said: str
    cause: str
    advice: str


def diagnose(text: str) -> tuple[Diagnosis, ...]:
    """Every known trouble in a text, in its order, each once; misleading ones only where nothing better is known."""
    found = sorted(_found(text), key=lambda each: each[0])
    sure = [each for each in found if not each[1].misleading]
    seen: dict[str, Diagnosis] = {}
    for _, failure, diagnosis in sure or found:
        seen.setdefault(failure.pattern, diagnosis)
    return tuple(seen.values())


def _found(text: str) -> Iterator[tuple[int, Failure, Diagnosis]]:
    for failure in KNOWN:
        match = re.search(failure.pattern, text, re.MULTILINE)
        if match is not None:
            groups = match.groupdict()
            diagnosis = Diagnosis(
                failure.row, _line(text, match.start()), failure.cause.format(**groups), failure.advice.format(**groups)
            )
            yield match.start(), failure, diagnosis


def _line(text: str, position: int) -> str:
    """The line in which a position lies."""
    end = text.find("\n", position)
    return text[text.rfind("\n", 0, position) + 1 : end if end >= 0 else len(text)].strip()


def explained(host: Host, error: VmctlError, since: datetime, domain: str = "") -> VmctlError:
    """The same error with what the host's logs say of it; unchanged where they say nothing known.

    Where nothing is known, the last lines that look like trouble are shown as they are.
    """
    logs = evidence(host, since, domain)
    found = diagnose("\n".join((error.what, *logs)))
    if found:
        causes = " ".join(each.cause for each in found[:SHOWN])
        return replace(error, what=f"{error.what} {causes}", remedy=" ".join(each.advice for each in found[:SHOWN]))
    shown = [line for line in logs if TROUBLE.search(line) and not HARMLESS.search(line)][-SHOWN:]
    return replace(error, what=f"{error.what} The host's logs: {' / '.join(shown)}.") if shown else error


def evidence(host: Host, since: datetime, domain: str = "") -> tuple[str, ...]:
    """What the kernel, the vGPU manager and QEMU logged since then: the last lines of each. Raises nothing.

    Takes at most about 4 s. A log that is missing or may not be read adds nothing.
    """
    units = [word for unit in UNITS for word in ("-u", unit)]
    return (
        *_journal(host, ["-k"], since),
        *_journal(host, units, since),
        *(_qemu(host, domain) if NAME.fullmatch(domain) else ()),
    )


def _journal(host: Host, which: Sequence[str], since: datetime) -> list[str]:
    options = ["--no-pager", "--quiet", "--output=cat", f"--lines={LINES}", f"--since=@{int(since.timestamp())}"]
    try:
        answer = host.run(["journalctl", *which, *options], limit=LOG_SECONDS)
    except VmctlError:
        return []
    return answer.output.splitlines()[-LINES:] if answer.status == 0 else []


def _qemu(host: Host, domain: str) -> list[str]:
    """The lines of the domain's last start."""
    lines = (host.read_or_none(host.path(f"{QEMU_LOG}/{domain}.log")) or "").splitlines()
    starts = [number for number, line in enumerate(lines) if ": starting up libvirt version" in line]
    return lines[starts[-1] + 1 if starts else 0 :][-QEMU_LINES:]
