"""The rulers of MIG, mixed sizes and plain SR-IOV: legal cells, free cells, and that no two offers get in their way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.vmctl.gpus import told as given_by
from vmctl.card import Framework, Mode, ProvidedVGPU, Regime, VGPUType
from vmctl.gpus.driver.answers import DriverFacts, Instance, TypeFacts
from vmctl.gpus.layers import rulers
from vmctl.gpus.shares import Offer

GPU = "0000:41:00.0"
NONE = DriverFacts()


def share(kind: VGPUType, number: int, cell: tuple[int, int] | None, slot: tuple[int, int] = (0, 1)) -> ProvidedVGPU:
    return ProvidedVGPU(
        str(number),
        GPU,
        kind.name,
        Framework.VENDOR_VFIO,
        f"0000:41:{number // 8:02x}.{number % 8}",
        kind.size_group,
        number,
        regime=kind.regime,
        cell=cell,
        slot=slot,
    )


def mig(names: Sequence[str], told: DriverFacts, held: Sequence[ProvidedVGPU] = ()) -> dict[str, VGPUType]:
    return {kind.name: kind for kind in rulers.ruled(Regime.MIG, [given_by.offer(name) for name in names], held, told)}


def starts(kind: VGPUType) -> list[int]:
    return [start for start, _ in kind.cells]


# MIG: golden cells --------------------------------------------------------------------------------

EIGHT = {
    "{}-1-{}C": ([0, 1, 2, 3, 4, 5, 6], 1, 7),
    "{}-2-{}C": ([0, 2, 4], 2, 3),
    "{}-3-{}C": ([0, 4], 4, 2),
    "{}-4-{}C": ([0], 4, 1),
    "{}-7-{}C": ([0], 8, 1),
}


def test_a100_40_has_the_cells_of_its_own_lists() -> None:
    found = given_by.captured("nvidia-smi-mig-lgip-a100-40-older-driver.txt", "nvidia-smi-mig-lgipp-a100-40-old.txt")
    names = ["A100-1-5C", "A100-2-10C", "A100-3-20C", "A100-4-20C", "A100-7-40C"]
    kinds = mig(names, given_by.mig_card(found))
    for name, (legal, size, most) in zip(names, EIGHT.values(), strict=True):
        kind = kinds[name]
        assert kind.cells == kind.free_cells == tuple((start, start + size) for start in legal)
        assert (kind.max, kind.free, kind.regime, kind.slots) == (most, most, Regime.MIG, ((0, 1),))
    assert [kinds[name].gi_profile for name in names] == ["1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"]


def test_a100_80_knows_the_double_memory_and_the_media_profile_by_the_name_of_the_type() -> None:
    names = ["A100D-1-20C", "A100D-1-10CME", "A100D-1-10C"]
    kinds = mig(names, given_by.mig_card(given_by.profiles(given_by.A100_80)))
    double, media, single = (kinds[name] for name in names)
    assert (double.gi_profile, starts(double), double.free, double.media) == ("1g.20gb", [0, 2, 4, 6], 4, False)
    assert (media.gi_profile, media.free, media.max, media.media) == ("1g.10gb+me", 1, 1, True)
    assert len(media.free_cells) == 7
    assert (single.gi_profile, single.free) == ("1g.10gb", 7)


def test_h100_nvl_has_the_cells_of_its_own_lists() -> None:
    found = given_by.captured("nvidia-smi-mig-lgip-h100nvl-exhausted.txt", "nvidia-smi-mig-lgipp-h100nvl.txt")
    names = ["H100L-1-12C", "H100L-1-12CME", "H100L-1-24C", "H100L-2-24C", "H100L-3-47C", "H100L-4-47C", "H100L-7-94C"]
    kinds = mig(names, given_by.mig_card(found))
    assert [starts(kinds[name]) for name in names] == [
        [*range(7)],
        [*range(7)],
        [0, 2, 4, 6],
        [0, 2, 4],
        [0, 4],
        [0],
        [0],
    ]
    assert [kinds[name].max for name in names] == [7, 1, 4, 3, 2, 1, 1]
    assert [kinds[name].free for name in names] == [7, 1, 4, 3, 2, 1, 1]


def test_the_drivers_profile_id_wins_over_the_name() -> None:
    types = {"A100D-1-10C": TypeFacts("A100D-1-10C", profile_id=15)}
    kind = mig(["A100D-1-10C"], given_by.mig_card(given_by.profiles(given_by.A100_80), types))["A100D-1-10C"]
    assert (kind.gi_profile, starts(kind)) == ("1g.20gb", [0, 2, 4, 6])


def test_after_one_3g_the_rest_is_what_the_dossier_says() -> None:
    told = given_by.mig_card(given_by.profiles(given_by.A100_80))
    names = ["A100D-1-10C", "A100D-2-20C", "A100D-3-40C", "A100D-4-40C", "A100D-7-80C"]
    left = mig(names, told)["A100D-3-40C"]
    at_0 = replace(told, instances=(Instance(1, "3g.40gb", 9, 0, 4),))
    at_4 = replace(told, instances=(Instance(2, "3g.40gb", 9, 4, 4),))
    assert [mig(names, at_0, [share(left, 0, (0, 4))])[name].free for name in names] == [3, 1, 1, 0, 0]
    assert [mig(names, at_4, [share(left, 0, (4, 8))])[name].free for name in names] == [4, 2, 1, 1, 0]


def test_somebody_elses_gpu_instance_is_in_the_way_even_where_it_would_fit() -> None:
    told = given_by.mig_card(given_by.profiles(given_by.A100_80))
    foreign = replace(told, instances=(Instance(1, "3g.40gb", 9, 0, 4),))
    assert mig(["A100D-3-40C"], foreign)["A100D-3-40C"].free_cells == ((4, 8),)


def test_the_drivers_own_count_is_a_limit_too() -> None:
    found = [replace(each, free=2) if each.id == 19 else each for each in given_by.profiles(given_by.A100_80)]
    assert mig(["A100D-1-10C"], given_by.mig_card(found))["A100D-1-10C"].free == 2


def test_several_vgpus_share_a_gpu_instance_where_the_driver_says_so() -> None:
    told = given_by.mig_card(given_by.RTX_PRO, given_by.RTX_PRO_TYPES)
    small, large = "RTX Pro 6000 Blackwell DC-1-12Q", "RTX Pro 6000 Blackwell DC-1-24Q"
    kinds = mig([small, large], told)
    assert kinds[small].slots == ((0, 1), (1, 2))
    assert (kinds[small].gi_profile, kinds[small].free, kinds[small].max) == ("1g.24gb+gfx", 8, 8)
    assert (kinds[large].slots, kinds[large].free) == (((0, 1),), 4)
    begun = replace(told, instances=(Instance(3, "1g.24gb+gfx", 47, 2, 1),))
    after = mig([small, large], begun, [share(kinds[small], 0, (2, 3))])
    assert (after[small].free, after[small].free_cells) == (7, ((0, 1), (1, 2), (2, 3), (3, 4)))
    assert (after[large].free, after[large].free_cells) == (3, ((0, 1), (1, 2), (3, 4)))


def test_no_more_are_free_than_functions_are() -> None:
    told = given_by.mig_card(given_by.profiles(given_by.A100_80))
    assert rulers.ruled(Regime.MIG, [given_by.offer("A100D-1-10C")], [], told, handles=3)[0].free == 3


@pytest.mark.parametrize(
    ("told", "field"),
    [
        (replace(given_by.mig_card(given_by.profiles(given_by.A100_80)), instances=None), "types.A100D-1-10C.free"),
        (given_by.mig_card([]), "types.A100D-1-10C.cells"),
    ],
)
def test_what_mig_does_not_tell_is_named_and_nothing_is_free(told: DriverFacts, field: str) -> None:
    offers = [given_by.offer("A100D-1-10C")]
    (kind,) = rulers.ruled(Regime.MIG, offers, [], told)
    assert (kind.free, kind.free_cells) == (None, ())
    assert [gap.what for gap in rulers.untold(Regime.MIG, offers, [], told)] == [field]


@pytest.mark.field("A19")
@pytest.mark.parametrize("mode", [Mode(True, False), Mode(False, True)])
def test_a_card_whose_mig_mode_is_about_to_change_cannot_be_booked(mode: Mode) -> None:
    told = replace(given_by.mig_card(given_by.profiles(given_by.A100_80)), mig=mode)
    offers = [given_by.offer("A100D-1-10C", 7, 1), given_by.offer("A100D-4C", 20, 1)]
    for regime in (Regime.MIG, Regime.EQUAL, Regime.MIXED):
        assert rulers.ruled(regime, offers, [], told) == ()
        (gap,) = rulers.untold(regime, offers, [], told)
        assert gap.what == "types"
        assert "reset" in gap.reason


def test_types_of_the_other_mode_are_not_offered() -> None:
    offers = [given_by.offer("A100D-1-10C", 7, 1), given_by.offer("A100D-4C", 20, 1)]
    told = given_by.mig_card(given_by.profiles(given_by.A100_80))
    assert [kind.name for kind in rulers.ruled(Regime.MIG, offers, [], told)] == ["A100D-1-10C"]
    assert [kind.name for kind in rulers.ruled(Regime.EQUAL, offers, [], NONE)] == ["A100D-4C"]


# Mixed sizes --------------------------------------------------------------------------------------


def mixed(told: DriverFacts, held: Sequence[ProvidedVGPU] = (), room: int | None = None) -> dict[str, VGPUType]:
    offers = [given_by.offer(name, None, room) for name in told.types]
    return {kind.name: kind for kind in rulers.ruled(Regime.MIXED, offers, held, told)}


def test_the_l4_of_the_capture_has_four_places_and_two_are_free() -> None:
    told = given_by.busy(given_by.mixed_card({"L4-6Q": (6, (0, 6, 12, 18))}), "L4-6Q", (6, 18))
    kind = mixed(told)["L4-6Q"]
    assert kind.cells == ((0, 6), (6, 12), (12, 18), (18, 24))
    assert kind.free_cells == ((6, 12), (18, 24))
    assert (kind.free, kind.max) == (2, 4)


def test_what_we_hold_is_not_free_although_its_machine_does_not_run_yet() -> None:
    told = given_by.mixed_card(given_by.GIB_48)
    empty = mixed(told)
    assert {name: kind.free for name, kind in empty.items()} == {
        "A40-48Q": 1,
        "A40-24Q": 2,
        "A40-16Q": 2,
        "A40-12Q": 4,
        "A40-8Q": 4,
        "A40-6Q": 8,
        "A40-4Q": 8,
        "A40-4C": 8,
    }
    after = mixed(told, [share(empty["A40-8Q"], 0, (16, 24))])
    assert [after[name].free for name in ("A40-48Q", "A40-24Q", "A40-16Q", "A40-12Q", "A40-8Q")] == [0, 1, 2, 3, 3]
    assert after["A40-24Q"].free_cells == ((24, 48),)


def test_the_drivers_counter_and_the_functions_limit_what_is_free() -> None:
    told = given_by.mixed_card(given_by.GIB_48)
    assert mixed(told, room=3)["A40-4Q"].free == 3
    assert rulers.ruled(Regime.MIXED, [given_by.offer("A40-4Q")], [], told, handles=2)[0].free == 2


def test_beside_a_share_whose_place_nobody_knows_nothing_is_free() -> None:
    told = given_by.mixed_card(given_by.GIB_48)
    foreign = share(mixed(told)["A40-4Q"], 3, None)
    assert {kind.free for kind in mixed(told, [foreign]).values()} == {None}
    gaps = rulers.untold(Regime.MIXED, [given_by.offer("A40-4Q")], [foreign], told)
    assert [gap.what for gap in gaps] == ["types.A40-4Q.free"]


def test_what_the_driver_does_not_tell_of_a_mixed_card_is_named() -> None:
    told = given_by.mixed_card({"A40-4Q": (4, (0, 8))})
    silent = replace(
        told, types={"A40-4Q": replace(told.types["A40-4Q"], creatable=None), "A40-8Q": TypeFacts("A40-8Q")}
    )
    assert {name: kind.free for name, kind in mixed(silent).items()} == {"A40-4Q": None, "A40-8Q": None}
    offers = [given_by.offer(name) for name in silent.types]
    assert [gap.what for gap in rulers.untold(Regime.MIXED, offers, [], silent)] == [
        "types.A40-4Q.free",
        "types.A40-8Q.cells",
    ]


# Plain SR-IOV -------------------------------------------------------------------------------------


def test_a_virtual_function_is_a_cell_of_its_own() -> None:
    offers = [given_by.offer("VF-1of3", 3)]
    (kind,) = rulers.ruled(Regime.VF, offers, [], NONE)
    assert (kind.cells, kind.free, kind.max) == (((0, 1), (1, 2), (2, 3)), 3, 3)
    (kind,) = rulers.ruled(Regime.VF, offers, [share(kind, 1, (1, 2))], NONE)
    assert (kind.free_cells, kind.free) == (((0, 1), (2, 3)), 2)


def test_a_whole_card_has_no_types() -> None:
    assert rulers.ruled(Regime.WHOLE, [given_by.offer("A40-4Q", 12, 12)], [], NONE) == ()


def test_offers_of_a_type_that_the_regime_does_not_know_are_no_error() -> None:
    assert rulers.ruled(None, [Offer(given_by.offer("A40-4Q").kind, None)], [], NONE) == ()


def test_beside_a_share_whose_size_is_not_told_nobody_knows_what_is_free() -> None:
    """Its type goes by its number then; it may be of this size or of another."""
    held = ProvidedVGPU("a", "0000:3b:00.0", "nvidia-222", Framework.MDEV_PF, "0000:3b:00.0", "nvidia-222")
    offers = [given_by.offer("T4-1Q", most=16, room=15)]
    (kind,) = rulers.ruled(Regime.EQUAL, offers, [held], DriverFacts())
    assert (kind.free, kind.free_cells) == (None, ())
    assert [gap.what for gap in rulers.untold(Regime.EQUAL, offers, [held], DriverFacts())] == ["types.T4-1Q.free"]
    other = replace(held, size_group="2G")
    (kind,) = rulers.ruled(Regime.EQUAL, offers, [other], DriverFacts())
    assert (kind.free, rulers.untold(Regime.EQUAL, offers, [other], DriverFacts())) == (0, ())


def test_a_counter_that_is_not_told_is_no_zero() -> None:
    for most, room in ((16, None), (None, 3)):
        (kind,) = rulers.ruled(Regime.EQUAL, [given_by.offer("T4-1Q", most=most, room=room)], [], DriverFacts())
        assert (kind.free, kind.free_cells, kind.max) == (None, (), most)
