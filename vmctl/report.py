"""What vmctl answers: the JSON documents of docs/schemas/. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from vmctl import __version__
from vmctl.card import GPU, ProvidedVGPU, Unknown, VGPUType
from vmctl.documents import SCHEMA
from vmctl.errors import VmctlError
from vmctl.observation import Observation, ObservedMachine
from vmctl.state import Memory
from vmctl.steps import Refuse, Step

Json = dict[str, object]


@dataclass(frozen=True)
class Outcome:
    """A step, and how it went; a step of a mere plan is not done and has no error."""

    step: Step
    done: bool = False
    error: VmctlError | None = None

    def to_json(self) -> Json:
        return {
            "kind": self.step.kind,
            "machine": self.step.machine,
            "subject": self.step.subject,
            "done": self.done,
            "error": None if self.error is None else self.error.to_json(),
        }


def planned(steps: Iterable[Step]) -> tuple[Outcome, ...]:
    """Steps that nobody carried out."""
    return tuple(Outcome(step, error=step.error if isinstance(step, Refuse) else None) for step in steps)


def error_json(error: VmctlError) -> Json:
    """The document that stands alone when there is nothing else to say."""
    return {"schema": SCHEMA, "error": error.to_json()}


def report_json(
    observed: Observation,
    memory: Memory | None,
    outcomes: Iterable[Outcome] = (),
    needs_confirmation: Iterable[str] = (),
) -> Json:
    """The report of observe, plan and apply."""
    accelerator, capacity = observed.accelerator, observed.capacity
    return {
        "schema": SCHEMA,
        "vmctl": __version__,
        "host": observed.host,
        "portal": None if memory is None else memory.portal,
        "generation": None if memory is None else memory.generation,
        "observed_at": observed.observed_at.isoformat(),
        "simulated": observed.simulated,
        "accelerator": {
            "kvm": accelerator.kvm,
            "domain_type": accelerator.domain_type,
            "reason": accelerator.reason,
        },
        "capacity": {
            "vcpus": capacity.vcpus,
            "memory_mib": capacity.memory_mib,
            "disk_free_mib": capacity.disk_free_mib,
        },
        "machines": [_machine(machine) for machine in observed.machines],
        "foreign": [
            {
                "name": other.name,
                "uuid": other.uuid,
                "state": other.state.value,
                "claims": sorted(other.claims),
                "trouble": other.trouble,
            }
            for other in observed.foreign
        ],
        "vgpus": [_vgpu(vgpu) | {"ours": vgpu.uuid in observed.ours} for vgpu in observed.vgpus],
        "disks": [{"machine": disk.machine, "mib": disk.mib, "seed": disk.seed} for disk in observed.disks],
        "gpus": [gpu_json(gpu) for gpu in observed.gpus],
        "unknown": _unknown(observed.unknown),
        "steps": [outcome.to_json() for outcome in outcomes],
        "needs_confirmation": sorted(needs_confirmation),
    }


def gpus_json(host: str, now: datetime, simulated: bool, gpus: Iterable[GPU]) -> Json:
    """The document of `vmctl gpus`."""
    return {
        "schema": SCHEMA,
        "host": host,
        "observed_at": now.isoformat(),
        "simulated": simulated,
        "gpus": [gpu_json(gpu) for gpu in gpus],
    }


def gpu_json(gpu: GPU) -> Json:
    """One GPU with its types and the shares on it."""
    return {
        "address": gpu.address,
        "model": gpu.model,
        "vendor": gpu.vendor,
        "device": gpu.device,
        "uuid": gpu.uuid,
        "numa_node": gpu.numa_node,
        "driver": gpu.driver,
        "iommu_group": gpu.iommu_group,
        "iommu_members": list(gpu.iommu_members),
        "framework": gpu.framework.value,
        "sriov": None if gpu.vfs is None else {"total": gpu.vfs.total, "enabled": gpu.vfs.enabled},
        "memory_mib": gpu.memory_mib,
        "handles": gpu.handles,
        "regimes": [regime.value for regime in gpu.regimes],
        "types": [_type(kind) for kind in gpu.types],
        "holders": [_vgpu(vgpu) for vgpu in gpu.holders],
        "unknown": _unknown(gpu.unknown),
    }


def _machine(machine: ObservedMachine) -> Json:
    mark = machine.mark
    return {
        "machine": machine.machine,
        "reservation": mark.reservation,
        "name": machine.name,
        "state": machine.state.value,
        "end": mark.end.isoformat(),
        "promised": None if mark.promised is None else mark.promised.isoformat(),
        "asked": None if mark.asked is None else mark.asked.isoformat(),
        "console": machine.console,
        "address": machine.address,
        "vgpus": [vgpu.uuid for vgpu in mark.vgpus],
        "trouble": machine.trouble,
    }


def _type(kind: VGPUType) -> Json:
    return {
        "name": kind.name,
        "driver_id": kind.driver_id,
        "series": kind.series,
        "memory_mib": kind.memory_mib,
        "size_group": kind.size_group,
        "regime": kind.regime.value,
        "max": kind.max,
        "cells": [list(cell) for cell in kind.cells],
        "free_cells": [list(cell) for cell in kind.free_cells],
    }


def _vgpu(vgpu: ProvidedVGPU) -> Json:
    return {
        "uuid": vgpu.uuid,
        "gpu": vgpu.gpu,
        "type": vgpu.type,
        "size_group": vgpu.size_group,
        "handle": vgpu.handle,
        "holder": vgpu.holder,
    }


def _unknown(gaps: Iterable[Unknown]) -> list[Json]:
    return [{"what": gap.what, "reason": gap.reason} for gap in gaps]
