"""The ruler of a GPU in MIG mode: a vGPU lies in a GPU instance of its own profile (dossier 3.3). Pure.

The ruler are the GPU's memory slices: a cell is [start, start + size) for the starts that the driver lists for the
profile. One vGPU fills an instance, except where the driver says that several share one: then each has a slot.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from vmctl.card import Cell, ProvidedVGPU, Regime, Unknown, VGPUType
from vmctl.gpus.driver.answers import DriverFacts, Instance, Profile
from vmctl.gpus.layers.cells import apart, at_most, least, overlap
from vmctl.gpus.layers.cells import ruled as ruled_type
from vmctl.gpus.shares import Offer
from vmctl.gpus.types import believable

NAME = re.compile(r".+-(?P<slices>\d+)-(?P<gigabytes>\d+)[QBAC](?P<media>ME)?")
"""Board, slices, frame buffer, series: `A100D-3-40C`; `ME`: the instance with the media engines (dossier 2)."""


def is_backed(name: str, told: DriverFacts) -> bool:
    """Whether vGPUs of a type lie in GPU instances; all others share the GPU's time."""
    facts = told.types.get(name)
    return (facts is not None and facts.profile_id is not None) or NAME.fullmatch(name) is not None


def profile_of(name: str, told: DriverFacts) -> Profile | None:
    """The profile of a type's GPU instance: by the id that the driver tells with the type, else by the type's name.

    None where the driver lists no such profile. Ids belong to this GPU and this driver, so both come from the host.
    """
    facts = told.types.get(name)
    if facts is not None and facts.profile_id is not None:
        return next((profile for profile in told.profiles if profile.id == facts.profile_id), None)
    parts = NAME.fullmatch(name)
    if parts is None:
        return None
    plain = f"{parts['slices']}g.{parts['gigabytes']}gb" + ("+me" if parts["media"] else "")
    named = {profile.name: profile for profile in told.profiles}
    return named.get(plain) or named.get(f"{plain}+gfx")  # graphics types need +gfx (dossier 2)


def cells(profile: Profile) -> tuple[Cell, ...]:
    """The legal places of a profile."""
    return tuple((start, start + profile.size) for start in sorted(profile.starts))


def cell(instance: Instance) -> Cell:
    """Where a GPU instance lies."""
    return (instance.start, instance.start + instance.size)


def slots_of(name: str, told: DriverFacts) -> int:
    """How many vGPUs of a type one GPU instance takes."""
    facts = told.types.get(name)
    return 1 if facts is None else believable(facts.per_instance) or 1


def ruled(offer: Offer, held: Sequence[ProvidedVGPU], told: DriverFacts, handles: int | None = None) -> VGPUType:
    """A type with its legal cells, those free now, and the slots of each."""
    kind, profile = offer.kind, profile_of(offer.kind.name, told)
    slots = slots_of(kind.name, told)
    legal = cells(profile) if profile is not None else ()
    left = {} if profile is None else {each: _left(each, profile, offer, held, told) for each in legal}
    free = tuple(each for each in legal if left[each])
    begun = [each for each in free if any(share.cell == each for share in held)]
    fresh = len(apart(each for each in free if each not in begun))
    held_alike = sum(share.type == kind.name for share in held)
    most = count = None
    if profile is not None:
        limit = 1 if profile.media else profile.total  # one set of media engines makes one instance
        most = slots * at_most(len(apart(legal)), limit)
        count = sum(left[each] for each in begun) + slots * at_most(fresh, limit, profile.free)
    return ruled_type(
        kind,
        Regime.MIG,
        max=least(most, kind.most),
        cells=legal,
        free_cells=free,
        slots=tuple((number, number + 1) for number in range(slots)),
        free=least(
            None if told.instances is None else count,
            None if kind.most is None else kind.most - held_alike,
            handles,
        ),
        gi_profile=None if profile is None else profile.name,
        media=profile is not None and profile.media,
    )


def untold(offer: Offer, told: DriverFacts) -> tuple[Unknown, ...]:
    """What cannot be said of a type, and why."""
    name = offer.kind.name
    if profile_of(name, told) is None:
        return (Unknown(f"types.{name}.cells", "The driver does not tell which GPU instance profile it needs."),)
    if told.instances is None:
        return (Unknown(f"types.{name}.free", "The driver does not tell which GPU instances exist."),)
    return ()


def _left(place: Cell, profile: Profile, offer: Offer, held: Sequence[ProvidedVGPU], told: DriverFacts) -> int:
    """How many more vGPUs of a type a place takes now.

    A GPU instance in which none of the shares lies is somebody else's: it is in the way even where it would fit.
    """
    here = [share for share in held if share.cell == place and profile_of(share.type, told) == profile]
    beside = [share for share in held if share.cell is not None and share not in here]
    if told.instances is None or any(share.size_group != offer.kind.size_group for share in here):
        return 0
    others = [each for each in told.instances if not (here and (cell(each), each.profile_id) == (place, profile.id))]
    if any(overlap(share.cell, place) for share in beside if share.cell is not None):
        return 0
    if any(overlap(cell(each), place) for each in others):
        return 0
    if profile.media and (_has_media(beside, told) or any(_is_media(each, told) for each in others)):
        return 0
    return slots_of(offer.kind.name, told) - len(here)


def _has_media(held: Sequence[ProvidedVGPU], told: DriverFacts) -> bool:
    profiles = (profile_of(share.type, told) for share in held)
    return any(profile is not None and profile.media for profile in profiles)


def _is_media(instance: Instance, told: DriverFacts) -> bool:
    return any(profile.id == instance.profile_id and profile.media for profile in told.profiles)
