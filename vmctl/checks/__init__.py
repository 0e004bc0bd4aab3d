"""The doctor: one question, one finding, where it was read, and what to do. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial

from vmctl.checks.finding import HOST, Evidence, Finding, Status, Verdict, not_applicable, unknown
from vmctl.checks.look import Look, look_at
from vmctl.checks.table import CHECKS, CardCheck, Check
from vmctl.errors import Exit, VmctlError
from vmctl.site import Site

__all__ = ["CHECKS", "Evidence", "Finding", "Status", "document", "examine", "exit_status", "run"]


def run(site: Site) -> list[Finding]:
    """Every check, whatever the others say. Raises nothing that concerns the host."""
    return examine(look_at(site))


def examine(seen: Look) -> list[Finding]:
    """What every check makes of one look."""
    return [finding for check in CHECKS for finding in _asked(check, seen)]


def _asked(check: Check | CardCheck, seen: Look) -> Iterator[Finding]:
    if isinstance(check, Check):
        yield _finding(check.id, HOST, partial(check.ask, seen))
        return
    try:
        cards = seen.gpus
    except VmctlError:
        yield _finding(check.id, HOST, partial(_which, seen))
        return
    for gpu in cards:
        yield _finding(check.id, gpu.address, partial(check.ask, seen, gpu))
    if not cards:
        yield _finding(check.id, HOST, partial(_which, seen))


def _which(seen: Look) -> Verdict:
    """Instead of an answer for each card. Raises VmctlError where the cards could not be listed."""
    assert not seen.gpus
    return not_applicable(("/sys/bus/pci/devices", "no NVIDIA, AMD or Intel display function"))


def _finding(name: str, subject: str, ask: Callable[[], Verdict]) -> Finding:
    """A question that could not be answered is `unknown`, with the reason."""
    try:
        answer = ask()
    except VmctlError as error:
        answer = unknown(error.remedy, (name, error.what))
    return Finding(name, subject, answer.status, answer.evidence, answer.remedy)


def exit_status(findings: Sequence[Finding]) -> int:
    """Any fail: failed; else any unknown: could not tell; else done. Warnings are fine."""
    found = {finding.status for finding in findings}
    if Status.FAIL in found:
        return Exit.FAILED
    return Exit.COULD_NOT_TELL if Status.UNKNOWN in found else Exit.DONE


def document(site: Site, findings: Sequence[Finding], now: datetime) -> dict[str, object]:
    """The JSON of `vmctl check --json`."""
    return {
        "schema": 1,
        "host": site.host.name,
        "checked_at": now.isoformat(),
        "simulated": site.host.simulated,
        "findings": [finding.to_json() for finding in findings],
    }
