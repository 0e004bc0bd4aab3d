"""While the portal is silent, a machine ends at its end; while it calls, only apply stops machines."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.vmctl.real.place import Place, until


def test_it_acts_only_when_the_portal_is_silent_and_only_past_the_end(place: Place) -> None:
    ended, going_on = place.with_vgpu("ended", image="obedient", minutes=0.15), place.machine("on")
    place.apply(ended, going_on, expire_allowance_seconds=900)
    place.until_up("ended")
    until(lambda: datetime.now(UTC) > datetime.fromisoformat(ended["end"]), 20)
    assert place.run("expire").kinds == []

    place.apply(ended | {"promised": going_on["end"]}, going_on, expire_allowance_seconds=0)
    expired = place.run("expire")
    assert (expired.status, expired.kinds) == (0, ["ask_stop"])
    assert expired.document["steps"][0]["machine"] == place.uuid("ended")
    until(lambda: list(place.domains().values()) == [place.uuid("on")], 20)
