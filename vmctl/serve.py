"""What a portal's key may ask for over SSH: the forced command behind a line of authorized_keys.

sshd hands over what the caller asked for as one string. Only strings that match a form as a whole start anything, the
verb is one of a fixed list, and no shell ever sees it.
"""

import os
import re
import select
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from shutil import copyfileobj
from signal import SIGKILL
from tempfile import TemporaryFile
from typing import IO

from vmctl.documents import shown
from vmctl.errors import Code, Exit, VmctlError

ASKED = "SSH_ORIGINAL_COMMAND"
DEFAULT_SECONDS = 120
MOST_SECONDS = 600
GONE_SECONDS = 2.0
"""How long a screen whose connection went away has to end by itself."""
KILL_SECONDS = 5.0
"""How long a killed process is waited for: one that sleeps in the kernel may not even end then."""
ENDED, LATE, GONE = "ended", "late", "gone"


class Key(StrEnum):
    """The two keys of a portal, each with its own verbs."""

    APPLY = "apply"
    CONSOLE = "console"


LIMIT = r"(?: --limit (?P<limit>[1-9][0-9]{0,2}))?"
UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
FORMS = {
    Key.APPLY: re.compile(rf"(?P<verb>observe|gpus|types|check|plan|apply|usage){LIMIT}"),
    Key.CONSOLE: re.compile(rf"(?P<verb>console) --machine (?P<machine>{UUID})"),
}
ALLOWED = {
    Key.APPLY: f"observe, gpus, types, check, plan, apply or usage, each with --limit SECONDS (at most {MOST_SECONDS})",
    Key.CONSOLE: "console --machine UUID",
}


@dataclass(frozen=True)
class Request:
    """A verb with its words. seconds: None for a screen, which is looked at for as long as somebody does."""

    verb: str
    words: tuple[str, ...]
    seconds: float | None

    @property
    def is_screen(self) -> bool:
        return self.verb == Key.CONSOLE


def parse(key: Key, asked: str) -> Request:
    """What was asked for, if this key may ask for it. Pure. Raises VmctlError `not_allowed`."""
    found = FORMS[key].fullmatch(asked)
    if found is None:
        raise _not_allowed(key, asked)
    known = found.groupdict()
    if "machine" in known:
        return Request(known["verb"], ("--json", "--machine", known["machine"]), None)
    seconds = int(known["limit"] or DEFAULT_SECONDS)
    if seconds > MOST_SECONDS:
        raise _not_allowed(key, asked)
    return Request(known["verb"], ("--json",), seconds)


def _not_allowed(key: Key, asked: str) -> VmctlError:
    told = f"asked for {shown(asked)}" if asked else "asked for nothing"
    what = f"The portal's {key} key {told}, which it may not."
    return VmctlError(Code.NOT_ALLOWED, what, f"With this key ask for {ALLOWED[key]}.")


def run(request: Request, verb: Callable[[], int]) -> int:
    """Carry a request out in a process group of its own, and hand on its answer. Returns its exit status.

    Raises VmctlError `timeout` past the limit, after killing the group, or `failed` when a signal ended the verb.
    """
    if request.is_screen:
        return _screen(verb)
    # The answer waits in a file until the verb has ended. So an apply whose connection is lost goes on to its end or
    # its limit: it brings the host to a state, which is right whoever listens, and half of it would be worse.
    with TemporaryFile() as printed:
        child = _start(verb, printed)
        status = _outcome(child, _wait(child, request.seconds, watched=()), request)
        printed.seek(0)
        with open(1, "wb", closefd=False) as connection:
            copyfileobj(printed, connection)
    return status


def _screen(verb: Callable[[], int]) -> int:
    """A screen reads and writes the connection itself; when that is gone, so is its reason to be."""
    child = _start(verb, None)
    if _wait(child, None, watched=(0, 1)) == GONE:
        _wait(child, GONE_SECONDS, watched=())
    status = _kill_and_reap(child)
    return Exit.FAILED if status is None or status < 0 else status


def _start(verb: Callable[[], int], printed: IO[bytes] | None) -> int:
    """The process id, which is the group's too. A fork, not a second program: starting Python anew costs a call's time.

    Nothing here has threads or connections yet, so the child may do what it likes.
    """
    child = os.fork()
    if child:
        _lead_a_group(child)
        return child
    status: int = Exit.FAILED
    try:
        _lead_a_group(0)
        if printed is not None:
            os.dup2(printed.fileno(), 1)
        status = verb()
    finally:
        os._exit(status)


def _lead_a_group(process: int) -> None:
    """Both sides do it, so that it is true for both whoever is first."""
    try:
        os.setpgid(process, process)
    except ProcessLookupError:
        pass  # it has ended already


def _wait(child: int, seconds: float | None, watched: tuple[int, ...]) -> str:
    """Wait for the child's end, for the limit, or until the other side of a watched descriptor is gone."""
    handle = os.pidfd_open(child)
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        for each in watched:
            poll.register(each, select.POLLRDHUP)  # hang-ups and errors are told anyway
        ready = dict(poll.poll(None if seconds is None else seconds * 1000))
    finally:
        os.close(handle)
    if not ready:
        return LATE
    return ENDED if handle in ready else GONE


def _kill_and_reap(child: int) -> int | None:
    """End what is left of the group. The child's exit status, minus the signal that ended it, or None: it lives on."""
    try:
        os.killpg(child, SIGKILL)
    except ProcessLookupError:
        pass  # nobody is left
    if _wait(child, KILL_SECONDS, watched=()) != ENDED:
        return None
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _outcome(child: int, how: str, request: Request) -> int:
    status = _kill_and_reap(child)
    if how == LATE:
        end = "and does not end: the kernel holds it" if status is None else "and was ended"
        raise VmctlError(
            Code.TIMEOUT,
            f"{request.verb} took longer than {request.seconds:g} s {end}.",
            "Look at the host: a hanging libvirtd or a blocked device are the usual causes.",
            retry=True,
        )
    if status is None or status < 0:
        what = f"{request.verb} was ended by signal {-(status or 0)}."
        raise VmctlError(Code.FAILED, what, "Look into the host's log; its memory may be full.", retry=True)
    return status
