"""The bytes of a machine's screen, both ways, through a child process."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import tempfile
from collections.abc import Callable
from typing import IO, Protocol

from portal.gateway import answers, child
from portal.gateway.errors import GatewayError

CHUNK = 64 * 1024  # bytes of a console read at once, and what may wait on either side

Complaint = Callable[[int, str], GatewayError | None]
"""What a child's exit status and error output mean, if it is not for vmctl to say."""


class ByteStream(Protocol):
    """The bytes of one screen, both ways. Whoever opens it closes it."""

    async def read(self) -> bytes:
        """The next bytes; b"" once the other side has closed."""

    async def write(self, data: bytes) -> None:
        """Hand bytes over; returns only when there is room for more."""

    async def close(self) -> None:
        """Free everything; may be called twice."""


class ConsoleChild:
    """A ByteStream over a socket to `vmctl console`; its buffers' limits hold a fast side back for a slow one.

    A plain Popen and our own socket, not asyncio's subprocess: that one waits for an unread pipe before it lets go.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        said: IO[bytes],
        complaint: Complaint,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._said = said
        self._complaint = complaint
        self._greeting = b""

    @classmethod
    async def start(cls, words: list[str], complaint: Complaint) -> ConsoleChild:
        """Start the child; its standard input and output are the other end of our socket."""
        ours, theirs = socket.socketpair()
        said = tempfile.TemporaryFile()  # noqa: SIM115  closed with the stream
        with theirs:
            try:
                process = child.start(words, stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=said)
            except BaseException:
                ours.close()
                said.close()
                raise
        ours.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=ours, limit=CHUNK)
        return cls(process, reader, writer, said, complaint)

    async def wait_for_greeting(self) -> None:
        """Return with the screen's first bytes in hand; a child that ends before has said why on its error output."""
        self._greeting = await self.read()
        if self._greeting:
            return
        status = await asyncio.to_thread(self._process.wait)
        said = child.text(self._said)
        trouble = self._complaint(status, said)
        if trouble:
            raise trouble
        answers.read(status, said, said, answers=(), what="console")

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
        if self._process.poll() is None:
            await asyncio.to_thread(child.end, self._process)
