"""Whatever goes wrong between portal and host is one kind of error, with its remedy."""

from __future__ import annotations

from typing import Any

# On the way to a host: what they say names its address or the portal's own files, and is for operators
_NO_CONNECTION = ("no_program", "unreachable", "refused", "handshake", "host_key", "key_refused", "no_key")
ON_THE_WAY = frozenset((*_NO_CONNECTION, "crowded", "silent", "lost"))


class GatewayError(Exception):
    """A call that did not work. retry: it may yet work.

    code: vmctl's own, or timeout, garbage, failed, no_screen, not_allowed, or one of ON_THE_WAY.
    """

    def __init__(self, code: str, what: str, remedy: str, retry: bool) -> None:
        super().__init__(what)
        self.code = code
        self.what = what
        self.remedy = remedy
        self.retry = retry

    def again(self) -> GatewayError:
        """The same, for another caller."""
        return GatewayError(self.code, self.what, self.remedy, self.retry)

    def as_dict(self) -> dict[str, Any]:
        """As it is stored with the host and shown to operators."""
        return {"code": self.code, "what": self.what, "remedy": self.remedy, "retry": self.retry}


def out_of_time(what: str, limit: float) -> GatewayError:
    """vmctl was still at work after its limit in seconds."""
    return GatewayError(
        "timeout",
        f"vmctl {what} took longer than {limit:g} s and was ended.",
        "Look at the host: a hanging libvirtd or a blocked device are the usual causes.",
        True,
    )


def no_program(program: str, error: OSError) -> GatewayError:
    """What should be started here is not there."""
    return GatewayError(
        "no_program",
        f"{program} cannot be started: {error.strerror}.",
        "Install the portal again: its Python starts vmctl, and ssh is of the package openssh-client.",
        False,
    )
