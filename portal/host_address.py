"""Where a host is and how it is reached. Pure: models, forms and the gateway all use it.

What an operator types becomes part of a command line and of a file of ssh, so only known forms pass (a list of what is
allowed, not of what is forbidden): a word that begins with a hyphen would be read by ssh as an option.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import ipaddress
import re
from dataclasses import dataclass

SSH_PORT = 22
KEY_TYPES = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa")

_ADDRESS = re.compile(r"([^@]*)@(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{1,5}))?")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_KEY = re.compile(r"([a-z0-9-]{1,40}) ([A-Za-z0-9+/]{40,4000}={0,2})")
LONGEST_NAME = 253  # characters of a name in the DNS


@dataclass(frozen=True)
class SSHAddress:
    """A log-in on a host over SSH. Every field is checked, whoever makes one: ValueError with a sentence.

    host: a name of the DNS, an IPv4 address, or an IPv6 address without brackets. host_key: "TYPE BASE64" as in a file
    of known hosts, or "" while nobody has confirmed one.
    """

    user: str
    host: str
    port: int = SSH_PORT
    host_key: str = ""

    def __post_init__(self) -> None:
        if not _USER.fullmatch(self.user):
            raise ValueError(
                f"{self.user!r} is no log-in name: lower-case letters, digits, hyphens and underscores, at most 32, "
                "beginning with a letter or an underscore."
            )
        _check_host(self.host)
        if not 1 <= self.port <= 65535:
            raise ValueError(f"{self.port} is no port: 1 to 65535.")
        if self.host_key:
            fingerprint(self.host_key)

    @classmethod
    def parse(cls, text: str, host_key: str = "") -> SSHAddress:
        """From USER@HOST[:PORT]; an IPv6 address stands in brackets. ValueError with a sentence for anything else."""
        found = _ADDRESS.fullmatch(text)
        if not found:
            raise ValueError(f"{text!r} is no address of the form USER@HOST or USER@HOST:PORT, such as root@gpu1:22.")
        user, host, port = found.groups()
        if host.startswith("["):
            host = _ipv6(host[1:-1])
        return cls(user, host.lower(), int(port or SSH_PORT), host_key)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.user}@{host}" + (f":{self.port}" if self.port != SSH_PORT else "")


@dataclass(frozen=True)
class HostAddress:
    """A host as the gateway takes it. kind: "local", "simulated" or "ssh"; layout: which simulated GPUs, or ""."""

    name: str
    kind: str
    layout: str = ""
    ssh: SSHAddress | None = None

    def __post_init__(self) -> None:
        if (self.kind == "ssh") != (self.ssh is not None):
            raise ValueError(f"The host {self.name} is of the kind {self.kind}; only one of the kind ssh has a log-in.")


def fingerprint(host_key: str) -> str:
    """ "SHA256:..." of a host key as ssh shows it. ValueError if this is no key."""
    found = _KEY.fullmatch(host_key)
    if not found or found[1] not in KEY_TYPES:
        raise ValueError(f"This is no host key of a known type ({', '.join(KEY_TYPES)}): {host_key[:60]!r}")
    try:
        key = base64.b64decode(found[2], validate=True)
    except binascii.Error as error:
        raise ValueError(f"The host key is damaged: {error}.") from error
    if not key.startswith(len(found[1]).to_bytes(4, "big") + found[1].encode()):
        raise ValueError(f"The host key says it is {found[1]}, and is not.")
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


def _check_host(host: str) -> None:
    if ":" in host:
        if _ipv6(host) != host:
            raise ValueError(f"{host!r} has a shorter form: {_ipv6(host)}")
    elif re.fullmatch(r"[0-9.]+", host):
        try:
            ipaddress.IPv4Address(host)
        except ValueError:
            raise ValueError(f"{host!r} is no IPv4 address.") from None
    elif len(host) > LONGEST_NAME or not _NAME.fullmatch(host):
        raise ValueError(f"{host!r} is no name of a host: letters, digits, dots, and hyphens inside.")


def _ipv6(text: str) -> str:
    """In its shortest form. A zone (%eth0) is refused: it names an interface of the portal, not a host."""
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        raise ValueError(f"{text!r} is no IPv6 address.") from None
    if address.scope_id is not None:
        raise ValueError(f"{text!r} has a zone; give an address that is reached without one.")
    return address.compressed
