"""The boards of simulated machines: ids, sizes and limits are those of the dossier's table of types (section 2)."""

from __future__ import annotations

from dataclasses import replace

from vmctl.simulate.kinds import INTEL, Board, Kind, Profile

GIB_16 = {1: 16, 2: 8, 4: 4, 8: 2, 16: 1}
GIB_32 = {1: 32, 2: 16, 4: 8, 8: 4, 16: 2, 32: 1}
GIB_48 = {1: 32, 2: 24, 3: 16, 4: 12, 6: 8, 8: 6, 12: 4, 16: 3, 24: 2, 48: 1}
GIB_80 = {4: 20, 5: 16, 8: 10, 10: 8, 16: 5, 20: 4, 40: 2, 80: 1}
GIB_96 = {2: 32, 3: 32, 4: 24, 6: 16, 8: 12, 12: 8, 16: 6, 24: 4, 32: 3, 48: 2, 96: 1}

T4 = Board(
    model="Tesla T4",
    device="0x1eb8",
    subsystem="0x12a2",
    framework="mdev-pf",
    arch="Turing",
    total_mib=15360,
    prefix="GRID T4",
    most=GIB_16,
    ids=(
        ("B", 222, (1, 2)),
        ("B4", 224, (2,)),
        ("A", 225, (1, 2, 4, 8, 16)),
        ("Q", 230, (1, 2, 4, 8, 16)),
        ("B4", 252, (1,)),
        ("C", 319, (4, 8, 16)),
    ),
)
V100X = Board(
    model="Tesla V100-SXM2-32GB",
    device="0x1db5",
    subsystem="0x1249",
    framework="mdev-pf",
    arch="Volta",
    total_mib=32768,
    prefix="GRID V100DX",
    most=GIB_32,
    ids=(
        ("Q", 194, (1, 2, 4, 8, 16, 32)),
        ("A", 200, (1, 2, 4, 8, 16, 32)),
        ("B", 206, (1, 2)),
        ("B4", 219, (2,)),
        ("B4", 250, (1,)),
        ("C", 315, (4, 8, 16, 32)),
    ),
)
A16 = Board(
    model="NVIDIA A16",
    device="0x25b6",
    subsystem="0x14a9",
    framework="mdev-vf",
    arch="Ampere",
    total_mib=15105,
    prefix="NVIDIA A16",
    most=GIB_16,
    ids=(
        ("B", 709, (1, 2)),
        ("Q", 711, (1, 2, 4, 8, 16)),
        ("A", 716, (1, 2, 4, 8, 16)),
        ("C", 721, (4, 8, 16)),
    ),
    vfs=16,
    region=16,
)
A40 = Board(
    model="NVIDIA A40",
    device="0x2235",
    subsystem="0x145a",
    framework="mdev-vf",
    arch="Ampere",
    total_mib=46068,
    prefix="NVIDIA A40",
    most=GIB_48,
    ids=(
        ("B", 555, (1, 2)),
        ("Q", 557, (1, 2, 3, 4, 6, 8, 12, 16, 24, 48)),
        ("A", 567, (1, 2, 3, 4, 6, 8, 12, 16, 24, 48)),
        ("C", 581, (4, 6, 8, 12, 16, 24, 48)),
    ),
    vfs=32,
    region=48,
)
L40S = Board(
    model="NVIDIA L40S",
    device="0x26b9",
    subsystem="0x1851",
    framework="vendor-vfio",
    arch="Ada Lovelace",
    total_mib=46068,
    prefix="NVIDIA L40S",
    most=GIB_48,
    ids=(
        ("B", 1145, (1, 2)),
        ("Q", 1147, (1, 2, 3, 4, 6, 8, 12, 16, 24, 48)),
        ("A", 1157, (1, 2, 3, 4, 6, 8, 12, 16, 24, 48)),
        ("B", 2164, (3,)),
    ),
    vfs=16,
    region=48,
)


# MIG: profile id, slices of memory, of compute, and starts (3.3); the text of each generation's table beside it.
def _profiles(names: tuple[tuple[str, str, tuple[int, int, int, int, int, int]], ...]) -> tuple[Profile, ...]:
    shapes = (
        (19, tuple(range(7)), 1, 1),
        (20, tuple(range(7)), 1, 1),
        (15, (0, 2, 4, 6), 2, 1),
        (14, (0, 2, 4), 2, 2),
        (9, (0, 4), 4, 3),
        (5, (0,), 4, 4),
        (0, (0,), 8, 7),
    )
    return tuple(
        Profile(number, name, starts, size, compute, memory, numbers)
        for (number, starts, size, compute), (name, memory, numbers) in zip(shapes, names, strict=True)
    )


def _backed(prefix: str, ids: dict[str, int]) -> tuple[Kind, ...]:
    """The MIG-backed types of an 80 GiB board, each with the profile that it fills."""
    rows = (
        ("7-80C", 80, 1, "7g.80gb"),
        ("4-40C", 40, 1, "4g.40gb"),
        ("3-40C", 40, 2, "3g.40gb"),
        ("2-20C", 20, 3, "2g.20gb"),
        ("1-20C", 20, 4, "1g.20gb"),
        ("1-10C", 10, 7, "1g.10gb"),
        ("1-10CME", 10, 1, "1g.10gb+me"),
    )
    return tuple(
        Kind(f"nvidia-{ids[short]}", f"{prefix}-{short}", "C", size * 1024, most, profile)
        for short, size, most, profile in rows
    )


A100 = Board(
    model="NVIDIA A100 80GB PCIe",
    device="0x20b5",
    subsystem="0x1533",
    framework="mdev-vf",
    arch="Ampere",
    total_mib=81920,
    prefix="GRID A100D",
    most=GIB_80,
    ids=(("C", 692, (4, 8, 10, 16, 20, 40, 80)),),
    more=_backed(
        "GRID A100D",
        {"7-80C": 703, "4-40C": 702, "3-40C": 701, "2-20C": 700, "1-20C": 1054, "1-10C": 699, "1-10CME": 707},
    ),
    vfs=20,
    region=80,
    profiles=_profiles(
        (
            ("1g.10gb", "9.50", (14, 0, 0, 1, 0, 0)),
            ("1g.10gb+me", "9.50", (14, 1, 0, 1, 1, 1)),
            ("1g.20gb", "19.50", (14, 1, 0, 1, 0, 0)),
            ("2g.20gb", "19.50", (28, 1, 0, 2, 0, 0)),
            ("3g.40gb", "39.25", (42, 2, 0, 3, 0, 0)),
            ("4g.40gb", "39.25", (56, 2, 0, 4, 0, 0)),
            ("7g.80gb", "79.00", (98, 5, 0, 7, 1, 1)),
        )
    ),
)
H100 = Board(
    model="NVIDIA H100 PCIe",
    device="0x2331",
    subsystem="0x1626",
    framework="vendor-vfio",
    arch="Hopper",
    total_mib=81559,
    prefix="NVIDIA H100",
    most=GIB_80,
    ids=(("C", 826, (4, 8, 10, 16, 20, 40, 80)),),
    more=_backed(
        "NVIDIA H100",
        {"7-80C": 825, "4-40C": 824, "3-40C": 823, "2-20C": 822, "1-20C": 1059, "1-10C": 821, "1-10CME": 993},
    ),
    vfs=20,
    region=80,
    profiles=_profiles(
        (
            ("1g.10gb", "9.62", (16, 1, 0, 1, 1, 0)),
            ("1g.10gb+me", "9.62", (16, 1, 0, 1, 1, 1)),
            ("1g.20gb", "19.62", (26, 1, 0, 1, 1, 0)),
            ("2g.20gb", "19.62", (32, 2, 0, 2, 2, 0)),
            ("3g.40gb", "39.50", (46, 3, 0, 3, 3, 0)),
            ("4g.40gb", "39.50", (64, 4, 0, 4, 4, 0)),
            ("7g.80gb", "79.25", (114, 7, 0, 8, 7, 1)),
        )
    ),
)

BLACKWELL = "NVIDIA RTX Pro 6000 Blackwell DC"
INSTANCE_GIB = {"1": 24, "2": 48, "4": 96}
BACKED_96 = (  # slices, first id, sizes with their series in the order of the ids
    ("1", 1546, "2Q 2A 2B 3Q 3A 4Q 4A 6Q 6A 8Q 8A 8C 12Q 12A 12C 24Q 24A 24C"),
    ("2", 1564, "12Q 12A 12C 16Q 16A 16C 24Q 24A 24C 48Q 48A 48C"),
    ("4", 1576, "24Q 24A 24C 32Q 32A 32C 48Q 48A 48C 96Q 96A 96C"),
)
WHOLE_96 = "2B 3Q 3A 4Q 4A 6Q 6A 8Q 8A 8C 12Q 12A 12C 16Q 16A 16C 24Q 24A 24C 32Q 32A 32C 48Q 48A 48C 96Q 96A 96C"


def _whole_96() -> list[Kind]:
    rows = ((number, int(short[:-1]), short) for number, short in enumerate(WHOLE_96.split(), start=1518))
    return [
        Kind(f"nvidia-{number}", f"{BLACKWELL}-{short}", short[-1], size * 1024, GIB_96[size])
        for number, size, short in rows
    ]


def _backed_96() -> list[Kind]:
    """Several of these share one GPU instance with graphics; the most of a type is over all instances."""
    kinds = []
    for slices, first, sizes in BACKED_96:
        profile = f"{slices}g.{INSTANCE_GIB[slices]}gb+gfx"
        for number, short in enumerate(sizes.split(), start=first):
            size = int(short[:-1])
            each = INSTANCE_GIB[slices] // size
            most = min(each * (4 // int(slices)), 48)
            name = f"{BLACKWELL}-{slices}-{short}"
            kinds.append(Kind(f"nvidia-{number}", name, short[-1], size * 1024, most, profile, each))
    return kinds


RTX_PRO_6000 = Board(
    model="NVIDIA RTX PRO 6000 Blackwell Server Edition",
    device="0x2bb5",
    subsystem="0x204e",
    framework="vendor-vfio",
    arch="Blackwell",
    total_mib=97887,
    more=(*_whole_96(), *_backed_96()),
    vfs=48,
    region=96,
    # Ids and starts from memory of NVIDIA's guide: no captured table of this card was at hand.
    profiles=(
        Profile(14, "1g.24gb", (0, 3, 6, 9), 3, 1, "23.62", (46, 1, 1, 1, 1, 0)),
        Profile(47, "1g.24gb+gfx", (0, 3, 6, 9), 3, 1, "23.62", (46, 1, 1, 1, 1, 0)),
        Profile(5, "2g.48gb", (0, 6), 6, 2, "47.38", (94, 2, 2, 2, 2, 0)),
        Profile(35, "2g.48gb+gfx", (0, 6), 6, 2, "47.38", (94, 2, 2, 2, 2, 0)),
        Profile(0, "4g.96gb", (0,), 12, 4, "95.00", (188, 4, 4, 4, 4, 1)),
        Profile(32, "4g.96gb+gfx", (0,), 12, 4, "95.00", (188, 4, 4, 4, 4, 1)),
    ),
)


def _gvtg(number: int, low: int, high: int, screen: str, most: int) -> Kind:
    text = f"low_gm_size: {low}MB\nhigh_gm_size: {high}MB\nfence: 4\nresolution: {screen}\nweight: {16 // number}"
    return Kind(f"i915-GVTg_V5_{number}", "", "", low, most, text=text)


IGPU = Board(
    model="Intel HD Graphics 630",
    device="0x5912",
    subsystem="0x2212",
    framework="gvtg",
    arch="Gen9",
    more=(
        _gvtg(1, 512, 2048, "1920x1200", 1),
        _gvtg(2, 256, 1024, "1920x1200", 2),
        _gvtg(4, 128, 512, "1920x1200", 5),
        _gvtg(8, 64, 384, "1024x768", 7),
    ),
    vendor=INTEL,
    pci_class="0x030000",
    driver="i915",
)
FLEX = Board(
    model="Intel Data Center GPU Flex 170",
    device="0x56c0",
    subsystem="0x4905",
    framework="sriov",
    arch="Xe-HPG",
    vfs=31,
    vendor=INTEL,
    pci_class="0x038000",
    driver="xe",
)
RTX_4000 = Board(
    model="Quadro RTX 4000", device="0x1eb1", subsystem="0x12a0", framework="none", arch="Turing",
    total_mib=8192, pci_class="0x030000",
)  # fmt: skip
T400 = replace(RTX_4000, model="NVIDIA T400", device="0x1fb2", subsystem="0x1489", total_mib=2048)
