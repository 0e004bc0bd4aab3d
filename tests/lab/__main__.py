"""The lab by hand: python -m tests.lab build | up | join | stop | status."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.lab import build, cache, join, process
from tests.lab.errors import LabError
from tests.lab.machine import Lab


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description=__doc__)
    parser.add_argument("verb", choices=VERBS)
    parser.add_argument("--folder", type=Path, default=cache.home() / "run", help="where the lab lies that runs")
    parser.add_argument("--port", type=int, default=0, help="for its sshd (default: the last one)")
    parser.add_argument("--cold", action="store_true", help="boot it, instead of taking the saved state")
    parser.add_argument("--again", action="store_true", help="make all anew, with the newest packages")
    known = parser.parse_args(words)
    try:
        return VERBS[known.verb](known)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1


def make(known: argparse.Namespace) -> int:
    build.ensure(again=known.again)
    return 0


def up(known: argparse.Namespace) -> int:
    """Start it, or leave the one alone that runs."""
    lab = Lab.found(known.folder)
    if lab is None:
        ready = build.ensure()
        lab = Lab.start(known.folder, ready=ready, cold=known.cold, port=known.port or last(known.folder), lasting=True)
    print(f"root@127.0.0.1:{lab.port} {lab.keys.host_fingerprint} {lab.keys.admin}")
    return 0


def bring_in(known: argparse.Namespace) -> int:
    """Start it, and make it a host of the portal that runs here."""
    up(known)
    lab = Lab.found(known.folder)
    if lab is None:
        raise LabError(f"It has ended at once; see {known.folder}/qemu.log.")
    print(join.join(lab))
    return 0


def last(folder: Path) -> int:
    """The port that a lab of this folder had: who knows it finds it again."""
    file = folder / "port"
    return int(file.read_text()) if file.exists() else 0


def stop(known: argparse.Namespace) -> int:
    process.stop(known.folder)
    print(f"lab: does not run. {join.STAYS}")
    return 0


def status(known: argparse.Namespace) -> int:
    """Exit status 1: it does not run."""
    lab = Lab.found(known.folder)
    if lab is None:
        print("lab: does not run")
        return 1
    up_since = lab.shell("uptime -p").strip()
    print(f"lab: runs, {up_since}; process {process.running(known.folder)}, root@127.0.0.1:{lab.port}")
    return 0


VERBS = {"build": make, "up": up, "join": bring_in, "stop": stop, "status": status}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
