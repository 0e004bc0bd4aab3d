"""The place of a vGPU on a mixed-size GPU (dossier 3.2)."""

from __future__ import annotations

from pathlib import Path

from vmctl.card import Cell
from vmctl.host import Host


def place(host: Host, folder: Path, cell: Cell) -> None:
    """Demand a place for the vGPU of a function or mediated device. Raises VmctlError (no capacity)."""


def clear(host: Host, folder: Path) -> None:
    """Take the demand back."""
