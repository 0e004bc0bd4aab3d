"""What a report means for the leases that were sent with it. Pure.

The rule above all others: what a host could not tell is never read as "there is nothing". A report with anything
unknown may show that a machine runs; it never ends a reservation and never frees a share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from portal.bookings.states import Status
from portal.enforcement.desired import Lease
from portal.enforcement.elsewhere import stands
from portal.enforcement.report import Report, SeenMachine, SeenVGPU, Step

UP = frozenset({"running"})
MACHINE_STATES = {"running": "running", "stopping": "stopping", "off": "off"}  # all others: something is odd


@dataclass(frozen=True)
class Held:
    """A holding to be stored: something observed on a GPU that no booking accounts for now."""

    vgpu: SeenVGPU
    kind: str  # foreign | overdue | stuck | misplaced
    detail: str


@dataclass(frozen=True)
class Verdict:
    """What to record for one lease. error: why its start or end did not work, "" when nothing is wrong."""

    lease: Lease
    up: bool
    gone: bool
    confirmed_end: datetime | None
    state: str
    error: str


def judge(report: Report, leases: Sequence[Lease]) -> list[Verdict]:
    """One verdict per lease, in the order given."""
    seen = {machine.machine: machine for machine in report.machines}
    return [_judge(report, lease, seen.get(lease.machine)) for lease in leases]


def _judge(report: Report, lease: Lease, machine: SeenMachine | None) -> Verdict:
    mine = machine is not None and machine.reservation == lease.reservation
    return Verdict(
        lease=lease,
        up=machine is not None and mine and machine.state in UP and machine.console,
        gone=machine is None and is_released(report, lease),
        confirmed_end=machine.end if machine is not None and mine else None,
        state=machine_state(report, machine),
        error=first_error(report.steps, lease.machine)
        or (doubt(report, lease) if lease.status == Status.ENDING else ""),
    )


def is_released(report: Report, lease: Lease) -> bool:
    """Is nothing of the lease left on the host: no vGPU of its tiles, and no disk where the machine was disposable?"""
    if doubt(report, lease):
        return False
    tiles = {tile.uuid for tile in lease.tiles}
    if any(vgpu.uuid in tiles or vgpu.machine == lease.machine for vgpu in report.vgpus):
        return False
    return not lease.disposable or all(disk.machine != lease.machine for disk in report.disks)


def doubt(report: Report, lease: Lease) -> str:
    """Why the host's lists cannot be believed for this lease, as a sentence; "" when they can."""
    return "" if report.complete else f"The host cannot tell what is left of it ({'; '.join(report.unknown)})."


def machine_state(report: Report, machine: SeenMachine | None) -> str:
    """The machine's state in the portal's words."""
    if machine is None:
        return "off" if report.complete else "unknown"
    return MACHINE_STATES.get(machine.state, "unknown")


def first_error(steps: Iterable[Step], machine: UUID) -> str:
    """What vmctl said about the first step that failed for this machine."""
    for step in steps:
        if step.machine == machine and step.error is not None:
            return " ".join(str(step.error.get(key) or "") for key in ("what", "remedy")).strip()
    return ""


def holdings(report: Report, leases: Sequence[Lease], now: datetime) -> list[Held]:
    """vGPUs on the host that no lease accounts for now: somebody else's, past their end, left behind, or misplaced."""
    owners = {tile.uuid: (lease, tile) for lease in leases for tile in lease.tiles}
    running = {machine.machine for machine in report.machines}
    found = []
    for vgpu in report.vgpus:
        lease, tile = owners.get(vgpu.uuid, (None, None)) if vgpu.uuid else (None, None)
        if vgpu.ours is False or (vgpu.ours is None and lease is None):
            found.append(Held(vgpu, "foreign", f"{vgpu.type or vgpu.device} is not one of this portal's vGPUs."))
        elif lease is None or lease.status == Status.ENDING or lease.end <= now:
            found.append(_left(vgpu, vgpu.machine in running))
        elif tile is not None and not stands(vgpu, tile):
            what = f"{vgpu.type} of a booking was made here instead of on {tile.address}, and this place is booked."
            found.append(Held(vgpu, "misplaced", f"{what} End one of the two bookings."))
    return found


def _left(vgpu: SeenVGPU, running: bool) -> Held:
    if running:
        return Held(vgpu, "overdue", f"{vgpu.type}: its machine still runs after the end of the booking.")
    return Held(vgpu, "stuck", f"{vgpu.type}: its machine is off, but the vGPU is not given back yet.")


def drift(report: Report, asked: datetime, answered: datetime) -> float:
    """By how many seconds the host's clock differs from the database's; between question and answer it does not."""
    if report.observed_at < asked:
        return (report.observed_at - asked).total_seconds()
    return max(0.0, (report.observed_at - answered).total_seconds())


def misfit(report: Report, *, host: str, portal: UUID, generation: int) -> str:
    """Why this report is not an answer to our question, as a sentence; "" when it is."""
    expected: Mapping[str, tuple[object, object]] = {
        "host": (report.host, host),
        "portal": (report.portal, portal),
        "generation": (report.generation, generation),
    }
    for word, (got, wanted) in expected.items():
        if got != wanted:
            return f"The answer names {word} {got}, but was asked of {wanted}."
    return ""
