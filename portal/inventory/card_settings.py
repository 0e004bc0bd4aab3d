"""How a card should be set: what may be wished, and how it is said to vmctl. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from portal.inventory import sight

UNSHARED = ("mig", "whole", "vf")
"""Regimes in which nobody shares time."""


class Settings(Protocol):
    """A card's facts and wishes."""

    @property
    def facts(self) -> Mapping[str, Any]: ...

    address: str
    last_regime: str
    wanted_regime: str
    wanted_vfs: int | None
    scheduler_policy: str
    time_slice_us: int | None
    ecc: bool | None
    offered_types: list[str]


def mistakes(card: Settings, known: Collection[str]) -> dict[str, str]:
    """What is wrong with the wishes, by field. `known`: the types that were seen on the card."""
    facts, wrong = card.facts or {}, {}
    if card.wanted_regime and (never := _never(card.wanted_regime, facts)):
        wrong["wanted_regime"] = never
    if card.wanted_vfs is not None and card.wanted_regime not in ("", "vf"):
        wrong["wanted_vfs"] = "Only a card that is cut into plain parts has a number of them; leave it empty."
    if card.wanted_vfs is not None and facts.get("framework") != "sriov":
        wrong["wanted_vfs"] = "This card is not cut into plain parts; leave it empty."
    most = (facts.get("vfs") or {}).get("total")
    if card.wanted_vfs is not None and most is not None and card.wanted_vfs > most:
        wrong["wanted_vfs"] = f"This card can have at most {most} parts."
    if card.time_slice_us is not None and card.scheduler_policy not in ("equal_share", "fixed_share"):
        wrong["time_slice_us"] = "A time slice needs the policy of equal or of fixed shares."
    if card.scheduler_policy and card.wanted_regime in UNSHARED:
        wrong["scheduler_policy"] = "The policy is for time-sliced vGPUs: regime equal or mixed."
    if card.scheduler_policy == "fixed_share" and card.wanted_regime == "mixed":
        wrong["scheduler_policy"] = "With shares of several sizes the driver takes no fixed shares."
    if card.ecc is not None and "ecc" in facts and facts["ecc"] is None:
        wrong["ecc"] = "This card has no ECC to be set, or does not tell."
    strange = sorted(set(card.offered_types) - set(known))
    if strange and known:
        wrong["offered_types"] = f"This card does not offer {', '.join(strange)}. It offers {', '.join(sorted(known))}."
    return wrong


def _never(regime: str, facts: Mapping[str, Any]) -> str:
    """Why a card can never be in a regime; "" where it can, or where no driver has told what it can."""
    if regime in ("", facts.get("regime")) or facts.get("driver") in (None, "vfio-pci"):
        return ""
    way, unknown = facts.get("framework"), facts.get("unknown") or {}
    if regime == "whole":
        return "" if "whole" in (facts.get("regimes") or []) else "This card cannot be given away whole."
    if regime == "vf":
        return "" if way == "sriov" else "This card is not cut into plain parts."
    if way in ("sriov", "passthrough", "none"):
        return f"This card makes no shares: {sight.WAYS[way]}."
    if regime in sight.LOST and facts.get(regime) is None and regime not in unknown:
        return (
            "This card has no MIG." if regime == "mig" else "This card takes no shares of several sizes side by side."
        )
    return ""


def wish(card: Settings, used: str = "") -> dict[str, Any]:
    """The card's entry in a desired state. `used`: the regime of the shares that should be on it now, if any.

    Where no operator has decided, it is only brought back: to what a reboot took, or what its own machines still need.
    """
    lost = sight.has_lost(card.facts or {}, card.last_regime)
    again = card.last_regime if lost or (used == card.last_regime and used in sight.LOST) else ""
    regime = card.wanted_regime or again
    return {
        "gpu": card.address,
        "regime": regime or None,
        "vfs": card.wanted_vfs if regime in ("", "vf") else None,
        "scheduler": _scheduler(card, regime),
        "ecc": card.ecc,
        "types": list(card.offered_types) or None,
    }


def _scheduler(card: Settings, regime: str) -> dict[str, Any] | None:
    """The policy, where a card in this regime takes one: with another vmctl refuses the whole document."""
    policy = card.scheduler_policy
    if not policy or regime in UNSHARED or (policy, regime) == ("fixed_share", "mixed"):
        return None
    return {"policy": policy, "time_slice_us": card.time_slice_us}
