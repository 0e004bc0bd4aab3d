"""Two releases of Tessera that talk to each other: the portal's and a host's. Pure."""

import re


def difference(theirs: str, ours: str) -> str:
    """Why a host's vmctl should be looked at, as sentences; "" where it is of the portal's release."""
    if theirs == ours:
        return ""
    told = f"vmctl there is of release {theirs or '(not told)'}, the portal of {ours}."
    steps = _steps(theirs, ours)
    if steps is None or steps > 1:
        return f"{told} They are too far apart to work together for sure: install the portal's release there."
    if steps == 0:
        return f"{told} They work together."
    return f"{told} They work together one release apart; install the same release on both soon."


def _steps(theirs: str, ours: str) -> int | None:
    """How many releases lie between two: the second number counts them. None: nobody can tell."""
    found = [re.match(r"(\d+)\.(\d+)\.", version) for version in (theirs, ours)]
    if found[0] is None or found[1] is None or found[0][1] != found[1][1]:
        return None
    return abs(int(found[0][2]) - int(found[1][2]))
