"""What a look at a card proves, and how it is said in words. Pure: a card of the `gpus` document in, values out."""

from collections.abc import Iterator, Mapping
from typing import Any

REGIMES = {
    "equal": "shares of one size at a time",
    "mixed": "shares of several sizes side by side",
    "mig": "GPU instances (MIG)",
    "vf": "plain parts (SR-IOV)",
    "whole": "given away whole",
}
WAYS = {
    "mdev-pf": "mediated devices",
    "mdev-vf": "mediated devices on virtual functions",
    "vendor-vfio": "virtual functions of the vendor's driver",
    "sriov": "plain virtual functions",
    "passthrough": "only as a whole",
    "none": "cannot be shared",
}
POLICIES = {"best_effort": "best effort", "equal_share": "equal shares", "fixed_share": "fixed shares"}


LOST = ("mixed", "mig")
"""Regimes that a reboot may take from a card; in shares of one size it comes up by itself."""


def _without_functions(found: Mapping[str, Any]) -> bool:
    """Whether its virtual functions are off, as after a reboot of the host."""
    vfs = found.get("vfs") or {}
    return bool(vfs.get("total")) and not vfs.get("enabled")


def regime_now(found: Mapping[str, Any]) -> str:
    """The regime that a card was put in, as far as it shows; "" where nobody can tell.

    One that is lent out as a whole, or whose virtual functions are off, shows nothing of it, unless it is cut by MIG.
    """
    regime = str(found.get("regime") or "")
    return "" if regime == "whole" or (regime not in LOST and _without_functions(found)) else regime


def has_lost(found: Mapping[str, Any], last: str) -> bool:
    """Whether a card that was in the regime `last` looks as after a reboot. A mode that is being changed is no loss."""
    mig = found.get("mig") or {}
    settled = mig.get("current") == mig.get("pending")
    return last in LOST and settled and _without_functions(found)


def hides_types(found: Mapping[str, Any], wanted: str) -> bool:
    """Whether the card offers types that it cannot show now: they stay known.

    Its virtual functions are off (after a reboot of the host), it is lent out whole, or it could not be asked. A card
    whose MIG mode waits for a reset is none of these: nothing can be made on it.
    """
    mig = found.get("mig") or {}
    if found.get("types") or mig.get("current") != mig.get("pending"):
        return False
    unknown = found.get("unknown") or {}
    lent = found.get("regime") == "whole" and wanted != "whole"
    return _without_functions(found) or lent or "types" in unknown or "vfs" in unknown


def words(found: Mapping[str, Any]) -> Iterator[str]:
    """A card in short sentences: how it is shared, what is on, what is pending, what it could not tell."""
    way = WAYS.get(str(found.get("framework")), "")
    regime = REGIMES.get(str(found.get("regime")), "")
    yield regime if found.get("regime") == "whole" else ", ".join(part for part in (regime, way) if part)
    vfs = found.get("vfs")
    if vfs:
        yield _functions(vfs)
    yield from _modes(found)
    scheduler = found.get("scheduler")
    if scheduler:
        slices = scheduler.get("time_slice_us")
        time = f", time slice {slices / 1000:g} ms" if slices else ""
        yield f"scheduler: {POLICIES.get(scheduler['policy'], scheduler['policy'])}{time}"


def _functions(vfs: Mapping[str, Any]) -> str:
    if not vfs.get("enabled"):
        return f"virtual functions are off ({vfs.get('total')} possible)"
    free = "" if vfs.get("free") is None else f", {vfs['free']} free"
    return f"{vfs['enabled']} of {vfs.get('total')} virtual functions on{free}"


def _modes(found: Mapping[str, Any]) -> Iterator[str]:
    for key, name in (("mig", "MIG"), ("ecc", "ECC")):
        mode = found.get(key)
        if mode and mode["current"] != mode["pending"]:
            yield f"{name} is {_on(mode['current'])}, and {_on(mode['pending'])} after a reset or a reboot of the host"
        elif mode:
            yield f"{name} {_on(mode['current'])}"


def _on(value: object) -> str:
    return "on" if value else "off"


def gaps(found: Mapping[str, Any]) -> list[str]:
    """What the host could not tell of the card, and why."""
    return [f"{what}: {why}" for what, why in (found.get("unknown") or {}).items()]


def reason(found: Mapping[str, Any]) -> str:
    """Why the card cannot be shared; "" where it can."""
    return str(found.get("reason") or "") if found.get("framework") == "none" else ""
