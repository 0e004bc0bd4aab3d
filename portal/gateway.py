"""The only door to vmctl: one function per verb the portal uses, for one host.

Every call is a child process with an argument list, a small environment and a limit in seconds. What goes in and what
comes out are the JSON documents of docs/schemas/. Whatever goes wrong becomes one GatewayError with its remedy.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol
from uuid import UUID

from django.conf import settings

Report = dict[str, Any]  # docs/schemas/report.schema.json
Desired = Mapping[str, Any]  # docs/schemas/desired.schema.json

LOOK_SECONDS = 30  # a look without a change: observe, gpus
LARGEST_ANSWER = 32 * 1024 * 1024  # bytes; a host of 500 machines answers with about 1 MiB
CONSOLE_OPEN_SECONDS = 10  # until the screen's first bytes
CHUNK = 64 * 1024  # bytes of a console read at once, and what may wait on either side
PROGRAM: tuple[str, ...] = (sys.executable, "-m", "vmctl")
EXIT_MEANINGS = {1: "it failed", 2: "it was given bad input", 3: "it could not tell"}


@dataclass(frozen=True)
class HostAddress:
    """Where a host is and how it is reached. kind: "local" or "simulated"; layout: which simulated GPUs, or ""."""

    name: str
    kind: str
    layout: str = ""


class GatewayError(Exception):
    """A call that did not work. code: vmctl's, or no_program, timeout, garbage, no_screen; retry: may yet work."""

    def __init__(self, code: str, what: str, remedy: str, retry: bool) -> None:
        super().__init__(what)
        self.code = code
        self.what = what
        self.remedy = remedy
        self.retry = retry

    def as_dict(self) -> dict[str, Any]:
        """As it is stored with the host and shown to operators."""
        return {"code": self.code, "what": self.what, "remedy": self.remedy, "retry": self.retry}


class ByteStream(Protocol):
    """The bytes of one screen, both ways. Whoever opens it closes it."""

    async def read(self) -> bytes:
        """The next bytes; b"" once the other side has closed."""

    async def write(self, data: bytes) -> None:
        """Hand bytes over; returns only when there is room for more."""

    async def close(self) -> None:
        """Free everything; may be called twice."""


def observe(address: HostAddress) -> Report:
    """What is on the host now; changes nothing."""
    return _call(address, "observe", limit=LOOK_SECONDS)


def gpus(address: HostAddress) -> dict[str, Any]:
    """The host's GPUs and what they can be divided into."""
    return _call(address, "gpus", limit=LOOK_SECONDS)


def apply(address: HostAddress, desired: Desired) -> Report:
    """Bring the host to the desired state; the report says what was done and what is there now."""
    return _call(address, "apply", given=desired, limit=settings.APPLY_TIMEOUT_SECONDS, answers=(0, 1, 3))


async def open_console(address: HostAddress, machine: UUID) -> ByteStream:
    """The machine's screen. Returned only once the screen has spoken; otherwise GatewayError."""
    stream = await _ConsoleChild.start(command(address, "console", "--machine", str(machine)))
    try:
        async with asyncio.timeout(CONSOLE_OPEN_SECONDS):
            await stream.wait_for_greeting()
    except TimeoutError:
        await stream.close()
        raise GatewayError(
            "no_screen", "The machine's screen did not answer.", "Open the console again in a moment.", True
        ) from None
    except BaseException:
        await stream.close()
        raise
    return stream


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


def _environment() -> dict[str, str]:
    """What a child needs and nothing more: no password of the portal reaches a host's process."""
    kept = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH")
    return {name: os.environ[name] for name in kept if name in os.environ} | {"LANG": "C.UTF-8"}


def _call(
    address: HostAddress, verb: str, *, limit: float, given: Desired | None = None, answers: tuple[int, ...] = (0,)
) -> dict[str, Any]:
    """Run one verb. Files, not pipes: big output cannot block, and a grandchild that keeps them open cannot either."""
    with tempfile.TemporaryFile() as entered, tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as said:
        if given is not None:
            entered.write(json.dumps(given).encode())
            entered.seek(0)
        status = _run(command(address, verb), entered, printed, said, limit=limit, what=f"{verb} on {address.name}")
        return _answer(status, _text(printed), _text(said), answers=answers, what=f"{verb} on {address.name}")


def _run(words: list[str], entered: IO[bytes], printed: IO[bytes], said: IO[bytes], *, limit: float, what: str) -> int:
    """The child's exit status. Past its limit in seconds it is killed; its tools keep the host busy until they end."""
    try:
        child = subprocess.Popen(
            words,
            stdin=entered,
            stdout=printed,
            stderr=said,
            env=_environment(),
            cwd=settings.BASE_DIR,
            start_new_session=True,
        )
    except OSError as error:
        raise _no_program(words, error) from error
    try:
        return child.wait(timeout=limit)
    except subprocess.TimeoutExpired:
        raise GatewayError(
            "timeout",
            f"vmctl {what} took longer than {limit:g} s and was ended.",
            "Look at the host: a hanging libvirtd or a blocked device are the usual causes.",
            True,
        ) from None
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def _no_program(words: list[str], error: OSError) -> GatewayError:
    return GatewayError(
        "no_program",
        f"vmctl cannot be started ({words[0]}: {error.strerror}).",
        "Install the portal again, or look at its Python.",
        False,
    )


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(LARGEST_ANSWER + 1).decode(errors="replace")


def _answer(status: int, printed: str, said: str, *, answers: tuple[int, ...], what: str) -> dict[str, Any]:
    """The document vmctl printed, or the GatewayError that says why there is none."""
    if len(printed) > LARGEST_ANSWER:
        raise _garbage(what, f"more than {LARGEST_ANSWER} bytes")
    try:
        document = json.loads(printed)
    except ValueError:
        document = None
    if isinstance(document, dict) and isinstance(document.get("error"), dict):
        raise _told(document["error"])
    if isinstance(document, dict) and document.get("schema") == 1 and status in answers:
        return document
    if status == 0:
        raise _garbage(what, printed[:80].strip() or "nothing")
    meaning = EXIT_MEANINGS.get(status, f"exit code {status}") if status > 0 else f"it was ended by signal {-status}"
    last_word = said.strip().rpartition("\n")[2][:300]
    raise GatewayError(
        "failed",
        f"vmctl {what}: {meaning}. {last_word}".strip(),
        "Run the same command by hand on the host.",
        True,
    )


def _garbage(what: str, seen: str) -> GatewayError:
    return GatewayError(
        "garbage",
        f"vmctl {what} did not answer with a document of schema 1, but with: {seen}",
        "Portal and host need the same release of Tessera.",
        False,
    )


def _told(error: Mapping[str, Any]) -> GatewayError:
    return GatewayError(
        str(error.get("code", "failed")),
        str(error.get("what", "vmctl failed without a sentence.")),
        str(error.get("remedy", "")),
        bool(error.get("retry", False)),
    )


class _ConsoleChild:
    """A ByteStream over a socket to `vmctl console`; its buffers' limits hold a fast side back for a slow one.

    A plain Popen and our own socket, not asyncio's subprocess: that one waits for an unread pipe before it lets go.
    """

    def __init__(
        self,
        child: subprocess.Popen[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        said: IO[bytes],
    ) -> None:
        self._child = child
        self._reader = reader
        self._writer = writer
        self._said = said
        self._greeting = b""

    @classmethod
    async def start(cls, words: list[str]) -> _ConsoleChild:
        """Start the child; its standard input and output are the other end of our socket."""
        ours, theirs = socket.socketpair()
        said = tempfile.TemporaryFile()  # noqa: SIM115  closed with the stream
        with theirs:
            try:
                child = subprocess.Popen(
                    words,
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=said,
                    env=_environment(),
                    cwd=settings.BASE_DIR,
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                said.close()
                raise _no_program(words, error) from error
        ours.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=ours, limit=CHUNK)
        return cls(child, reader, writer, said)

    async def wait_for_greeting(self) -> None:
        """Return with the screen's first bytes in hand; a child that ends before has said why on its error output."""
        self._greeting = await self.read()
        if self._greeting:
            return
        status = await asyncio.to_thread(self._child.wait)
        said = _text(self._said)
        _answer(status, said, said, answers=(), what="console")

    async def read(self) -> bytes:
        """The next bytes of the screen; b"" when the machine or its host closed it."""
        if self._greeting:
            first, self._greeting = self._greeting, b""
            return first
        try:
            return await self._reader.read(CHUNK)
        except ConnectionError:
            return b""

    async def write(self, data: bytes) -> None:
        """Keys and pointer to the machine. Raises ConnectionError once the child is gone."""
        self._writer.write(data)
        await self._writer.drain()

    async def close(self) -> None:
        """End the child and reap it; what it still had to say is dropped."""
        self._writer.transport.abort()
        self._said.close()
        if self._child.poll() is None:
            os.killpg(self._child.pid, signal.SIGKILL)
            await asyncio.to_thread(self._child.wait)
