"""python -m tests.bench [NAME ...]: all benchmarks, or some.  Exit status 1 when an aim was missed."""

from __future__ import annotations

import importlib
import sys

from tests.bench.world import django

# Their modules import models, so they are imported when Django is set up.
BENCHES = {
    "book": "tests.bench.bookings",
    "calendar": "tests.bench.bookings",
    "apply_nothing": "tests.bench.hosts",
    "first_screen": "tests.bench.screens",
}


def main(names: list[str]) -> int:
    unknown = set(names) - set(BENCHES)
    if unknown:
        print(f"No benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(BENCHES)}.", file=sys.stderr)
        return 2
    kept = True
    with django():
        for name in names or BENCHES:
            for result in getattr(importlib.import_module(BENCHES[name]), name)():
                print(result.line(), flush=True)
                kept &= result.ok
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
