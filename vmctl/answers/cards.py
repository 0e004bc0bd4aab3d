"""The cards in vmctl's answers: the JSON of docs/schemas/gpus.schema.json, which reports bear too. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from vmctl import __version__
from vmctl.card import GPU, Mode, ProvidedVGPU, Unknown, VGPUType
from vmctl.documents import SCHEMA, Json
from vmctl.observation import Whose


def gpus_json(
    host: str, now: datetime, simulated: bool, gpus: Iterable[GPU], whose: Whose, unknown: Iterable[Unknown] = ()
) -> Json:
    """The document of `vmctl gpus`. `unknown`: what could not be told about the host as a whole."""
    return {
        "schema": SCHEMA,
        "vmctl": __version__,
        "host": host,
        "observed_at": now.isoformat(),
        "simulated": simulated,
        "gpus": [gpu_json(gpu, whose) for gpu in gpus],
        "unknown": gaps_json(unknown),
    }


def gpu_json(gpu: GPU, whose: Whose) -> Json:
    """One GPU with its types and the shares on it. What is null is not so here, or named in `unknown`."""
    return {
        "address": gpu.address,
        "model": gpu.model,
        "vendor": gpu.vendor,
        "device": gpu.device,
        "uuid": gpu.uuid,
        "driver": gpu.driver,
        "numa_node": gpu.numa_node,
        "iommu_group": gpu.iommu_group,
        "group_members": list(gpu.iommu_members),
        "framework": gpu.framework.value,
        "reason": gpu.reason,
        **_set(gpu),
        "types": [_type(kind) for kind in gpu.types],
        "holders": [holder_json(vgpu, whose) for vgpu in gpu.holders],
        "unknown": _reasons(gpu.unknown),
    }


def _set(gpu: GPU) -> Json:
    """How a card is set now."""
    vfs, scheduler = gpu.vfs, gpu.scheduler
    return {
        "vfs": None if vfs is None else {"total": vfs.total, "enabled": vfs.enabled, "free": vfs.free},
        "regime": None if gpu.regime is None else gpu.regime.value,
        "regimes": [regime.value for regime in gpu.regimes],
        "regime_change_seconds": gpu.regime_change_seconds,
        "handles": gpu.handles,
        "frame_buffer_mib": gpu.memory_mib,
        "mig": _mode(gpu.mig),
        "ecc": _mode(gpu.ecc),
        "mixed": gpu.mixed,
        "scheduler": None
        if scheduler is None
        else {"policy": scheduler.policy.value, "time_slice_us": scheduler.time_slice_us},
    }


def holder_json(vgpu: ProvidedVGPU, whose: Whose) -> Json:
    """A share, or what a domain claims, and who has it."""
    claimant = whose.claimant(vgpu)
    return {
        "type": vgpu.type,
        "device": vgpu.device,
        "uuid": vgpu.uuid,
        "regime": vgpu.regime.value,
        "size_group": vgpu.size_group,
        "cell": _range(vgpu.cell),
        "slot": _range(vgpu.slot),
        "handle": vgpu.handle,
        "machine": vgpu.holder,
        "domain": None if claimant is None else claimant.name,
        "state": None if claimant is None else claimant.state.value,
        "ours": whose.ours(vgpu),
        "licence": vgpu.licence,
    }


def gaps_json(gaps: Iterable[Unknown]) -> list[Json]:
    """What could not be told."""
    return [{"what": gap.what, "reason": gap.reason} for gap in gaps]


def _type(kind: VGPUType) -> Json:
    return {
        "name": kind.name,
        "id": kind.driver_id,
        "series": kind.series,
        "regime": kind.regime.value,
        "frame_buffer_mib": kind.memory_mib,
        "size_group": kind.size_group,
        "gi_profile": kind.gi_profile,
        "media": kind.media,
        "max": kind.max,
        "free": kind.free,
        "cells": [list(cell) for cell in kind.cells],
        "free_cells": [list(cell) for cell in kind.free_cells],
        "slots": [list(slot) for slot in kind.slots],
    }


def _mode(mode: Mode | None) -> Json | None:
    return None if mode is None else {"current": mode.current, "pending": mode.pending}


def _range(span: tuple[int, int] | None) -> list[int] | None:
    return None if span is None else list(span)


def _reasons(gaps: Iterable[Unknown]) -> dict[str, str]:
    """Every gap by its field; one field may have several reasons."""
    found: dict[str, str] = {}
    for gap in gaps:
        found[gap.what] = f"{found[gap.what]} {gap.reason}" if gap.what in found else gap.reason
    return found
