"""What a simulated machine's driver remembers: one small file, replaced whole; the tree is drawn from it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from vmctl.errors import bad_input

STATE_FILE = ".machine.json"


@dataclass
class VGPU:
    """One vGPU: on which function, of which type, where on the GPU. Its key is the mdev's uuid or the VF's address."""

    function: str
    kind: str
    placement: int | None = None
    instance: int | None = None
    group: int | None = None  # the IOMMU group of a mediated device


@dataclass
class Instance:
    """A MIG GPU instance and its compute instances (id -> start and size in compute slices)."""

    profile: str
    start: int
    compute: dict[str, list[int]] = field(default_factory=dict)


@dataclass
class CardState:
    """One GPU. `policy` is the number that nvidia-smi takes: 1 best effort, 2 equal share, 3 fixed share."""

    vfs: int = 0
    mig: bool = False
    mig_pending: bool = False
    ecc: bool = True
    ecc_pending: bool = True
    mixed: bool = False
    policy: int = 1
    time_slice_ns: int | None = None
    autoprobe: bool = True
    unlocked: bool = False  # 1 in the module's unbindLock: nothing new may take the GPU
    instances: dict[str, Instance] = field(default_factory=dict)
    vgpus: dict[str, VGPU] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)  # function or mdev -> plugin parameters

    def forget(self) -> None:
        """What goes when the driver lets go of the GPU (1.2): everything but the modes that are stored in it."""
        self.mixed, self.policy, self.time_slice_ns, self.unlocked = False, 1, None, False
        self.instances, self.vgpus, self.params = {}, {}, {}


@dataclass
class State:
    """The machine. `drivers` and `overrides` name only functions that are not as the kernel found them."""

    boot: str
    cards: dict[str, CardState]
    drivers: dict[str, str | None] = field(default_factory=dict)
    overrides: dict[str, str] = field(default_factory=dict)

    def write(self, root: Path) -> None:
        draft = root / f"{STATE_FILE}.draft"
        draft.write_text(json.dumps(asdict(self)))
        draft.replace(root / STATE_FILE)

    @classmethod
    def read(cls, root: Path) -> State:
        try:
            found = json.loads((root / STATE_FILE).read_text())
            return cls(
                found["boot"],
                {address: _card(card) for address, card in found["cards"].items()},
                found["drivers"],
                found["overrides"],
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise bad_input(f"{root / STATE_FILE} is damaged.", f"Remove {root}: it is made anew.") from error


def _card(found: dict[str, object]) -> CardState:
    card = CardState(**found)  # type: ignore[arg-type]
    card.instances = {key: Instance(**each) for key, each in card.instances.items()}  # type: ignore[arg-type]
    card.vgpus = {key: VGPU(**each) for key, each in card.vgpus.items()}  # type: ignore[arg-type]
    return card
