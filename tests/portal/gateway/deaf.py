"""Ports of 127.0.0.1 behind which something is wrong."""

from __future__ import annotations

import contextlib
import errno
import socket
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

Port = AbstractContextManager[int]


@contextmanager
def black_hole() -> Iterator[int]:
    """Packets to this port are dropped: the queue of connections is full, and nobody takes one out of it."""
    with contextlib.ExitStack() as kept:
        listening = kept.enter_context(socket.socket())
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        place = listening.getsockname()
        for _ in range(5):
            line = kept.enter_context(socket.socket())
            line.setblocking(False)
            assert line.connect_ex(place) in (0, errno.EINPROGRESS)
        yield place[1]


@contextmanager
def mute() -> Iterator[int]:
    """Takes every connection and never says a word: a machine whose kernel lives and whose sshd does not."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1000)
        yield listening.getsockname()[1]


@contextmanager
def talkative(words: bytes) -> Iterator[int]:
    """Says this to everybody, and hangs up."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()

        def serve() -> None:
            while True:
                try:
                    line, _ = listening.accept()
                except OSError:
                    return
                with line, contextlib.suppress(OSError):
                    line.settimeout(1)
                    line.sendall(words)
                    line.recv(1)

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        serving.join(timeout=5)
