"""How nvidia-smi writes: addresses, labels in one column, and which cards it sees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from vmctl.simulate.drawing import gpu_uuid
from vmctl.simulate.kernel import Kernel
from vmctl.simulate.kinds import NVIDIA
from vmctl.simulate.layouts import Card
from vmctl.simulate.state import CardState, State

COLUMN = 42  # where the colon stands
INDENT = 4


@dataclass(frozen=True)
class Words:
    """A command line taken apart: flags, and what follows each."""

    given: tuple[str, ...]
    at: datetime  # when it is run, by the machine's clock

    def __contains__(self, flag: str) -> bool:
        return any(word == flag or word.startswith(f"{flag}=") for word in self.given)

    def value(self, *flags: str) -> str | None:
        """What follows one of the flags; None: none of them is there, or it is the last word."""
        for number, word in enumerate(self.given):
            flag, equals, value = word.partition("=")
            if flag in flags and equals:
                return value
            if word in flags and number + 1 < len(self.given):
                return self.given[number + 1]
        return None


@dataclass(frozen=True)
class Visible:
    """A card that the NVIDIA driver has: its index in the tool's list, and its state."""

    index: int
    card: Card
    own: CardState
    state: State

    @property
    def bus_id(self) -> str:
        """0000:41:00.0 as the tool prints it."""
        domain, rest = self.card.address.split(":", 1)
        return f"{int(domain, 16):08X}:{rest.upper()}"

    @property
    def uuid(self) -> str:
        return gpu_uuid(self.card)

    def is_called(self, word: str) -> bool:
        """Whether -i means it: by index, UUID or address in any form, several parted by commas."""
        names = (str(self.index), self.uuid, self.bus_id.upper(), self.card.address.upper())
        return any(part.upper() in map(str.upper, names) for part in word.split(","))


def visible(kernel: Kernel, state: State) -> list[Visible]:
    """The cards that are NVIDIA's and not lent away, in the order of their addresses."""
    cards = [
        card
        for card in sorted(kernel.cards, key=lambda card: card.address)
        if card.board.vendor == NVIDIA and state.drivers.get(card.address, card.board.driver) == "nvidia"
    ]
    return [Visible(index, card, state.cards[card.address], state) for index, card in enumerate(cards)]


Rows = Iterable[tuple[str, "str | Mapping[str, str]"]]


def label(depth: int, key: str, value: str) -> str:
    return f"{' ' * INDENT * depth}{key}".ljust(COLUMN) + f": {value}"


def block(depth: int, rows: Rows) -> list[str]:
    """Labels at a depth; a value that is a mapping is a heading with labels below it."""
    lines = []
    for key, value in rows:
        if isinstance(value, str):
            lines.append(label(depth, key, value))
        else:
            lines.append(f"{' ' * INDENT * depth}{key}")
            lines += block(depth + 1, value.items())
    return lines


def text(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"


def enabled(on: bool) -> str:
    return "Enabled" if on else "Disabled"
