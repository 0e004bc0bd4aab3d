"""The doctor: single facts about a host, each with its verdict, where it was read, and what to do. Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from vmctl import gpus, observe
from vmctl.checks import cards, kernel, system
from vmctl.checks.finding import Evidence, Finding, Verdict
from vmctl.errors import Exit, VmctlError
from vmctl.hypervisor import connect
from vmctl.site import Site

__all__ = ["Evidence", "Finding", "Verdict", "document", "exit_status", "run"]


def run(site: Site, now: datetime) -> list[Finding]:
    """Every check, whatever the others say. Raises nothing that concerns the host."""
    host, found = site.host, gpus.inventory(site.host)
    return [
        kernel.iommu(host, found),
        kernel.vfio(host, found),
        *cards.drivers(host, found),
        system.virtualisation(host),
        *_through_libvirt(site, now),
        system.disk(site),
        system.clock(host),
    ]


def exit_status(findings: Sequence[Finding]) -> int:
    """Any fail: failed; else any unknown: could not tell; else done. Warnings are fine."""
    verdicts = {finding.verdict for finding in findings}
    if Verdict.FAIL in verdicts:
        return Exit.FAILED
    return Exit.COULD_NOT_TELL if Verdict.UNKNOWN in verdicts else Exit.DONE


def document(site: Site, findings: Sequence[Finding], now: datetime) -> dict[str, object]:
    """The JSON of `vmctl check --json`."""
    return {
        "schema": 1,
        "host": site.host.name,
        "checked_at": now.isoformat(),
        "simulated": site.host.simulated,
        "findings": [finding.to_json() for finding in findings],
    }


def _through_libvirt(site: Site, now: datetime) -> list[Finding]:
    """What only libvirt can tell: whether it answers, and which vGPUs no domain names."""
    try:
        with connect(site.libvirt_uri) as hypervisor:
            version = hypervisor.version()
            seen = observe.observe(site, hypervisor, None, now)
    except VmctlError as error:
        unknown = Finding("leftovers", Verdict.UNKNOWN, (Evidence(site.libvirt_uri, error.what),), error.remedy)
        return [system.libvirt(site.libvirt_uri, error), unknown]
    return [system.libvirt(site.libvirt_uri, version), cards.leftovers(seen.vgpus)]
