"""What stops a build, as one sentence that says what to do."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path


class BuildError(Exception):
    """The image cannot be made; the text says why and what to do about it."""


def call(
    command: Sequence[str | Path], *, remedy: str, env: dict[str, str] | None = None, folder: Path | None = None
) -> str:
    """Standard output of the command; a failure is a BuildError with the command's last line and the remedy."""
    name = str(command[0])
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=folder, timeout=300)
    except FileNotFoundError:
        raise BuildError(f"The command {name} is missing: {remedy}") from None
    except subprocess.TimeoutExpired:
        raise BuildError(f"The command {name} did not end within 300 s: {remedy}") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no reason given"]
        raise BuildError(f"{name} failed ({lines[-1].strip()}): {remedy}")
    return done.stdout


def find_program(name: str, package: str) -> Path:
    """Path of an installed program; sbin folders count too, since a user's PATH often lacks them."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin:/usr/bin:/bin")
    if found is None:
        raise BuildError(f"The command {name} is missing: install the package {package}.")
    return Path(found)
