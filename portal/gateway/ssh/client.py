"""OpenSSH's client: its words for one command, and what its own complaints mean."""

from __future__ import annotations

import re

from portal.gateway.errors import GatewayError
from portal.gateway.ssh import keys, troubles
from portal.host_address import HostAddress, SSHAddress

SSH = "ssh"
OWN_STATUS = 255  # ssh's exit status when it failed itself; vmctl's own are small
ALIAS = "tessera"
OPTIONS = {
    "BatchMode": "yes",
    "IdentitiesOnly": "yes",
    "IdentityAgent": "none",
    "PreferredAuthentications": "publickey",
    "StrictHostKeyChecking": "yes",
    "GlobalKnownHostsFile": "/dev/null",
    "UpdateHostKeys": "no",
    "VerifyHostKeyDNS": "no",
    "CheckHostIP": "no",
    "HostKeyAlias": ALIAS,
    "CanonicalizeHostname": "no",
    "ClearAllForwardings": "yes",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "ControlPath": "none",
    "PermitLocalCommand": "no",
    "RequestTTY": "no",
    "EscapeChar": "none",
    "LogLevel": "ERROR",
    "ConnectionAttempts": "1",
    "ConnectTimeout": "5",
    "ServerAliveInterval": "5",
    "ServerAliveCountMax": "3",
}
# What may be asked for on the host. No shell sees it there; this keeps it so with any sshd.
WORD = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}|--[a-z][a-z-]{0,31}")
COMPLAINTS = (
    ("unreachable", re.compile(r"timed out|No route to host|Network is unreachable|Could not resolve hostname")),
    ("refused", re.compile(r"Connection refused")),
    ("key_refused", re.compile(r"Permission denied|Too many authentication failures")),
)
SHOWN = re.compile(r"key sent by the remote host is\s+(SHA256:[A-Za-z0-9+/]{43})")


def remote_words(verb: str, *arguments: str) -> str:
    """The one string that SSH carries. GatewayError `not_allowed` for words that could mean more than themselves."""
    words = [verb, *arguments]
    for word in words:
        if not WORD.fullmatch(word):
            raise GatewayError(
                "not_allowed",
                f"{word[:60]!r} is not asked for over SSH.",
                "Use the words of vmctl serve: docs/vmctl.md.",
                False,
            )
    return " ".join(words)


def command(ssh: SSHAddress, asked: str) -> list[str]:
    """The argument list; nothing of a user's or the machine's configuration of ssh counts."""
    purpose = keys.CONSOLE if asked.split()[0] == "console" else keys.APPLY
    known = str(keys.known_hosts(ALIAS, ssh.host_key)).replace("%", "%%")  # ssh replaces words that begin with it
    options = OPTIONS | {"UserKnownHostsFile": f'"{known}"'}
    flat = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    file = str(keys.private_key(purpose)).replace("%", "%%")
    return [SSH, "-F", "none", "-T", *flat, "-i", file, "-p", str(ssh.port), "-l", ssh.user, "--", ssh.host, asked]


def complaint(address: HostAddress, status: int, said: str) -> GatewayError | None:
    """What ssh's own error output means, when it was ssh that failed on the way to a screen."""
    ssh = address.ssh
    if ssh is None or status != OWN_STATUS:
        return None
    if "Host key verification failed" in said or "host key is known" in said:
        return _host_key(address, ssh, said)
    kind = next((name for name, words in COMPLAINTS if words.search(said)), "")
    last = said.strip().rpartition("\n")[2].strip().rstrip(".")[:200] or "it said nothing"
    if kind == "unreachable":
        return troubles.unreachable(ssh, last)
    if kind == "refused":
        return troubles.refused(ssh)
    if kind == "key_refused":
        return troubles.key_refused(ssh, keys.CONSOLE)
    return troubles.handshake(ssh, last)


def _host_key(address: HostAddress, ssh: SSHAddress, said: str) -> GatewayError:
    shown = SHOWN.search(said)
    return troubles.wrong_host_key(address.name, ssh.host_key, shown[1] if shown else "")
