"""What a simulated board can be cut into: vGPU types, their places, and MIG profiles (dossier 2, 3.2 and 3.3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

NVIDIA = "0x10de"
INTEL = "0x8086"


@dataclass(frozen=True)
class Kind:
    """One vGPU type as the driver prints it; `most` is how many fit on one GPU at equal size, or of its profile."""

    driver_id: str
    name: str  # with the driver's prefix; Intel's types have none
    series: str
    mib: int
    most: int
    profile: str = ""  # MIG: the profile of the GPU instance it needs
    per_instance: int = 1  # MIG: how many share one GPU instance
    text: str = ""  # a description that is not NVIDIA's

    @property
    def number(self) -> int:
        """The id that current_vgpu_type takes and nvidia-smi prints; 0 where the type has only a name."""
        digits = self.driver_id.rpartition("-")[2]
        return int(digits) if self.driver_id.startswith("nvidia-") else 0

    @property
    def size(self) -> int:
        """In GiB."""
        return self.mib // 1024

    @property
    def heads(self) -> int:
        return 1 if self.series in "AC" else 4

    @property
    def resolution(self) -> tuple[int, int]:
        """The largest, as captured drivers print it for the series."""
        wide = (5120, 2880) if self.series == "B" or self.size == 1 else (7680, 4320)
        return {"A": (1280, 1024), "C": (4096, 2400)}.get(self.series, wide)

    @property
    def frame_limit(self) -> int:
        return 45 if self.series == "B" else 60

    @property
    def description(self) -> str:
        """The driver's one line (dossier 1.1)."""
        if self.text:
            return self.text
        width, height = self.resolution
        return (
            f"num_heads={self.heads}, frl_config={self.frame_limit}, framebuffer={self.mib}M, "
            f"max_resolution={width}x{height}, max_instance={self.most}"
        )


@dataclass(frozen=True)
class Profile:
    """A MIG profile: where it may start, in memory slices, and the compute slices it takes."""

    id: int
    name: str
    starts: tuple[int, ...]
    size: int
    compute: int
    memory: str  # GiB as nvidia-smi prints them
    numbers: tuple[int, int, int, int, int, int]  # SM, DEC, ENC, CE, JPEG, OFA

    @property
    def media(self) -> bool:
        return self.name.endswith("+me")


@dataclass(frozen=True)
class Board:
    """A GPU model: its PCI ids, how it is shared, and what it can be cut into."""

    model: str
    device: str
    subsystem: str
    framework: str  # as vmctl.card.Framework, or "gvtg", or "none"
    arch: str
    total_mib: int = 0  # the frame buffer as nvidia-smi prints it
    prefix: str = ""
    most: Mapping[int, int] | None = None  # size in GiB -> how many at equal size
    ids: Sequence[tuple[str, int, Sequence[int]]] = ()  # series suffix, first id, sizes in the order of the ids
    more: tuple[Kind, ...] = ()  # types that are no row of the above: MIG-backed ones, Intel's
    vfs: int = 0
    region: int = 0  # 3.2: units of the frame buffer that mixed sizes are placed in; 0: no mixed sizes
    profiles: tuple[Profile, ...] = ()
    vendor: str = NVIDIA
    pci_class: str = "0x030200"
    driver: str = "nvidia"

    def types(self) -> Iterator[Kind]:
        for suffix, first, sizes in self.ids:
            for number, size in enumerate(sizes, start=first):
                name = f"{self.prefix}-{size}{suffix}"
                most = (self.most or {})[size]
                yield Kind(f"nvidia-{number}", name, suffix[0], size * 1024, most)
        yield from self.more

    @cached_property
    def by_id(self) -> Mapping[str, Kind]:
        return {kind.driver_id: kind for kind in self.types()}

    @property
    def mig(self) -> bool:
        return bool(self.profiles)

    @property
    def ecc(self) -> bool:
        """Boards for servers have it; those that only drive screens do not."""
        return self.framework != "none"

    @property
    def keeps_mig(self) -> bool:
        """Ampere keeps MIG mode in its InfoROM and changes it at a reset; later ones at once, until reboot (1.5)."""
        return self.arch == "Ampere"

    def profile(self, name: str) -> Profile:
        return next(profile for profile in self.profiles if profile.name == name)

    def places(self, kind: Kind) -> tuple[int, tuple[int, ...]]:
        """Size and legal starts of a type in mixed size, in units of the region (3.2)."""
        if self.region == 96:
            units = 3 if kind.size == 2 else kind.size
            return units, tuple(self.region * number // kind.most for number in range(kind.most))
        if kind.size == 1 and self.region == 48 and self.arch == "Ada Lovelace":
            return 1, ADA_ONE_GIB
        return kind.size, PLACES[self.region][kind.size]


# fmt: off
A40_ONE_GIB = (0, 2, 3, 5, 6, 9, 11, 12, 14, 15, 17, 18, 20, 21, 23,
               24, 26, 27, 29, 30, 33, 35, 36, 38, 39, 41, 42, 44, 45, 47)
# fmt: on
ADA_ONE_GIB = (0, 5, 6, 11, 12, 17, 18, 23, 24, 29, 30, 35, 36, 41, 42, 47)

# Region in units -> size -> legal starts; NVIDIA's guides, by way of the dossier's table of types.
PLACES: Mapping[int, Mapping[int, tuple[int, ...]]] = {
    80: {
        80: (0,),
        40: (0, 40),
        20: (0, 20, 40, 60),
        16: (0, 24, 40, 64),
        10: tuple(range(0, 80, 10)),
        8: (0, 12, 20, 32, 40, 52, 60, 72),
        5: tuple(range(0, 80, 5)),
        4: (0, 6, 10, 16, 20, 26, 30, 36, 40, 46, 50, 56, 60, 66, 70, 76),
    },
    48: {
        48: (0,),
        24: (0, 24),
        16: (0, 32),
        12: (0, 12, 24, 36),
        8: (0, 16, 24, 40),
        6: tuple(range(0, 48, 6)),
        4: (0, 8, 12, 20, 24, 32, 36, 44),
        3: tuple(range(0, 48, 3)),
        2: (0, 4, 6, 10, 12, 16, 18, 22, 24, 28, 30, 34, 36, 40, 42, 46),
        1: A40_ONE_GIB,
    },
    16: {16: (0,), 8: (0, 8), 4: (0, 4, 8, 12), 2: tuple(range(0, 16, 2)), 1: tuple(range(16))},
}
