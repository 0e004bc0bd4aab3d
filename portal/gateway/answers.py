"""What vmctl printed, as a document or as the error that says why there is none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from portal.gateway.errors import GatewayError

LARGEST_ANSWER = 32 * 1024 * 1024  # bytes; a host of 500 machines answers with about 1 MiB
EXIT_MEANINGS = {1: "it failed", 2: "it was given bad input", 3: "it could not tell"}


def read(status: int, printed: str, said: str, *, answers: tuple[int, ...], what: str) -> dict[str, Any]:
    """The document vmctl printed. answers: exit statuses that come with one; said: its error output."""
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
