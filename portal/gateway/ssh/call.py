"""One verb on another machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import ceil
from typing import Any

from portal.gateway import answers
from portal.gateway.ssh.client import remote_words
from portal.gateway.ssh.lines import LINES
from portal.gateway.ssh.talk import converse
from portal.host_address import HostAddress


def call(
    address: HostAddress,
    verb: str,
    *,
    limit: float,
    given: Mapping[str, Any] | None,
    accepted: tuple[int, ...],
    patient: bool,
) -> dict[str, Any]:
    """As child.call; the host is told the limit, too, and keeps it whatever becomes of the connection."""
    what = f"{verb} on {address.name}"
    words = remote_words(verb, "--limit", str(ceil(limit)))
    document = b"" if given is None else json.dumps(given).encode()
    line = LINES.line(address, patient=patient)
    talk = converse(line, address, words, document, limit=limit, what=what)
    printed, said = talk.printed.decode(errors="replace"), talk.said.decode(errors="replace")
    return answers.read(talk.status or 0, printed, said, answers=accepted, what=what)
