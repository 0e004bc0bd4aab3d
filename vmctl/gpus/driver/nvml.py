"""What NVML said of the cards of a host (nvml_child.py), in our words. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from vmctl.card import Mode, Policy, Scheduler
from vmctl.gpus.address import normalise
from vmctl.gpus.driver.answers import Active, GPUFigures, Instance, Load, Profile, TypeFacts, Untold, VGPUFigures
from vmctl.gpus.type_names import plain

T = TypeVar("T")
Json = Mapping[str, Any]

NOT_SUPPORTED = 3
HOST_VGPU = 3
POLICIES = {1: Policy.BEST_EFFORT, 2: Policy.EQUAL_SHARE, 3: Policy.FIXED_SHARE}
LICENCES = {2: "unlicensed (unrestricted)", 3: "unlicensed (restricted)", 4: "unlicensed"}
LICENSED = 5
EXPIRY_VALID = 2
NO_PLACEMENT = 0xFFFFFFFF
"""What NVML gives for a place or a GPU instance where there is none."""


class NVML:
    """The source that answers all at once."""

    def __init__(self, told: Json) -> None:
        self._cards: dict[str, Json] = {}
        for card in told.get("gpus", ()):
            if "said" in card["address"]:
                self._cards[normalise(card["address"]["said"])] = card

    def _ask(self, address: str, question: str, read: Callable[[Any], T]) -> T | Untold | None:
        """None: the card has no such thing."""
        card = self._cards.get(address)
        if card is None:
            return Untold(f"NVML does not list {address}.")
        if question not in card:
            return Untold(f"NVML was not asked for {question}.")
        if "said" in card[question]:
            return read(card[question]["said"])
        return None if card[question]["error"] == NOT_SUPPORTED else Untold(f"NVML says: {card[question]['text']}.")

    def vgpu_host(self, address: str) -> bool | Untold:
        return known(self._ask(address, "virtualization", lambda said: bool(said == HOST_VGPU)), False)

    def name(self, address: str) -> tuple[str | None, str | None] | Untold:
        uuid, model = self._ask(address, "uuid", str), self._ask(address, "model", str)
        if isinstance(uuid, Untold) and isinstance(model, Untold):
            return uuid
        return (None if isinstance(uuid, Untold) else uuid), (None if isinstance(model, Untold) else model)

    def mig(self, address: str) -> Mode | Untold | None:
        return self._ask(address, "mig", _mode)

    def ecc(self, address: str) -> Mode | Untold | None:
        return self._ask(address, "ecc", _mode)

    def mixed(self, address: str) -> bool | Untold | None:
        return self._ask(address, "mixed", bool)

    def scheduler(self, address: str) -> Scheduler | Untold | None:
        return self._ask(address, "scheduler", _scheduler) or Untold("NVML names no scheduler policy.")

    def types(self, address: str, creatable: bool) -> Mapping[str, TypeFacts] | Untold:
        found = known(self._ask(address, "types", lambda said: [_type(each) for each in said]), [])
        if isinstance(found, Untold):
            return found
        whole = {kind.name: kind for kind in found if kind is not None}
        if len(whole) != len(found):
            return Untold("NVML lists a vGPU type without a name of its own.")
        if creatable and any(kind.creatable is None for kind in whole.values()):
            return Untold("NVML does not tell the free places of every vGPU type.")
        return whole

    def profiles(self, address: str) -> tuple[Profile, ...] | Untold:
        found = [_profile(each) for each in self._profiles(address)]
        whole = tuple(each for each in found if each is not None)
        return whole if whole and len(whole) == len(found) else Untold("NVML does not tell every MIG profile.")

    def instances(self, address: str) -> tuple[Instance, ...] | Untold:
        found: list[Instance] = []
        profiles = self._profiles(address)
        for profile in profiles:
            said = value(profile.get("instances", {}))
            if said is None:
                return Untold("NVML does not tell the GPU instances of every profile.")
            name = _profile_name(profile)
            found += (Instance(each["id"], name, profile["id"], each["start"], each["size"]) for each in said)
        return tuple(found) if profiles else Untold("NVML tells no MIG profile.")

    def _profiles(self, address: str) -> list[Json]:
        return list(self._cards.get(address, {}).get("profiles", ()))

    def active(self, address: str) -> tuple[Active, ...] | Untold:
        found = self.vgpus(address)
        return found if isinstance(found, Untold) else tuple(each.active for each in found)

    def figures(self, address: str) -> GPUFigures | Untold:
        card = self._cards.get(address)
        if card is None:
            return Untold(f"NVML does not list {address}.")
        busy = value(card.get("busy", {})) or (None, None)
        return GPUFigures(
            Load(busy[0], busy[1], value(card.get("encoder", {})), value(card.get("decoder", {}))),
            mib(value(card.get("memory_used", {}))),
            value(card.get("temperature", {})),
            value(card.get("power", {})),
        )

    def vgpus(self, address: str) -> tuple[VGPUFigures, ...] | Untold:
        samples = value(self._cards.get(address, {}).get("samples", {})) or {}
        return known(self._ask(address, "active", lambda said: tuple(_running(each, samples) for each in said)), ())


def known(answer: T | Untold | None, otherwise: T) -> T | Untold:
    """An answer, with another word for "no such thing"."""
    return otherwise if answer is None else answer


def value(answer: Json) -> Any:
    """What was said, or None."""
    return answer.get("said")


def mib(count: int | None) -> int | None:
    """Bytes in MiB."""
    return None if count is None else count // 2**20


def _placed(answer: Json) -> int | None:
    said = value(answer)
    return None if said == NO_PLACEMENT else said


def _mode(said: list[int]) -> Mode:
    return Mode(bool(said[0]), bool(said[1]))


def _scheduler(said: Json) -> Scheduler | None:
    policy = POLICIES.get(said["policy"])
    return Scheduler(policy, said["slice_ns"] // 1000 or None) if policy else None


def _type(said: Json) -> TypeFacts | None:
    name, supported, creatable = value(said["name"]), value(said["placements"]), value(said["creatable"])
    if name is None:
        return None
    return TypeFacts(
        name=plain(name),
        number=said["number"],
        memory_mib=mib(value(said["memory"])),
        most=value(said["most"]),
        per_instance=value(said["per_instance"]),
        profile_id=_placed(said["profile"]),
        placement_size=None if supported is None else supported["size"],
        placements=None if supported is None else tuple(supported["starts"]),
        creatable=None if creatable is None else tuple(creatable["starts"]),
    )


def _profile_name(said: Json) -> str:
    return str(said["name"]).removeprefix("MIG ")


def _profile(said: Json) -> Profile | None:
    places = value(said.get("places", {}))
    if not places:
        return None
    name, starts = _profile_name(said), tuple(start for start, _ in places)
    return Profile(said["id"], name, places[0][1], starts, value(said["free"]), said["total"], "+me" in name)


def _running(said: Json, samples: Mapping[str, list[int]]) -> VGPUFigures:
    load = samples.get(str(said["number"]))
    active = Active(
        number=said["number"],
        vm=value(said["vm"]),
        mdev=value(said["mdev"]) or None,
        type=plain(value(said["type"]) or ""),
        placement=_placed(said["placement"]),
        instance=_placed(said["instance"]),
        licence=_licence(value(said["licence"])),
        guest_driver=value(said["guest_driver"]) or None,
        frame_buffer_used_mib=mib(value(said["memory_used"])),
    )
    shown = Load(*(percent if percent <= 100 else None for percent in load)) if load else Load()
    return VGPUFigures(active, shown, mib(value(said["memory"])))


def _licence(said: Json | None) -> str | None:
    """The same words as of nvidia-smi (smi_cards.licence)."""
    if said is None:
        return None
    if said["state"] != LICENSED or said["valid"] != EXPIRY_VALID:
        return LICENCES.get(said["state"], "licensed" if said["state"] == LICENSED else None)
    year, month, day, hour, minute, second = said["expiry"]
    return f"licensed until {year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} GMT"
