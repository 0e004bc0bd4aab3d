"""vmctl that kills itself, as `kill -9` would, at its n-th effect: `python -m tests.vmctl.real.killed N WORDS…`.

Effects are changes of files, children started, and calls that change libvirt; the last count twice, before and after.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from vmctl import cli
from vmctl.hypervisor import Hypervisor

EVENTS = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "subprocess.Popen"}
CALLS = ("start", "ask_stop", "force_stop", "set_mark", "define_filter")


class Fuse:
    """Burns down with every effect."""

    def __init__(self, left: int) -> None:
        self.left = left

    def burn(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def hear(self, event: str, _: object) -> None:
        if event in EVENTS:
            self.burn()

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def burning(*words: Any) -> Any:
            self.burn()
            answer = call(*words)
            self.burn()
            return answer

        return burning


def main() -> None:
    fuse = Fuse(int(sys.argv.pop(1)))
    for name in CALLS:
        setattr(Hypervisor, name, fuse.around(getattr(Hypervisor, name)))
    sys.addaudithook(fuse.hear)
    cli.main()


if __name__ == "__main__":
    main()
