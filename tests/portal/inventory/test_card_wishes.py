"""What the portal says of cards is what vmctl takes: one entry that it refuses would stop a whole host."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from typing import Any

from portal.inventory import card_settings
from tests.vmctl.build import document
from vmctl.plan import desired


@dataclass
class Card:
    """A card with any wishes, even those that no form would have let through."""

    wanted_regime: str
    last_regime: str
    scheduler_policy: str
    time_slice_us: int | None
    wanted_vfs: int | None
    address: str = "0000:3b:00.0"
    ecc: bool | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    offered_types: list[str] = field(default_factory=list)


REGIMES = ("", "equal", "mixed", "mig", "vf", "whole")
TIMES = (("", None), ("best_effort", None), ("equal_share", None), ("equal_share", 2000), ("fixed_share", 2000))


def test_no_card_of_the_portals_stops_a_host() -> None:
    for regime, last, (policy, time_slice), vfs in itertools.product(REGIMES, REGIMES, TIMES, (None, 4)):
        card = Card(regime, last, policy, time_slice, vfs)
        for used in REGIMES:
            (found,) = desired.parse(json.dumps(document(cards=[card_settings.wish(card, used)]))).cards
            assert (found.regime is None) or found.regime in (regime, last)


def test_what_a_card_takes_is_said() -> None:
    fixed = {"policy": "fixed_share", "time_slice_us": 2000}
    assert card_settings.wish(Card("equal", "", "fixed_share", 2000, None))["scheduler"] == fixed
    assert card_settings.wish(Card("mixed", "", "fixed_share", 2000, None))["scheduler"] is None
    assert card_settings.wish(Card("vf", "", "", None, 4))["vfs"] == 4
    assert card_settings.wish(Card("", "", "", None, 4))["vfs"] == 4
