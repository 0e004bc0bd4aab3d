"""vmctl as a child process on this machine: an argument list, a small environment, a limit in seconds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from django.conf import settings

from portal.gateway import answers
from portal.gateway.errors import no_program, out_of_time
from portal.host_address import HostAddress

PROGRAM: tuple[str, ...] = (sys.executable, "-m", "vmctl")
Stream = IO[bytes] | int


def command(address: HostAddress, verb: str, *arguments: str) -> list[str]:
    """The argument list for one verb; no shell ever sees it."""
    state = Path(settings.VAR_DIR) / "hosts" / address.name
    options = {
        "--libvirt-uri": settings.LIBVIRT_URI,
        "--state-dir": state,
        "--storage-dir": Path(settings.STORAGE_DIR) / address.name,
        "--images-dir": settings.IMAGES_DIR,
        "--run-dir": settings.RUN_DIR,
        "--network": settings.GUEST_NETWORK,
        "--licence-token": settings.LICENCE_TOKEN,
        "--host": address.name,
    }
    if address.layout:
        options |= {"--simulate": address.layout, "--root": state / "root"}
    flat = [str(word) for option in options.items() for word in option]
    return [*PROGRAM, *flat, verb, "--json", *arguments]


def environment() -> dict[str, str]:
    """What a child needs and nothing more: no password of the portal reaches a host's process."""
    kept = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH")
    return {name: os.environ[name] for name in kept if name in os.environ} | {"LANG": "C.UTF-8"}


def call(
    address: HostAddress, verb: str, *, limit: float, given: Mapping[str, Any] | None, accepted: tuple[int, ...]
) -> dict[str, Any]:
    """Run one verb. Files, not pipes: big output cannot block, and a grandchild that keeps them open cannot either."""
    what = f"{verb} on {address.name}"
    with tempfile.TemporaryFile() as entered, tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as said:
        if given is not None:
            entered.write(json.dumps(given).encode())
            entered.seek(0)
        status = _run(command(address, verb), entered, printed, said, limit=limit, what=what)
        return answers.read(status, text(printed), text(said), answers=accepted, what=what)


def _run(words: list[str], entered: IO[bytes], printed: IO[bytes], said: IO[bytes], *, limit: float, what: str) -> int:
    """The child's exit status. Past its limit in seconds it is killed; its tools keep the host busy until they end."""
    child = start(words, stdin=entered, stdout=printed, stderr=said)
    try:
        return child.wait(timeout=limit)
    except subprocess.TimeoutExpired:
        raise out_of_time(what, limit) from None
    finally:
        end(child)


def start(words: list[str], *, stdin: Stream, stdout: Stream, stderr: Stream) -> subprocess.Popen[bytes]:
    """A child in a session of its own, so that all it started can be ended with it."""
    try:
        return subprocess.Popen(
            words,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=environment(),
            cwd=settings.BASE_DIR,
            start_new_session=True,
        )
    except OSError as error:
        raise no_program(words[0], error) from error


def end(child: subprocess.Popen[bytes]) -> None:
    """End the child with all it started, and reap it."""
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def text(file: IO[bytes]) -> str:
    """What a child has written, a little more than is allowed at most."""
    file.seek(0)
    return file.read(answers.LARGEST_ANSWER + 1).decode(errors="replace")
