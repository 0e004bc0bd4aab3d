"""How a card should be set: what may be wished, and how it is said to vmctl. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol


class Settings(Protocol):
    """A card's facts and wishes."""

    @property
    def facts(self) -> Mapping[str, Any]: ...

    address: str
    wanted_regime: str
    wanted_vfs: int | None
    scheduler_policy: str
    time_slice_us: int | None
    ecc: bool | None
    offered_types: list[str]


def mistakes(card: Settings, known: Collection[str]) -> dict[str, str]:
    """What is wrong with the wishes, by field. `known`: the types that were seen on the card."""
    facts, wrong = card.facts or {}, {}
    if card.wanted_vfs is not None and facts.get("framework") != "sriov":
        wrong["wanted_vfs"] = "This card is not cut into plain parts; leave it empty."
    most = (facts.get("vfs") or {}).get("total")
    if card.wanted_vfs is not None and most is not None and card.wanted_vfs > most:
        wrong["wanted_vfs"] = f"This card can have at most {most} parts."
    if card.time_slice_us is not None and card.scheduler_policy not in ("equal_share", "fixed_share"):
        wrong["time_slice_us"] = "A time slice needs the policy of equal or of fixed shares."
    if card.scheduler_policy and card.wanted_regime in ("mig", "whole", "vf"):
        wrong["scheduler_policy"] = "The policy is for time-sliced vGPUs: regime equal or mixed."
    if card.scheduler_policy == "fixed_share" and card.wanted_regime == "mixed":
        wrong["scheduler_policy"] = "With shares of several sizes the driver takes no fixed shares."
    if card.ecc is not None and "ecc" in facts and facts["ecc"] is None:
        wrong["ecc"] = "This card has no ECC to be set, or does not tell."
    strange = sorted(set(card.offered_types) - set(known))
    if strange and known:
        wrong["offered_types"] = f"This card does not offer {', '.join(strange)}. It offers {', '.join(sorted(known))}."
    return wrong


def wish(card: Settings) -> dict[str, Any]:
    """The card's entry in a desired state."""
    policy = {"policy": card.scheduler_policy, "time_slice_us": card.time_slice_us} if card.scheduler_policy else None
    return {
        "gpu": card.address,
        "regime": card.wanted_regime or None,
        "vfs": card.wanted_vfs,
        "scheduler": policy,
        "ecc": card.ecc,
        "types": list(card.offered_types) or None,
    }
