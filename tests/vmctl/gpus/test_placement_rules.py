"""Whatever is taken of what vmctl offers keeps the rules that the portal's database keeps, and no promise is too much.

The rules are the exclusion constraints of the placement table (tests/data/geometry.sql), said anew for values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.vmctl.gpus import told as given_by
from tests.vmctl.gpus.test_rulers import share
from vmctl.card import Cell, ProvidedVGPU, Regime, VGPUType
from vmctl.gpus.driver.answers import DriverFacts, Instance, Profile
from vmctl.gpus.layers import rulers
from vmctl.gpus.layers.mig_cells import profile_of


def meet(one: Cell | None, other: Cell | None) -> bool:
    assert one is not None
    assert other is not None
    return one[0] < other[1] and other[0] < one[1]


def broken(shares: Sequence[ProvidedVGPU], told: DriverFacts) -> Iterator[str]:
    """The exclusion constraints of the placement table, said for shares that exist at one time."""
    for one, other in combinations(shares, 2):
        keys = [(each.cell, profile_of(each.type, told)) for each in (one, other)]
        if meet(one.cell, other.cell) and keys[0] != keys[1]:
            yield f"one_cell: {one} {other}"
        if keys[0] == keys[1] and meet(one.slot, other.slot):
            yield f"one_slot: {one} {other}"
        if one.regime is Regime.MIG and keys[0] == keys[1] and one.size_group != other.size_group:
            yield f"one_size: {one} {other}"
        if keys[0] != keys[1] and all(profile is not None and profile.media for _, profile in keys):
            yield f"one_media: {one} {other}"


def instances(shares: Sequence[ProvidedVGPU], told: DriverFacts) -> tuple[Instance, ...]:
    """The GPU instances under these shares."""
    found: dict[tuple[int, int], Profile] = {}
    for each in shares:
        profile = profile_of(each.type, told)
        assert profile is not None
        assert each.cell is not None
        found[each.cell] = profile
    return tuple(
        Instance(number, profile.name, profile.id, cell[0], profile.size)
        for number, (cell, profile) in enumerate(found.items())
    )


CARDS = {
    "a100": (Regime.MIG, given_by.mig_card(given_by.profiles(given_by.A100_80)), [
        f"A100D-{kind}C" for kind in ("1-10", "1-20", "2-20", "3-40", "4-40", "7-80")
    ] + ["A100D-1-10CME"]),
    "rtx-pro": (Regime.MIG, given_by.mig_card(given_by.RTX_PRO, given_by.RTX_PRO_TYPES), [*given_by.RTX_PRO_TYPES]),
    "a40": (Regime.MIXED, given_by.mixed_card(given_by.GIB_48), [*given_by.GIB_48]),
}  # fmt: skip


@pytest.mark.parametrize("card", CARDS)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_whatever_is_taken_of_what_is_offered_keeps_the_rules_and_free_is_how_many_more_fit(
    card: str, data: st.DataObject
) -> None:
    regime, empty, names = CARDS[card]
    offers = [given_by.offer(name) for name in names]
    held: list[ProvidedVGPU] = []

    def look() -> dict[str, VGPUType]:
        told = replace(empty, instances=instances(held, empty)) if regime is Regime.MIG else empty
        return {kind.name: kind for kind in rulers.ruled(regime, offers, held, told)}

    def take(kind: VGPUType, cell: tuple[int, int]) -> None:
        used = {each.slot for each in held if each.cell == cell}
        slot = next(each for each in kind.slots if each not in used)
        held.append(share(kind, len(held), cell, slot))
        assert list(broken(held, empty)) == []

    for _ in range(data.draw(st.integers(0, 8))):
        free = [kind for kind in look().values() if kind.free_cells]
        if not free:
            break
        kind = data.draw(st.sampled_from(free))
        take(kind, data.draw(st.sampled_from(kind.free_cells)))
    for kind in look().values():  # as many more as were promised are to be had, and not one more; then as before
        before = len(held)
        for _ in range(kind.free or 0):
            now = look()[kind.name]
            take(now, now.free_cells[0])
        assert (look()[kind.name].free, look()[kind.name].free_cells) == (0, ())
        del held[before:]
