"""The token by which guests get their licences (dossier 8): a secret of the whole site.

It lies on the host in a file of root's alone and goes into a machine's seed, which ends with the machine. It stands in
no report, log or error.
"""

import os
import stat
from pathlib import Path

from vmctl.errors import Code, VmctlError

LARGEST = 64 * 1024
"""Bytes. A token is a signed JSON of about 3 KiB; a file of another size by far is another file."""
OTHERS = stat.S_IRWXG | stat.S_IRWXO


def token(path: Path) -> bytes:
    """The licence token of this host. Raises VmctlError when it is not there, not a secret, or no token."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe must not make us wait
    except OSError as error:
        raise _refused(f"The licence token {path} cannot be read: {error.strerror}.") from error
    try:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode):
            raise _refused(f"The licence token {path} is no file.")
        if facts.st_uid not in (0, os.geteuid()) or facts.st_mode & OTHERS:
            raise _refused(
                f"The licence token {path} can be read by others than root (mode {facts.st_mode & 0o777:o})."
            )
        found = os.read(handle, LARGEST + 1)
    finally:
        os.close(handle)
    if len(found) > LARGEST or not found.strip():
        raise _refused(f"The licence token {path} is {'empty' if not found.strip() else 'too large to be one'}.")
    return found


def _refused(what: str) -> VmctlError:
    return VmctlError(
        Code.FAILED,
        what,
        "Put the token of your licence server there, owned by root with mode 0600, or choose another --licence-token.",
        retry=True,
    )
