"""From an address to a connection that is logged in: every step has a limit, and the host key comes before our own."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import paramiko

from portal.gateway.errors import GatewayError
from portal.gateway.ssh import keys, troubles
from portal.host_address import HostAddress, SSHAddress, fingerprint

CONNECT_SECONDS = 5.0  # the name and the TCP connection, whatever the number of addresses
HANDSHAKE_SECONDS = 10.0  # from the TCP connection to being logged in


def logged_in(address: HostAddress, ssh: SSHAddress) -> paramiko.Transport:
    """A connection on which the apply key was accepted. GatewayError: nobody is asked anything, ever."""
    key = _own_key()
    line = _connected(ssh)
    until = time.monotonic() + HANDSHAKE_SECONDS
    transport = _transport(line, ssh)
    try:
        shown = _shown_key(transport, ssh, until)
        if shown != ssh.host_key:
            raise troubles.wrong_host_key(address.name, ssh.host_key, fingerprint(shown))
        _log_in(transport, ssh, key, until)
    except BaseException:
        transport.close()
        line.close()
        raise
    return transport


def host_key_of(ssh: SSHAddress) -> str:
    """The host key that the machine shows now, "TYPE BASE64": to be confirmed by somebody, then pinned."""
    line = _connected(ssh)
    transport = _transport(line, ssh)
    try:
        return _shown_key(transport, ssh, time.monotonic() + HANDSHAKE_SECONDS)
    finally:
        transport.close()
        line.close()


def _connected(ssh: SSHAddress) -> socket.socket:
    """A TCP connection. All the host's addresses share one limit."""
    until = time.monotonic() + CONNECT_SECONDS
    found = _resolved(ssh, CONNECT_SECONDS)
    trouble = troubles.unreachable(ssh, "its name has no address")
    for left, (family, kind, protocol, _, place) in zip(range(len(found), 0, -1), found, strict=True):
        line = socket.socket(family, kind, protocol)
        try:
            line.settimeout(max((until - time.monotonic()) / left, 0.05))
            line.connect(place)
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return line
        except TimeoutError:
            trouble = troubles.unreachable(ssh, f"no answer in {CONNECT_SECONDS:g} s")
        except ConnectionRefusedError:
            trouble = troubles.refused(ssh)
        except OSError as error:
            trouble = troubles.unreachable(ssh, error.strerror or str(error))
        line.close()
    raise trouble


def _resolved(ssh: SSHAddress, limit: float) -> list[Any]:
    """As getaddrinfo answers. It has no limit of its own, so it works in a thread that may be left behind."""
    found: list[Any] = []
    why = [f"its name was not resolved in {limit:g} s"]

    def look() -> None:
        try:
            found.extend(socket.getaddrinfo(ssh.host, ssh.port, type=socket.SOCK_STREAM))
        except OSError as error:
            why[0] = error.strerror or str(error)

    looking = threading.Thread(target=look, name=f"resolve {ssh.host}", daemon=True)
    looking.start()
    looking.join(limit)
    if not found:
        raise troubles.unreachable(ssh, why[0])
    return list(found)


def _transport(line: socket.socket, ssh: SSHAddress) -> paramiko.Transport:
    """Not yet started. The pinned kind of host key is asked for first, or a host with several would show another."""
    transport = paramiko.Transport(line)
    transport.banner_timeout = transport.handshake_timeout = HANDSHAKE_SECONDS
    options = transport.get_security_options()
    pinned = ssh.host_key.partition(" ")[0].replace("ssh-rsa", "rsa-sha2")
    if pinned:
        options.key_types = tuple(sorted(options.key_types, key=lambda kind: not kind.startswith(pinned)))
    return transport


def _shown_key(transport: paramiko.Transport, ssh: SSHAddress, until: float) -> str:
    """The key that the host has proved to have. With an event paramiko tells a failure instead of raising anything."""
    done = threading.Event()
    transport.start_client(event=done)
    ended = done.wait(max(until - time.monotonic(), 0))
    key = transport.host_key
    if key is None or not transport.initial_kex_done or not transport.is_active():
        raise _handshake(transport, ssh, ended)
    return f"{key.get_name()} {key.get_base64()}"


def _own_key() -> paramiko.Ed25519Key:
    file = keys.private_key(keys.APPLY)
    try:
        return paramiko.Ed25519Key.from_private_key_file(str(file))
    except (OSError, ValueError, IndexError, AssertionError, paramiko.SSHException) as error:  # as paramiko reads it
        raise keys.unusable(file, str(error) or "it is damaged") from error


def _log_in(transport: paramiko.Transport, ssh: SSHAddress, key: paramiko.Ed25519Key, until: float) -> None:
    done = threading.Event()
    try:
        transport.auth_publickey(ssh.user, key, event=done)
    except (OSError, EOFError, paramiko.SSHException) as error:
        raise troubles.handshake(ssh, _words(error)) from error
    ended = done.wait(max(until - time.monotonic(), 0))
    if transport.is_authenticated():
        return
    if ended and transport.is_active():
        raise troubles.key_refused(ssh, keys.APPLY)
    raise _handshake(transport, ssh, ended)


def _handshake(transport: paramiko.Transport, ssh: SSHAddress, ended: bool) -> GatewayError:
    if not ended:
        return troubles.handshake(ssh, f"it was not done in {HANDSHAKE_SECONDS:g} s")
    return troubles.handshake(ssh, _words(transport.get_exception()))


def _words(error: Exception | None) -> str:
    """In words; an end of the stream has none of its own."""
    if error is None or isinstance(error, EOFError) or not str(error):
        return "the other side closed the connection"
    return str(error).rstrip(".")[:200]
