"""Joins a machine's screen to standard input and output: bytes both ways until either side closes."""

import os
import socket
import threading
from collections.abc import Callable

from vmctl import mark as marks
from vmctl import state
from vmctl.errors import Code, VmctlError
from vmctl.hypervisor import Domain, connect
from vmctl.observation import MachineState
from vmctl.site import Site

CHUNK = 64 * 1024
CONNECT_SECONDS = 5.0


def open_screen(site: Site, machine: str) -> socket.socket:
    """The machine's screen. Raises VmctlError when it is not ours, not running, or shows nothing."""
    memory = state.recall(site.host.state_dir)
    with connect(site.libvirt_uri) as hypervisor:
        found = next((each for each in hypervisor.domains() if each.uuid == machine), None)
    if found is None:
        raise VmctlError(Code.NOT_RUNNING, f"The machine {machine} is not running here.", "Start it first.", retry=True)
    if memory is None or not _ours(found, memory.portal, site.host.name):
        raise VmctlError(
            Code.NOT_OURS, f"The domain {found.name} does not bear our mark.", "Use that domain's own tools."
        )
    if found.state in (MachineState.OFF, MachineState.CRASHED):
        raise VmctlError(Code.NOT_RUNNING, f"{found.name} is {found.state.value}.", "Start it first.", retry=True)
    return _connected(site, machine, found.name)


def _ours(found: Domain, portal: str, host: str) -> bool:
    try:
        mark = marks.read(found.xml) if found.xml else None
    except ValueError:
        return False
    return mark is not None and (mark.portal, mark.host, mark.machine) == (portal, host, found.uuid)


def _connected(site: Site, machine: str, name: str) -> socket.socket:
    screen = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    screen.settimeout(CONNECT_SECONDS)
    try:
        screen.connect(os.fspath(site.console(machine)))
    except OSError as error:
        screen.close()
        raise VmctlError(
            Code.FAILED, f"The screen of {name} cannot be reached: {error.strerror or error}.", "Try again.", retry=True
        ) from error
    screen.settimeout(None)
    return screen


def relay(screen: socket.socket, source: int, sink: int) -> None:
    """Copy bytes between a screen and two file descriptors until one side ends.

    Each way waits for its own reader, so a slow one holds the other end back instead of filling memory. The thread that
    is still waiting when the other ends is left to the end of the process.
    """
    ended = threading.Event()

    def copy(read: Callable[[], bytes], write: Callable[[bytes], None]) -> None:
        try:
            while data := read():
                write(data)
        except OSError:
            pass  # the other side went away in the middle: the same as an end
        finally:
            ended.set()

    def to_sink(data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(sink, rest) :]

    ways = (
        (lambda: screen.recv(CHUNK), to_sink),
        (lambda: os.read(source, CHUNK), screen.sendall),
    )
    for read, write in ways:
        threading.Thread(target=copy, args=(read, write), daemon=True).start()
    ended.wait()
    screen.close()
