"""What a folder holds, to the file, without any of our code: the judge of what was left behind or is missing."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

# What remembers on purpose (the journal, the portal's last word, what a driver does not show), and locks, which hold
# nothing when nobody has them.
REMEMBERED = re.compile(r".*(/journal\.jsonl(\.1)?|/memory\.json|/kvm\.json|/time-slices\.json|[/.]lock)")


def taken(folder: Path) -> Mapping[str, str]:
    """Every file with its content, every link with its target, every folder."""
    found: dict[str, str] = {}
    for place, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(place, name)
            if REMEMBERED.fullmatch(path) is None:
                found[path] = _what(path)
    return found


def _what(path: str) -> str:
    if os.path.islink(path):
        return f"-> {os.readlink(path)}"
    if os.path.isdir(path):
        return "a folder"
    try:
        with open(path, "rb") as file:
            return file.read().decode(errors="replace")
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """One line for each thing that is left, missing or another; none if both are alike to the file."""
    return [
        *(f"left: {path}" for path in sorted(after.keys() - before.keys())),
        *(f"missing: {path}" for path in sorted(before.keys() - after.keys())),
        *(
            f"other: {path}: {before[path][:200]!r} became {after[path][:200]!r}"
            for path in sorted(before.keys() & after.keys())
            if before[path] != after[path]
        ),
    ]
