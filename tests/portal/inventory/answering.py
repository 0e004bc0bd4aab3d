"""What answers over SSH in place of a host, and the keys by which it is known."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from portal.gateway import GatewayError
from portal.host_address import HostAddress, SSHAddress, fingerprint
from portal.inventory.models import Host
from tests import make


def host_key(letter: str) -> str:
    """A well-formed host key."""
    blob = b"".join(len(part).to_bytes(4, "big") + part for part in (b"ssh-ed25519", letter.encode() * 32))
    return f"ssh-ed25519 {base64.b64encode(blob).decode()}"


KEY, OTHER = host_key("a"), host_key("b")
PRINT, OTHER_PRINT = fingerprint(KEY), fingerprint(OTHER)
WHERE = "root@gpu1.example.org"


@dataclass
class Answering:
    """What answers over SSH; addresses in the order in which they were asked."""

    key: str = KEY
    report: dict[str, Any] = field(default_factory=dict)
    error: GatewayError | None = None
    asked: list[HostAddress] = field(default_factory=list)

    def host_key_of(self, address: SSHAddress) -> str:
        return self.key

    def observe(self, address: HostAddress) -> dict[str, Any]:
        self.asked.append(address)
        if self.error:
            raise self.error
        return {"host": address.name, "portal": None, "vmctl": "0.1.0", "gpus": [make.gpu_facts()]} | self.report


def add(*words: str) -> Host:
    call_command("add_host", "gpu1", "--ssh", WHERE, "--fingerprint", PRINT, *words)
    return Host.objects.get(name="gpu1")


def refusal(*words: str) -> str:
    with pytest.raises(CommandError) as refused:
        call_command(*words)
    return str(refused.value)
