"""The supervisor of `make run`, and of the private services that tests need.

python -m scripts.stack run
python -m scripts.stack inside -- COMMAND ...
python -m scripts.stack with postgres,redis,libvirt [--instance NAME] -- COMMAND ...
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys

from scripts import inside, throw_away, whole
from scripts.terminal import Refusal


def main(words: list[str]) -> int:
    known = parser().parse_args(words)
    os.umask(0o022)  # service users enter what we make
    try:
        become_root()
        if known.verb == "run":
            return whole.run(dict(os.environ))
        if known.verb == "inside":
            inside.become(known.command, dict(os.environ))
        return throw_away.around(known.command, known.services, known.instance)
    except Refusal as refusal:
        print(f"\n{refusal}", file=sys.stderr)
        return 1


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m scripts.stack")
    verbs = top.add_subparsers(dest="verb", required=True)
    verbs.add_parser("run", help="the whole portal with its private services")
    within = verbs.add_parser("inside", help="a command in the running copy, with its settings and services")
    within.add_argument("command", nargs="+", help="what to run, after --")
    tests = verbs.add_parser("with", help="private services with throw-away data around a command")
    tests.add_argument("services", type=lambda text: text.split(","), help="postgres,redis,libvirt or some of them")
    tests.add_argument("--instance", help="its name (default: a new one)")
    tests.add_argument("command", nargs="+", help="what to run, after --")
    return top


def become_root() -> None:
    """libvirt, bridges and a mount namespace need root; the environment's settings come along."""
    if os.geteuid() == 0:
        return
    if shutil.which("sudo") is None:
        raise Refusal("This needs root, and sudo is not installed.", "Run it as root.")
    settings = ",".join(name for name in os.environ if name.isupper() and name not in ("PATH", "HOME", "USER"))
    words = ["sudo", f"--preserve-env={settings}", sys.executable, "-m", "scripts.stack", *sys.argv[1:]]
    os.execvp("sudo", words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
