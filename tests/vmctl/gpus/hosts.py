"""Simulated hosts for tests of every way: what is asked of them, and what their trees look like."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from vmctl import gpus
from vmctl.card import GPU, CardChange, Cell, Knob, Regime
from vmctl.host import Host
from vmctl.model import WantedVGPU
from vmctl.simulate import SimulatedHost, prepare

L40S, H100, FLEX, RTX_4000 = "0000:26:00.0", "0000:4e:00.0", "0000:6a:00.0", "0000:65:00.0"


def simulated(folder: Path, layout: str) -> SimulatedHost:
    prepare(folder / layout, layout)
    return SimulatedHost(layout, root=folder / layout, state_dir=folder / f"{layout}-state")


def flex(folder: Path, parts: int = 4) -> SimulatedHost:
    """The machine with plain SR-IOV, its card in so many parts."""
    host = simulated(folder, "flex")
    gpus.change(host, CardChange(FLEX, Knob.VFS, parts))
    return host


def want(
    gpu: str, kind: str, regime: Regime = Regime.EQUAL, *, cell: Cell | None = (0, 1), handle: int | None = 0
) -> WantedVGPU:
    """A wish of its own, whole where the regime is."""
    whole = regime is Regime.WHOLE
    return WantedVGPU(str(uuid.uuid4()), gpu, kind, regime, None if whole else cell, None if whole else handle)


def card(host: Host, address: str) -> GPU:
    return next(gpu for gpu in gpus.inventory(host) if gpu.address == address)


def reasons(gpu: GPU) -> dict[str, str]:
    return {gap.what: gap.reason for gap in gpu.unknown}


def snapshot(host: Host) -> dict[str, str]:
    """Every file, folder and link of a machine with its content. The simulator's own begin with a dot."""
    found = {}
    for path in host.root.rglob("*"):
        name = str(path.relative_to(host.root))
        if name.startswith("."):
            continue
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"
        elif path.is_file():
            found[name] = path.read_text(errors="replace") if os.access(path, os.R_OK) else "unreadable"
        else:
            found[name] = "folder"
    return found
