"""python -m tests.bench [NAME ...]: all benchmarks, or some.  Exit status 1 when an aim was missed."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator

from tests.bench.result import Result
from tests.bench.world import django

# Their modules import models, so they are imported when Django is set up.
BENCHES = {
    "book": "tests.bench.bookings",
    "calendar": "tests.bench.bookings",
    "apply_nothing": "tests.bench.hosts",
    "large_host": "tests.bench.hosts",
    "first_screen": "tests.bench.screens",
}


def main(names: list[str]) -> int:
    unknown = set(names) - set(BENCHES)
    if unknown:
        print(f"No benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(BENCHES)}.", file=sys.stderr)
        return 2
    chosen = names or list(BENCHES)
    if len(chosen) > 1:  # a process each, and so a database each
        return max(
            subprocess.run([sys.executable, "-m", "tests.bench", name], check=False).returncode for name in chosen
        )
    with django():
        results = list(measured(chosen[0]))
    return 0 if all(result.ok for result in results) else 1


def measured(name: str) -> Iterator[Result]:
    """Print each result as it comes."""
    for result in getattr(importlib.import_module(BENCHES[name]), name)():
        print(result.line(), flush=True)
        yield result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
