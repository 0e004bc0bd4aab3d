"""What the name of a vGPU type tells (dossier 2). Pure."""

from __future__ import annotations

import re

NAME = re.compile(r".+-(?P<gigabytes>\d+)(?P<series>[QBAC])\d*(ME)?")


def plain(name: str) -> str:
    """A type's name without the prefix that some drivers print."""
    return name.removeprefix("GRID ").removeprefix("NVIDIA ")


def memory_of(name: str) -> int | None:
    """The frame buffer in MiB that a type's name tells; None when it tells none."""
    parts = NAME.fullmatch(name)
    return int(parts["gigabytes"]) * 1024 if parts is not None else None


def series_of(name: str) -> str:
    """The letter of a type's series; nothing where its name has none."""
    parts = NAME.fullmatch(name)
    return parts["series"] if parts is not None else ""
