"""The time slices that vmctl set: a driver tells them only while a vGPU runs, and takes them only while none does.

A note holds for one boot of the host and with the policy that it was set with; what the driver tells goes before it.
"""

from __future__ import annotations

import json
from pathlib import Path

from vmctl.card import Scheduler
from vmctl.gpus.driver.answers import DriverFacts
from vmctl.host import Host
from vmctl.state import write_atomically

BOOT_ID = "/proc/sys/kernel/random/boot_id"

Notes = dict[str, dict[str, object]]


def scheduler(host: Host, address: str, told: DriverFacts) -> Scheduler | None:
    """How the vGPUs of a card share its time: as the driver tells, with the slice that was set last."""
    found = told.scheduler
    if found is None or found.time_slice_us is not None:
        return found
    noted = _notes(host).get(address, {})
    time_slice = noted.get("time_slice_us")
    if noted != _note(host, found, time_slice) or not isinstance(time_slice, int):
        return found
    return Scheduler(found.policy, time_slice)


def remember(host: Host, address: str, wanted: Scheduler) -> None:
    """Note that the driver took a policy with its slice."""
    _store(host, _notes(host) | {address: _note(host, wanted, wanted.time_slice_us)})


def forget(host: Host, address: str) -> None:
    """What was set is lost: the driver has let go of the card."""
    notes = _notes(host)
    if notes.pop(address, None) is not None:
        _store(host, notes)


def _note(host: Host, wanted: Scheduler, time_slice: object) -> dict[str, object]:
    boot = (host.read_or_none(host.path(BOOT_ID)) or "").strip()
    return {"policy": str(wanted.policy), "time_slice_us": time_slice, "boot": boot}


def _notes(host: Host) -> Notes:
    """Nothing where they are not there or make no sense: then a slice is set once more than need be."""
    try:
        found = json.loads(_path(host).read_text())
        return {address: dict(note) for address, note in found.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _store(host: Host, notes: Notes) -> None:
    write_atomically(_path(host), json.dumps(notes))


def _path(host: Host) -> Path:
    return host.state_dir / "time-slices.json"
