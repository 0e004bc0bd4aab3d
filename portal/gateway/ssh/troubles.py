"""What can go wrong with SSH, each with a sentence of its own."""

from __future__ import annotations

from portal.gateway.errors import GatewayError
from portal.host_address import HostAddress, SSHAddress, fingerprint


def unreachable(address: SSHAddress, why: str) -> GatewayError:
    """Nothing answers at the address."""
    return GatewayError(
        "unreachable",
        f"{address} cannot be reached: {why}.",
        "Look whether the host is up, its name resolves, and the network lets the portal through to the port.",
        True,
    )


def refused(address: SSHAddress) -> GatewayError:
    """The machine is there, its sshd is not."""
    return GatewayError(
        "refused",
        f"{address.host} is there, but refuses connections on port {address.port}.",
        "Start sshd on the host, or mend the port: manage.py change_host.",
        True,
    )


def handshake(address: SSHAddress, why: str) -> GatewayError:
    """Something took the connection, and then did not speak SSH with us to the end."""
    return GatewayError(
        "handshake",
        f"{address} took the connection, but the SSH handshake failed: {why}.",
        "Look at sshd on the host, its log, and how loaded it is.",
        True,
    )


def key_refused(address: SSHAddress, purpose: str) -> GatewayError:
    """sshd does not know our key."""
    return GatewayError(
        "key_refused",
        f"{address} refuses the portal's {purpose} key.",
        f"Put the lines of manage.py ssh_keys into authorized_keys of {address.user} on the host; its sshd must allow "
        "that user to log in with a key.",
        False,
    )


def wrong_host_key(name: str, pinned: str, told: str) -> GatewayError:
    """Another host key than the pinned one, or none is pinned: somebody may sit in between, so nothing is said to it.

    told: the fingerprint of what it shows, or "" if that is not known.
    """
    if not pinned:
        what = f"Nobody has confirmed the host key of {name} yet"
    else:
        what = f"The host key of {name} has changed: {fingerprint(pinned)} is pinned"
    return GatewayError(
        "host_key",
        f"{what}; it shows {told or 'another'}.",
        "On the host's console ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub tells it. Only if that is the same: "
        f"manage.py change_host {name} --fingerprint {told or 'SHA256:...'}",
        False,
    )


def silent(address: HostAddress, what: str, seconds: float) -> GatewayError:
    """Not even a sign of life while vmctl is at work."""
    return GatewayError(
        "silent",
        f"{address.name} gave no sign of life for {seconds:g} s during vmctl {what}; the connection was closed.",
        "Look whether the host is frozen, restarting or cut off.",
        True,
    )


def crowded(what: str) -> GatewayError:
    """The connection is well, but sshd lets no further command begin on it."""
    return GatewayError(
        "crowded",
        f"sshd let vmctl {what} not begin: too many commands are under way on one connection.",
        "Try again in a moment. If it stays: raise MaxSessions in the host's sshd_config; its default, 10, is enough.",
        True,
    )


def lost(what: str, why: str = "") -> GatewayError:
    """The connection ended before the answer came."""
    return GatewayError(
        "lost",
        f"The connection was lost during vmctl {what}: {why or 'it was closed'}.",
        "The next look opens a new one. If this stays: look at sshd's log on the host.",
        True,
    )


def no_status(what: str, last_word: str) -> GatewayError:
    """The remote process ended without saying how."""
    return GatewayError(
        "failed",
        f"vmctl {what} was ended by a signal. {last_word}".strip(),
        "Look into the host's log; its memory may be full.",
        True,
    )
