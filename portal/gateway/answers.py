"""What vmctl printed, as a document or as the error that says why there is none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.conf import settings

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
        raise _told(document)
    if isinstance(document, dict) and document.get("schema") == 1 and status in answers:
        return document
    if status == 0 or (document is None and _document_after(printed)):
        raise _garbage(what, printed[:80].strip() or "nothing", _releases(document), has_more=_document_after(printed))
    meaning = EXIT_MEANINGS.get(status, f"exit code {status}") if status > 0 else f"it was ended by signal {-status}"
    last_word = said.strip().rpartition("\n")[2][:300]
    raise GatewayError(
        "failed",
        f"vmctl {what}: {meaning}. {last_word}".strip(),
        "Run the same command by hand on the host.",
        True,
    )


def _document_after(printed: str) -> bool:
    """Does a document stand behind something else, such as a shell's greeting?"""
    begin = printed.find("\n{")
    try:
        return begin >= 0 and isinstance(json.loads(printed[begin:]), dict)
    except ValueError:
        return False


def _releases(document: Any) -> str:
    """Both releases, where the answer names another than ours."""
    theirs = document.get("vmctl") if isinstance(document, dict) else None
    return f" Portal {settings.VERSION}, vmctl {theirs}." if theirs and theirs != settings.VERSION else ""


def _garbage(what: str, seen: str, releases: str = "", *, has_more: bool = False) -> GatewayError:
    if has_more:
        return GatewayError(
            "garbage",
            f"On the way to vmctl {what} something else was said before its document: {seen}",
            "Only vmctl may write there: give the key its forced command, and let the shell's start files be silent.",
            False,
        )
    return GatewayError(
        "garbage",
        f"vmctl {what} did not answer with a document of schema 1, but with: {seen}",
        f"Portal and host need the same release of Tessera.{releases}",
        False,
    )


def _told(document: Mapping[str, Any]) -> GatewayError:
    error = document["error"]
    return GatewayError(
        str(error.get("code", "failed")),
        str(error.get("what", "vmctl failed without a sentence.")),
        f"{error.get('remedy', '')}{_releases(document)}".strip(),
        bool(error.get("retry", False)),
    )
