"""The command line: the questions and changes that a host with these cards knows; all others are refused."""

from __future__ import annotations

import sys

from . import changes, lists
from .cards import BAD_ARGUMENT, NOT_FOUND, NOT_SUPPORTED, Refused, meant


def main(words: list[str]) -> int:
    try:
        sys.stdout.write(answer(words))
    except Refused as refused:
        sys.stdout.write(str(refused))
        return refused.status
    return 0


def answer(words: list[str]) -> str:
    chosen = meant(words)
    match _without(words, "-i"):
        case ["-L"]:
            lines = lists.names(chosen)
        case ["-q"]:
            lines = lists.query(chosen)
        case ["vgpu", "-q"]:
            lines = lists.running(chosen)
        case ["vgpu", "-s" | "-c" as which, *verbose] if verbose in ([], ["-v"]):
            lines = lists.types(chosen, creatable=which == "-c", verbose=bool(verbose))
        case ["vgpu", "-ss"]:
            lines = lists.schedulers(chosen)
        case ["vgpu", "set-scheduler-state", "-p", policy, *more] if policy in lists.POLICIES:
            return changes.set_scheduler(chosen, policy, more[more.index("-ts") + 1] if "-ts" in more else None)
        case ["-e", "0" | "1" as wanted]:
            return changes.set_ecc(chosen, wanted)
        case ["vgpu", "-shm", _] | ["-mig", _]:
            raise Refused(NOT_SUPPORTED, "".join(f"Not Supported on GPU {card.bus_id}\n" for card in chosen))
        case ["mig", *_]:
            raise Refused(NOT_FOUND, "No MIG-enabled devices found.\n")
        case _:
            raise Refused(
                BAD_ARGUMENT, "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n"
            )
    return "".join(f"{line}\n" for line in lines)


def _without(words: list[str], flag: str) -> list[str]:
    """The words but a flag and what follows it."""
    place = words.index(flag) if flag in words else len(words)
    return words[:place] + words[place + 2 :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
