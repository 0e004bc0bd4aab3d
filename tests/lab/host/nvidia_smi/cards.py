"""What the lab's kernel module shows of its cards.

Modes that the module has no notion of (scheduler, ECC) are kept in files, as long as the driver would keep them.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

DEVICES = Path("/sys/bus/pci/devices")
VOLATILE, LASTING = Path("/run/nvidia-lab"), Path("/var/lib/nvidia-lab")
VERSION = Path("/sys/module/nvidia/version")
BAD_ARGUMENT, NOT_SUPPORTED, NOT_FOUND, NOT_LOADED, LOST = 2, 3, 6, 9, 15


class Refused(Exception):
    """An exit status and what is said with it."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(said)
        self.status = status


@dataclass(frozen=True)
class Type:
    """A line of the module's list of a card's types."""

    number: int
    mib: int
    most: int
    heads: int
    frames: int
    size: tuple[str, str]
    name: str

    @classmethod
    def read(cls, line: str) -> Type:
        number, mib, most, heads, frames, size, name = line.split(" ", 6)
        width, _, height = size.partition("x")
        return cls(int(number), int(mib), int(most), int(heads), int(frames), (width, height), name)


@dataclass(frozen=True)
class Share:
    """A share that a machine has open; `machine` and `title`: whose, as QEMU's command line says."""

    name: str
    kind: Type
    machine: str
    title: str


@dataclass(frozen=True)
class Card:
    """A physical function on the driver, by its place in the list."""

    index: int
    folder: Path

    def _text(self, name: str) -> str:
        return (self.folder / name).read_text().strip()

    @property
    def address(self) -> str:
        return self.folder.name

    @property
    def bus_id(self) -> str:
        return f"0000{self.address.upper()}"

    @property
    def model(self) -> str:
        return self._text("lab/model")

    @property
    def uuid(self) -> str:
        digest = hashlib.sha256(self.address.encode()).hexdigest()
        return f"GPU-{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"

    @property
    def lost(self) -> bool:
        return self._text("lab/lost") == "1"

    @cached_property
    def types(self) -> list[Type]:
        return [Type.read(line) for line in self._text("lab/types").splitlines()]

    @property
    def functions(self) -> list[Path]:
        """Where shares are made: on the card itself, or on its virtual functions."""
        links = [link.resolve() for link in sorted(self.folder.glob("virtfn*"))]
        return links if (self.folder / "sriov_totalvfs").exists() else [self.folder]

    @property
    def vgpus(self) -> list[list[str]]:
        """Every share that is made: its name, the number of its type, whether a machine has it open."""
        return [line.split() for line in self._text("lab/vgpus").splitlines()]

    @cached_property
    def shares(self) -> list[Share]:
        """Those that machines have open."""
        kinds = {kind.number: kind for kind in self.types}
        return [Share(name, kinds[int(number)], *owner(name)) for name, number, is_open in self.vgpus if is_open == "1"]

    @property
    def creatable(self) -> set[int]:
        """The numbers of the types of which one more can be made now."""
        found: set[int] = set()
        for function in self.functions:
            for kind in function.glob("mdev_supported_types/nvidia-*"):
                if int((kind / "available_instances").read_text()):
                    found.add(int(kind.name.removeprefix("nvidia-")))
            listed = function / "nvidia/creatable_vgpu_types"
            if listed.exists():
                found |= {int(number) for number in re.findall(r"^\s*(\d+)\s*:", listed.read_text(), re.MULTILINE)}
        return found

    @property
    def used_mib(self) -> int:
        return sum(share.kind.mib for share in self.shares)

    # -- modes

    @property
    def scheduler(self) -> list[str]:
        """The policy's number, and the time slice in ns where one was set."""
        file = VOLATILE / f"{self.address}.scheduler"
        return file.read_text().split() if file.exists() else ["1"]

    def ecc(self) -> tuple[bool, bool]:
        """What holds since the machine started, and what will after the next start."""
        pending = LASTING / f"{self.address}.ecc"
        wanted = not pending.exists() or pending.read_text() == "1"
        current = VOLATILE / f"{self.address}.ecc"
        if not current.exists():
            write(current, str(int(wanted)))
        return current.read_text() == "1", wanted


def owner(share: str) -> tuple[str, str]:
    """UUID and name of the machine that has a share, by its QEMU's command line."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_text(errors="replace").split("\0")
        except OSError:
            continue  # it has ended
        if "qemu" in words[0] and any(share in word for word in words[1:]):
            given = dict(pairwise(words))
            return given.get("-uuid", "N/A"), given.get("-name", "N/A")
    return "N/A", "N/A"


def cards() -> list[Card]:
    """Every card on the driver. Raises Refused where it is not loaded, or a card is lost, which is all it says then."""
    if not VERSION.exists():
        said = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
        raise Refused(NOT_LOADED, f"{said}Make sure that the latest NVIDIA driver is installed and running.\n")
    folders = sorted(
        file.parent for file in DEVICES.glob("*/lab") if (file.parent / "driver").resolve().name == "nvidia"
    )
    found = [Card(index, folder) for index, folder in enumerate(folders)]
    for card in found:
        if card.lost:
            said = f"Unable to determine the device handle for GPU{card.index}: {card.bus_id}: GPU is lost.  "
            raise Refused(LOST, f"{said}Reboot the system to recover this GPU\n")
    if not found:
        raise Refused(NOT_FOUND, "No devices were found\n")
    return found


def meant(words: list[str]) -> list[Card]:
    """The cards that -i names: all where it is not given."""
    found = cards()
    if "-i" not in words:
        return found
    word = words[words.index("-i") + 1].upper()
    chosen = [card for card in found if word in (str(card.index), card.uuid.upper(), card.bus_id, card.address.upper())]
    if not chosen:
        raise Refused(NOT_FOUND, "No devices were found\n")
    return chosen


def write(file: Path, text: str) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
