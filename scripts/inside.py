"""A command inside the running copy: its services, its settings, its view of the folders."""

from __future__ import annotations

import json
import os
from typing import NoReturn

from scripts import instance as instances
from scripts.instance import CHECKOUT, Instance
from scripts.terminal import Refusal


def remember(instance: Instance, settings: dict[str, str]) -> None:
    """Write down what a command needs to meet the running services; for root's eyes, the secret key is in it."""
    file = instance.run_dir / "settings.json"
    file.unlink(missing_ok=True)
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as out:
        json.dump(settings, out)


def become(command: list[str], environ: dict[str, str]) -> NoReturn:
    """Turn into the command, in the mount namespace of this checkout's `make run`."""
    instance = instances.of_checkout(environ)
    holder = instance.holder()
    if holder is None:
        raise Refusal("Nothing of this checkout runs.", "Start it with `make run`, in another terminal.")
    settings = json.loads((instance.run_dir / "settings.json").read_text())
    words = ["nsenter", f"--mount=/proc/{holder}/ns/mnt", "sh", "-c", 'cd "$0" && exec "$@"', str(CHECKOUT)]
    os.execvpe("nsenter", [*words, *command], environ | settings)
