"""Makers of desired states and observations; what a test does not name is a plain, valid value."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from vmctl.card import GPU, Framework, Mode, Policy, ProvidedVGPU, Regime, Scheduler, VFs
from vmctl.model import Accelerator, DesiredMachine, DesiredState
from vmctl.observation import Capacity, MachineState, Mark, MarkedVGPU, Observation, ObservedMachine
from vmctl.plan import desired

NOW = datetime(2026, 12, 1, 10, 0, tzinfo=UTC)
PORTAL = "11111111-1111-4111-8111-111111111111"
OTHER_PORTAL = "22222222-2222-4222-8222-222222222222"
HOST = "sim-t4"
GPU_ADDRESS = "0000:3b:00.0"
PASSWORD_HASH = "$6$salt$abcdefghijklmnopqrstuvwxyz./ABCDEFGHIJ"

Json = dict[str, Any]


def name_uuid(name: str) -> str:
    """The same uuid for the same name, so that a failing test can be read."""
    return str(uuid5(NAMESPACE_OID, name))


def vgpu(name: str, **other: Any) -> Json:
    """A wanted vGPU; those of a, b, c and so on lie side by side."""
    usual = {"type": "T4-4Q", "regime": "equal", "alternatives": []}
    number = ord(name[-1]) - ord("a") if name[-1:].isalpha() else 0
    return {"uuid": name_uuid(f"vgpu {name}")} | place(cell=[number, number + 1]) | usual | other


def place(**other: Any) -> Json:
    """Where on which card."""
    return {"gpu": GPU_ADDRESS, "cell": [0, 1], "handle": 0, "slot": [0, 1]} | other


def settings(gpu: str = GPU_ADDRESS, **other: Any) -> Json:
    """How a card should be set: in nothing, but for what is named."""
    return {"gpu": gpu, "regime": None, "vfs": None, "scheduler": None, "ecc": None, "types": None} | other


def machine(name: str = "a", *, now: datetime = NOW, minutes: float = 60, **other: Any) -> Json:
    """A machine that should run from an hour ago until `minutes` from now."""
    return {
        "machine": name_uuid(f"machine {name}"),
        "reservation": name_uuid(f"reservation {name}"),
        "order": "run",
        "start": (now - timedelta(hours=1)).isoformat(),
        "end": (now + timedelta(minutes=minutes)).isoformat(),
        "promised": None,
        "force_at": None,
        "hostname": f"ada-{name}",
        "vcpus": 1,
        "memory_mib": 64,
        "disk_gib": 1,
        "image": "demo",
        "vgpus": [],
        "seed": {
            "owner": "ada",
            "user": "user",
            "password_hash": PASSWORD_HASH,
            "ssh_keys": [],
            "period": "2026-12-01 10:00-12:00 CET",
            "vgpu": "T4-4Q (simulated)",
            "licence": None,
        },
        "firmware": "bios",
        "tpm": False,
    } | other


def document(*machines: Json, **other: Any) -> Json:
    """A desired state as the portal sends it."""
    return {
        "schema": 1,
        "portal": PORTAL,
        "host": HOST,
        "generation": 1,
        "stop_grace_seconds": 60,
        "expire_allowance_seconds": 900,
        "confirmed_stops": [],
        "purge": [],
        "machines": list(machines),
        "cards": [],
    } | other


def state(*machines: Json, **other: Any) -> DesiredState:
    """A desired state, parsed."""
    return desired.parse(json.dumps(document(*machines, **other)))


def wish(name: str = "a", **other: Any) -> DesiredMachine:
    """One desired machine, parsed."""
    return state(machine(name, **other)).machines[0]


def observed(*machines: ObservedMachine, **other: Any) -> Observation:
    """A host as it might be."""
    usual: Json = {
        "host": HOST,
        "observed_at": NOW,
        "simulated": True,
        "accelerator": Accelerator(False, "qemu", "There is no /dev/kvm."),
        "capacity": Capacity(2, 4096, 10000),
        "machines": machines,
    }
    return Observation(**usual | other)


def running(name: str = "a", *, minutes: float = 60, asked: datetime | None = None, **other: Any) -> ObservedMachine:
    """A machine of ours that runs, told to end `minutes` from now."""
    mark = Mark(
        portal=PORTAL,
        host=HOST,
        machine=name_uuid(f"machine {name}"),
        reservation=name_uuid(f"reservation {name}"),
        end=NOW + timedelta(minutes=minutes),
        asked=asked,
        vgpus=other.pop("marked", ()),
    )
    state_now = MachineState.STOPPING if asked else MachineState.RUNNING
    usual: Json = {"machine": mark.machine, "name": f"ada-{name}-{mark.machine[:8]}", "state": state_now, "mark": mark}
    return ObservedMachine(**usual | other)


def card(*holders: ProvidedVGPU, **other: Any) -> GPU:
    """A GPU with these shares on it."""
    usual: Json = {"regime": Regime.EQUAL, "regimes": (Regime.EQUAL,), "holders": holders}
    return GPU(GPU_ADDRESS, "Tesla T4", "NVIDIA", "1eb8", Framework.MDEV_PF, **usual | other)


def a40(**other: Any) -> GPU:
    """A card whose vGPUs lie on virtual functions, as its driver shows it when nothing was set."""
    usual: Json = {
        "model": "NVIDIA A40",
        "framework": Framework.VENDOR_VFIO,
        "driver": "nvidia",
        "vfs": VFs(32, 32, 32),
        "mig": Mode(False, False),
        "mixed": False,
        "scheduler": Scheduler(Policy.BEST_EFFORT),
        "ecc": Mode(False, False),
        "regimes": (Regime.EQUAL, Regime.WHOLE),
    }
    return replace(card(), **usual | other)


def share(name: str, holder: str | None = None, **other: Any) -> ProvidedVGPU:
    """A share that exists."""
    usual: Json = {
        "uuid": name_uuid(f"vgpu {name}"),
        "gpu": GPU_ADDRESS,
        "type": "T4-4Q",
        "framework": Framework.MDEV_PF,
        "parent": GPU_ADDRESS,
        "size_group": "4G",
        "holder": holder,
    }
    return ProvidedVGPU(**usual | other)


def marked(name: str) -> MarkedVGPU:
    """A vGPU as a mark remembers it."""
    return MarkedVGPU(name_uuid(f"vgpu {name}"), GPU_ADDRESS, "T4-4Q")
