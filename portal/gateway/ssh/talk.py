"""One command on a connection: what goes in, what comes out on both streams, and how it ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import paramiko

from portal.gateway import answers
from portal.gateway.errors import GatewayError, out_of_time
from portal.gateway.ssh import troubles
from portal.gateway.ssh.line import Line
from portal.host_address import HostAddress

SILENCE_SECONDS = 15.0  # without any sign of life while a command runs
TELL_SECONDS = 3.0  # past its limit, for the host to end the command and say so
LOOK_SECONDS = 0.25  # between two looks at the limits
CHUNK = 32 * 1024  # bytes handed over at once
WAIT_SECONDS = 0.05  # for more output, before the other stream is looked at
LEFTOVER_SECONDS = 2.0  # for output after the command's end: what it started may hold the streams open
LAST_WORDS = 64 * 1024  # bytes of error output that are kept
MOST_PARTS = 100  # of error output before the other stream is looked at: a bit more than a window
DIED = -1  # paramiko's exit status for "none was told"


@dataclass
class Talk:
    """What a command said. status None: it did not come to its end; error: why, if that is known."""

    printed: bytearray = field(default_factory=bytearray)
    said: bytearray = field(default_factory=bytearray)
    status: int | None = None
    error: GatewayError | None = None
    done: threading.Event = field(default_factory=threading.Event)


def converse(line: Line, address: HostAddress, words: str, given: bytes, *, limit: float, what: str) -> Talk:
    """Run the command. limit: seconds, which the command has been told, too. GatewayError past it, or if all is silent.

    The talk has a thread of its own and is watched from here: several of paramiko's waits have no limit, and one that
    began while the connection broke would never end.
    """
    talk = Talk()
    work = threading.Thread(target=_run, args=(line, words, given, talk, what), name=f"vmctl {what}", daemon=True)
    until = time.monotonic() + limit + TELL_SECONDS
    with line.in_use():
        work.start()
        while not talk.done.wait(LOOK_SECONDS):
            trouble = _too_long(line, address, until, limit, what)
            if trouble:
                line.close()
                raise trouble
    if talk.status is None:
        raise talk.error or troubles.lost(what)
    if talk.status == DIED:
        raise troubles.no_status(what, talk.said.decode(errors="replace").strip().rpartition("\n")[2][:300])
    return talk


def _too_long(line: Line, address: HostAddress, until: float, limit: float, what: str) -> GatewayError | None:
    if line.quiet_seconds > SILENCE_SECONDS:
        return troubles.silent(address, what, SILENCE_SECONDS)
    if time.monotonic() > until:
        return out_of_time(what, limit)
    return None


def _run(line: Line, words: str, given: bytes, talk: Talk, what: str) -> None:
    try:
        with line.beginning:
            channel = line.transport.open_session(timeout=SILENCE_SECONDS)
        try:
            channel.exec_command(words)
            talk.status = _exchange(channel, given, talk, line.hear)
        finally:
            channel.close()
    except paramiko.ChannelException:
        talk.error = troubles.crowded(what)
    except (paramiko.SSHException, EOFError, OSError) as error:
        talk.error = troubles.lost(what, str(error).rstrip("."))
    finally:
        talk.done.set()


def _exchange(channel: paramiko.Channel, given: bytes, talk: Talk, hear: Callable[[], None]) -> int | None:
    """Write and read by turns, both streams: a full window on one side must not stop the other. The exit status."""
    rest = _pushed(channel, memoryview(given))
    ended_at = 0.0
    while len(talk.printed) <= answers.LARGEST_ANSWER:
        if rest and channel.send_ready():
            rest = _pushed(channel, rest)
        _hear_errors(channel, talk)
        channel.settimeout(0.0 if rest and channel.send_ready() else WAIT_SECONDS)
        try:
            part = channel.recv(CHUNK)
        except TimeoutError:
            if ended_at and time.monotonic() - ended_at > LEFTOVER_SECONDS:
                break
            ended_at = ended_at or (time.monotonic() if channel.exit_status_ready() else 0.0)
            continue
        if not part and not channel.recv_stderr_ready():
            return _status(channel)
        talk.printed += part
        hear()
    return channel.exit_status if channel.exit_status_ready() else 0  # too much, or what it started lives on


def _pushed(channel: paramiko.Channel, rest: memoryview) -> memoryview:
    """What is left after a part has been sent; at the end the command's input is closed."""
    try:
        rest = rest[channel.send(bytes(rest[:CHUNK])) :] if rest else rest
    except OSError:  # the command did not want it all; its answer says why
        rest = rest[:0]
    if not rest:
        channel.shutdown_write()
    return rest


def _hear_errors(channel: paramiko.Channel, talk: Talk) -> None:
    for _ in range(MOST_PARTS):
        if not channel.recv_stderr_ready():
            return
        talk.said += channel.recv_stderr(CHUNK)
        del talk.said[:-LAST_WORDS]


def _status(channel: paramiko.Channel) -> int | None:
    """How it ended; None if the connection broke. A command that closed both streams may still be at work."""
    status = channel.recv_exit_status()
    return status if status != DIED or channel.get_transport().is_active() else None
