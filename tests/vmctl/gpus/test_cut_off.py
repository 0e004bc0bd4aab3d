"""Cut off at any write or tool, by every way: asked again it is there, and what nobody wants leaves nothing.

A share of its own kind is what must never remain: one that nothing shows, so that nothing takes it away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.vmctl.gpus.hosts import RTX_4000, card, snapshot, want
from tests.vmctl.gpus.test_rounds import WAYS, ready
from vmctl import gpus
from vmctl.card import Regime
from vmctl.host import Answer, Host
from vmctl.ledger import Ledger
from vmctl.model import WantedVGPU
from vmctl.simulate import SimulatedHost

# What lies on GPU instances or at places of its own is cut off in test_layered_killed.py; a card of four functions has
# so many writes that cutting between them once is enough.
CUTS = [
    (*way, after)
    for way in WAYS
    for after in (False, True)
    if way[3] not in (Regime.MIG, Regime.MIXED) and (after or way[1] != RTX_4000)
]


class Killed(BaseException):
    """The process ends here: no handler of ours sees it."""


@dataclass(frozen=True)
class Mortal(SimulatedHost):
    """Dies at its n-th write or tool that changes something: right before or right after it."""

    at: int = 0
    after: bool = True
    seen: list[str] = field(default_factory=list)

    def _store(self, path: Path, value: str) -> None:
        self._die(str(path), before=True)
        super()._store(path, value)
        self._die(str(path), before=False)

    def driver_tool(
        self, command: Sequence[str], *, limit: float, reading: Path | None = None, changes: bool
    ) -> Answer:
        if not changes:
            return super().driver_tool(command, limit=limit, reading=reading, changes=changes)
        self._die(" ".join(command), before=True)
        answer = super().driver_tool(command, limit=limit, reading=reading, changes=changes)
        self._die(" ".join(command), before=False)
        return answer

    def _die(self, where: str, *, before: bool) -> None:
        if before:
            self.seen.append(where)
        if len(self.seen) == self.at and self.after is not before:
            raise Killed(where)


def mortal(host: Host, at: int, after: bool) -> Mortal:
    return Mortal(host.name, root=host.root, state_dir=host.state_dir, at=at, after=after)


def wish_for(host: Host, gpu: str, kind: str, regime: Regime) -> WantedVGPU:
    cells = next((each.cells for each in card(host, gpu).types if each.name == kind), ())
    return want(gpu, kind, regime, cell=cells[0] if cells else None, handle=1)


def clear(host: Host) -> None:
    """What apply does for an empty desired state: ours go, and notes of what is not there are crossed out."""
    for share in gpus.provided(host):
        gpus.release(host, share)
    for made in tuple(ledger := Ledger(host.state_dir)):
        ledger.cross_out(made.uuid)


@pytest.mark.parametrize(("layout", "gpu", "kind", "regime", "after"), CUTS)
def test_cut_off_while_it_is_made(memory: Path, layout: str, gpu: str, kind: str, regime: Regime, after: bool) -> None:
    host = ready(memory, layout)
    wish, before = wish_for(host, gpu, kind, regime), snapshot(host)
    for at in range(1, 30):
        try:
            gpus.provide(mortal(host, at, after), wish, "machine")
        except Killed:
            clear(host)
            assert snapshot(host) == before, f"cut off at {at}, and not wanted any more"
            with pytest.raises(Killed):
                gpus.provide(mortal(host, at, after), wish, "machine")
            made = gpus.provide(host, wish, "machine")
            assert gpus.provided(host) == [made]
            gpus.release(host, made)
            assert snapshot(host) == before, f"cut off at {at}, wanted, and released"
            continue
        break
    else:
        pytest.fail("it never came to an end")
    assert at > 1


@pytest.mark.parametrize(("layout", "gpu", "kind", "regime", "after"), CUTS)
def test_cut_off_while_it_is_released(
    memory: Path, layout: str, gpu: str, kind: str, regime: Regime, after: bool
) -> None:
    host = ready(memory, layout)
    wish, before = wish_for(host, gpu, kind, regime), snapshot(host)
    for at in range(1, 30):
        made = gpus.provide(host, wish, "machine")
        try:
            gpus.release(mortal(host, at, after), made)
        except Killed:
            clear(host)
            assert snapshot(host) == before, f"cut off at {at}, and cleared"
            made = gpus.provide(host, wish, "machine")
            with pytest.raises(Killed):
                gpus.release(mortal(host, at, after), made)
            assert gpus.provide(host, wish, "machine") == made  # wanted again meanwhile
            gpus.release(host, made)
            assert snapshot(host) == before, f"cut off at {at}, made again, and released"
            continue
        break
    else:
        pytest.fail("it never came to an end")
    assert snapshot(host) == before
