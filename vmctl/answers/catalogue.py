"""The vGPU types of a host, each with the GPUs that offer it: the JSON of docs/schemas/types.schema.json. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from vmctl.answers.cards import gaps_json
from vmctl.card import GPU, Unknown, VGPUType
from vmctl.documents import SCHEMA, Json

SETTINGS = ("ecc", "scheduler", "uuid", "model", "numa_node")
"""Fields of a card whose gaps say nothing about what it offers."""


def types_json(host: str, now: datetime, simulated: bool, gpus: Iterable[GPU], unknown: Iterable[Unknown] = ()) -> Json:
    """The document of `vmctl types`. `unknown`: what keeps the list of GPUs from being whole.

    A GPU whose types could not be read is named in `unknown`, never left out.
    """
    cards = list(gpus)
    offers: dict[str, list[tuple[GPU, VGPUType]]] = {}
    for gpu in cards:
        for kind in gpu.types:
            offers.setdefault(kind.name, []).append((gpu, kind))
    return {
        "schema": SCHEMA,
        "host": host,
        "observed_at": now.isoformat(),
        "simulated": simulated,
        "types": [_type(name, offered) for name, offered in sorted(offers.items(), key=_by_size)],
        "unknown": gaps_json([*unknown, *_gaps(cards)]),
    }


def _by_size(item: tuple[str, list[tuple[GPU, VGPUType]]]) -> tuple[str, int, str]:
    name, offered = item
    kind = offered[0][1]
    return kind.series, kind.memory_mib or 0, name


def _type(name: str, offered: list[tuple[GPU, VGPUType]]) -> Json:
    kind = offered[0][1]
    return {
        "name": name,
        "series": kind.series,
        "frame_buffer_mib": kind.memory_mib,
        "gpus": [_offer(gpu, each) for gpu, each in offered],
    }


def _offer(gpu: GPU, kind: VGPUType) -> Json:
    return {
        "address": gpu.address,
        "id": kind.driver_id,
        "regime": kind.regime.value,
        "max": kind.max,
        "free": kind.free,
        "cells": [list(cell) for cell in kind.cells],
        "free_cells": [list(cell) for cell in kind.free_cells],
        "slots": [list(slot) for slot in kind.slots],
    }


def _gaps(gpus: Iterable[GPU]) -> Iterator[Unknown]:
    for gpu in gpus:
        for gap in gpu.unknown:
            if gap.what not in SETTINGS:
                yield Unknown(f"{gap.what} of {gpu.address}", gap.reason)
