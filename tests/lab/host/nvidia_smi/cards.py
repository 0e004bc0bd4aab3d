"""What the lab's kernel module shows of its cards.

Modes that the module has no notion of (scheduler, ECC) are kept in files, as long as the driver would keep them.  Only
what Python loads anyway is imported: it runs for every question, on an emulated processor.
"""

from __future__ import annotations

import os
import zlib
from itertools import pairwise

DEVICES = "/sys/bus/pci/devices"
VOLATILE, LASTING = "/run/nvidia-lab", "/var/lib/nvidia-lab"
VERSION = "/sys/module/nvidia/version"
BAD_ARGUMENT, NOT_SUPPORTED, NOT_FOUND, NOT_LOADED, LOST = 2, 3, 6, 9, 15


class Refused(Exception):
    """An exit status and what is said with it."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(said)
        self.status = status


class Type:
    """A line of the module's list of a card's types."""

    def __init__(self, line: str) -> None:
        number, mib, most, heads, frames, size, self.name = line.split(" ", 6)
        self.number, self.mib, self.most = int(number), int(mib), int(most)
        self.heads, self.frames = heads, frames
        self.width, _, self.height = size.partition("x")


class Share:
    """A share that a machine has open; `machine` and `title`: whose, as QEMU's command line says."""

    def __init__(self, name: str, kind: Type) -> None:
        self.name, self.kind = name, kind
        self.machine, self.title = owner(name)


class Card:
    """A physical function on the driver, by its place in the list."""

    def __init__(self, index: int, address: str) -> None:
        self.index, self.address = index, address
        self.bus_id = f"0000{address.upper()}"
        self.uuid = _uuid(address)

    def text(self, name: str) -> str:
        """The content of a file in its folder."""
        return read(f"{DEVICES}/{self.address}/{name}").strip()

    def has(self, name: str) -> bool:
        return os.path.exists(f"{DEVICES}/{self.address}/{name}")

    @property
    def types(self) -> list[Type]:
        return [Type(line) for line in self.text("lab/types").splitlines()]

    @property
    def vgpus(self) -> list[list[str]]:
        """Every share that is made: its name, the number of its type, whether a machine has it open."""
        return [line.split() for line in self.text("lab/vgpus").splitlines()]

    @property
    def shares(self) -> list[Share]:
        """Those that machines have open."""
        kinds = {kind.number: kind for kind in self.types}
        return [Share(name, kinds[int(number)]) for name, number, is_open in self.vgpus if is_open == "1"]

    @property
    def creatable(self) -> set[int]:
        """The numbers of the types of which one more can be made now, on the card or on a function of it."""
        folder = f"{DEVICES}/{self.address}"
        functions = [f"{folder}/{name}" for name in os.listdir(folder) if name.startswith("virtfn")]
        found: set[int] = set()
        for function in [folder, *functions]:
            found |= _mediated(f"{function}/mdev_supported_types") | _listed(f"{function}/nvidia/creatable_vgpu_types")
        return found

    # -- modes

    @property
    def scheduler(self) -> list[str]:
        """The policy's number, and the time slice in ns where one was set."""
        return read(f"{VOLATILE}/{self.address}.scheduler", "1").split()

    def ecc(self) -> tuple[bool, bool]:
        """What holds since the machine started, and what will after the next start."""
        wanted = read(f"{LASTING}/{self.address}.ecc", "1")
        current = f"{VOLATILE}/{self.address}.ecc"
        if not os.path.exists(current):
            write(current, wanted)
        return read(current) == "1", wanted == "1"


def _mediated(folder: str) -> set[int]:
    if not os.path.isdir(folder):
        return set()
    kinds = [kind for kind in os.listdir(folder) if int(read(f"{folder}/{kind}/available_instances"))]
    return {int(kind.removeprefix("nvidia-")) for kind in kinds}


def _listed(file: str) -> set[int]:
    numbers = (line.partition(":")[0].strip() for line in read(file, "").splitlines())
    return {int(number) for number in numbers if number.isdecimal()}


def _uuid(address: str) -> str:
    """The same for an address each time."""
    digits = "".join(f"{zlib.crc32(f'{part}{address}'.encode()):08x}" for part in range(4))
    return f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def owner(share: str) -> tuple[str, str]:
    """UUID and name of the machine that has a share, by its QEMU's command line."""
    for process in filter(str.isdecimal, os.listdir("/proc")):
        words = read(f"/proc/{process}/cmdline", "").split("\0")
        if "qemu" in words[0] and any(share in word for word in words[1:]):
            given = dict(pairwise(words))
            return given.get("-uuid", "N/A"), given.get("-name", "N/A")
    return "N/A", "N/A"


def cards() -> list[Card]:
    """Every card on the driver. Raises Refused where it is not loaded, or a card is lost, which is all it says then."""
    if not os.path.exists(VERSION):
        said = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
        raise Refused(NOT_LOADED, f"{said}Make sure that the latest NVIDIA driver is installed and running.\n")
    driven = sorted(name for name in os.listdir(DEVICES) if _is_driven(f"{DEVICES}/{name}"))
    found = [Card(index, address) for index, address in enumerate(driven)]
    for card in found:
        if card.text("lab/lost") == "1":
            said = f"Unable to determine the device handle for GPU{card.index}: {card.bus_id}: GPU is lost.  "
            raise Refused(LOST, f"{said}Reboot the system to recover this GPU\n")
    if not found:
        raise Refused(NOT_FOUND, "No devices were found\n")
    return found


def _is_driven(folder: str) -> bool:
    return os.path.isdir(f"{folder}/lab") and os.path.realpath(f"{folder}/driver").endswith("/nvidia")


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


def read(file: str, otherwise: str | None = None) -> str:
    """A file's text; where it cannot be read: `otherwise`, or OSError where there is none."""
    try:
        with open(file, errors="replace") as source:
            return source.read()
    except OSError:
        if otherwise is None:
            raise
        return otherwise


def write(file: str, text: str) -> None:
    os.makedirs(os.path.dirname(file), exist_ok=True)
    with open(file, "w") as target:
        target.write(text)
