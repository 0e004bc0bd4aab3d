"""The one error vmctl raises on purpose: what went wrong, what to do about it, whether trying again may help."""

from dataclasses import dataclass
from enum import StrEnum


class Code(StrEnum):
    """Names of errors, as programs see them."""

    BAD_INPUT = "bad_input"
    STALE_GENERATION = "stale_generation"
    WRONG_PORTAL = "wrong_portal"
    BUSY = "busy"
    UNREACHABLE = "unreachable"
    NO_IMAGE = "no_image"
    NO_CAPACITY = "no_capacity"
    NOT_ALLOWED = "not_allowed"
    NOT_OURS = "not_ours"
    NOT_RUNNING = "not_running"
    COULD_NOT_TELL = "could_not_tell"
    MISSING_COMMAND = "missing_command"
    TIMEOUT = "timeout"
    LATER = "later"
    FAILED = "failed"


class Exit:
    """Exit codes of the command line (docs/architecture.md)."""

    DONE = 0
    FAILED = 1
    BAD_INPUT = 2
    COULD_NOT_TELL = 3


@dataclass
class VmctlError(Exception):
    """Something a person can act on.

    `what` and `remedy` are whole sentences; `retry`: the same call may work later without anybody doing anything.
    """

    code: str  # one of `Code`
    what: str
    remedy: str
    retry: bool = False

    def __str__(self) -> str:
        return f"{self.what} {self.remedy}"

    def to_json(self) -> dict[str, object]:
        """The error as it stands in reports and on standard output."""
        return {"code": str(self.code), "what": self.what, "remedy": self.remedy, "retry": self.retry}

    @property
    def exit_code(self) -> int:
        """How the command line ends when this error reaches it."""
        if self.code in (Code.BAD_INPUT, Code.NOT_ALLOWED):
            return Exit.BAD_INPUT
        if self.code in (Code.UNREACHABLE, Code.COULD_NOT_TELL):
            return Exit.COULD_NOT_TELL
        return Exit.FAILED


def bad_input(what: str, remedy: str) -> VmctlError:
    """The caller's document or option is wrong: nothing was done."""
    return VmctlError(Code.BAD_INPUT, what, remedy)


def refused_by_host(error: OSError) -> VmctlError:
    """A file or a folder could not be used: the host's word, and what usually helps."""
    where = f" ({error.filename})" if error.filename else ""
    what = f"The host refused: {error.strerror or error}{where}."
    if isinstance(error, PermissionError):
        return VmctlError(Code.FAILED, what, "Run vmctl as root.")
    return VmctlError(Code.FAILED, what, "See what is there, and whether there is room.", retry=True)
