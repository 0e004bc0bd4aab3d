"""What the simulated GPU driver knows: which vGPUs may stand beside which on a GPU (vGPU dossier, 1 and 3)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

TYPES = "mdev_supported_types"

Held = Mapping[str, tuple[Path, str]]
"""The vGPUs on a GPU: uuid -> the function it was made on, and its type."""


@dataclass(frozen=True)
class Card:
    """One GPU as the driver sees it: its PF, the functions it makes vGPUs on, and size and most of each type."""

    physical: Path
    parents: frozenset[Path]
    types: Mapping[str, tuple[int, int]]

    @classmethod
    def of(cls, function: Path) -> Card:
        """The GPU that a function (PF or VF) belongs to."""
        physical = (function / "physfn").resolve() if (function / "physfn").is_symlink() else function
        virtual = [(physical / name).resolve() for name in os.listdir(physical) if name.startswith("virtfn")]
        kinds = function / TYPES
        return cls(
            physical,
            frozenset(virtual or [physical]),
            {kind: _size(kinds / kind) for kind in os.listdir(kinds)},
        )

    @property
    def has_functions(self) -> bool:
        return self.physical not in self.parents

    def left(self, held: Held, function: Path | None, kind: str) -> int:
        """How many more vGPUs of a type this function takes now; None: any free VF.

        All vGPUs of one GPU have one frame buffer size, of any series (3.1, equal-size); the first decides, the last
        one gone frees the choice. A VF holds one at most, whatever the GPU still has (1.2).
        """
        size, most = self.types[kind]
        if any(self.types[other][0] != size for _, other in held.values()):
            return 0
        left = most - len(held)
        if function == self.physical:
            return left
        return min(left, 0 if any(where == function for where, _ in held.values()) else 1)


def _size(kind: Path) -> tuple[int, int]:
    """Frame buffer in MiB and most at equal size, as the type's description says."""
    text = (kind / "description").read_text()
    found = re.search(r"framebuffer=(\d+)M.*max_instance=(\d+)", text)
    if found is None:
        raise ValueError(f"{kind}: no size in {text!r}")
    return int(found[1]), int(found[2])
