"""A machine's screen, byte for byte, for our machines only, and nothing left when either side ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.vmctl import build
from tests.vmctl.real.place import Place, until, virsh

GREETING = b"RFB 003.008\n"


@contextmanager
def console(place: Place, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """`vmctl console` as a child."""
    child = subprocess.Popen(
        place.command("console", "--machine", place.uuid(name)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout, child.stderr):
            assert pipe is not None
            pipe.close()


def ends(child: subprocess.Popen[bytes]) -> bool:
    return child.wait(15) == 0


def read(child: subprocess.Popen[bytes], count: int) -> bytes:
    assert child.stdout is not None
    return child.stdout.read(count)


def write(child: subprocess.Popen[bytes], data: bytes) -> None:
    assert child.stdin is not None
    child.stdin.write(data)
    child.stdin.flush()


def test_it_speaks_rfb_and_ends_with_its_reader_or_its_machine(place: Place) -> None:
    place.settle(place.machine("a"))
    with console(place, "a") as child:
        assert read(child, len(GREETING)) == GREETING
        write(child, GREETING)
        assert read(child, 2) == b"\x01\x01"  # one kind of log-in: none needed, the socket's rights decide
        assert child.stdin is not None
        child.stdin.close()
        assert ends(child)

    with console(place, "a") as first, console(place, "a") as second:
        assert read(first, len(GREETING)) == read(second, len(GREETING)) == GREETING
        os.kill(place.qemu("a"), signal.SIGKILL)
        assert ends(first)
        assert ends(second)


def test_it_refuses_what_is_not_ours_or_not_running(place: Place) -> None:
    place.settle(place.machine("a"))
    assert refusal(place, "nobody") == "not_running"
    place.portal = build.OTHER_PORTAL
    state = place.folder / place.host / "state" / "memory.json"
    state.write_text(json.dumps(json.loads(state.read_text()) | {"portal": place.portal}))
    assert refusal(place, "a") == "not_ours"
    virsh("destroy", place.uuid("a"))
    until(lambda: not place.domains(), 10)
    assert refusal(place, "a") == "not_running"


def refusal(place: Place, name: str) -> str:
    """The code of the refusal: on standard error, since standard output belongs to the screen."""
    with console(place, name) as child:
        printed, said = child.communicate(timeout=30)
    assert (child.returncode, printed) == (1, b"")
    code = json.loads(said)["error"]["code"]
    assert isinstance(code, str)
    return code
