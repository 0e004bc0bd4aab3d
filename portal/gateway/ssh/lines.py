"""The connections of this process, one a host. Nobody waits for another host's connection."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from portal.gateway.errors import GatewayError
from portal.gateway.ssh.line import Line
from portal.gateway.ssh.opening import logged_in
from portal.host_address import HostAddress, SSHAddress

LONGEST_PAUSE = 60.0  # seconds
STEEPEST_PAUSE = 12  # times what the last attempt took
MOST_DOUBTFUL = 16  # hosts that did not answer last time are tried at once; a worker has 32 threads


@dataclass
class Place:
    """A host's connection and what is known of getting one. The lock is held while one is opened."""

    address: HostAddress
    ssh: SSHAddress
    lock: threading.Lock = field(default_factory=threading.Lock)
    line: Line | None = None
    is_given_up: bool = False  # the host has another address now
    failures: int = 0
    failed_at: float = 0.0
    pause_until: float = 0.0
    error: GatewayError | None = None
    is_awaited: bool = False  # somebody wants to know now

    def fail(self, error: GatewayError, took: float) -> None:
        """Remember an attempt that failed after so many seconds."""
        self.error, self.failed_at = error, time.monotonic()
        self.failures += 1
        self.pause_until = self.failed_at + pause(took, self.failures)

    def give_up(self) -> None:
        """A connection that is just being opened is given up by whoever opens it."""
        self.is_given_up = True
        if self.line:
            self.line.leave()


def pause(took: float, failures: int) -> float:
    """Seconds until a patient caller tries again, after an attempt that took so many; next to none if it took none."""
    return min(took * min(1 << failures, STEEPEST_PAUSE), LONGEST_PAUSE)


class Lines:
    """Connections by the host's name."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}
        self._lock = threading.Lock()  # never held while anything is waited for
        self._doubtful = threading.BoundedSemaphore(MOST_DOUBTFUL)

    def line(self, address: HostAddress, *, patient: bool) -> Line:
        """A connection that answers. patient: a host that keeps not answering is asked more seldom.

        Such a host costs its caller seconds, at every tick. With many of them no worker thread would be left for the
        others; so after every attempt that took long there is a pause, growing to a minute, in which the same error is
        told at once, and only so many are tried at the same time. Whoever asks by hand is not patient.
        """
        place = self._place(address)
        came = time.monotonic()
        with place.lock:
            if place.line and place.line.is_current() and place.line.answers():
                return place.line
            if place.line:
                place.line.leave()
                place.line = None
            patient, place.is_awaited = patient and not place.is_awaited, False
            if place.error and (place.failed_at > came or (patient and time.monotonic() < place.pause_until)):
                raise place.error.again()
            if not (patient and place.error):
                return self._open(place)
            if not self._doubtful.acquire(blocking=False):
                raise place.error.again()
            try:
                return self._open(place)
            finally:
                self._doubtful.release()

    def try_at_once(self, address: HostAddress) -> None:
        """The next call is not patient, whoever makes it."""
        self._place(address).is_awaited = True

    def _place(self, address: HostAddress) -> Place:
        if address.ssh is None:
            raise ValueError(f"{address.name} is not reached over SSH.")
        with self._lock:
            place = self._places.get(address.name)
            if place and place.address == address:
                return place
            self._places[address.name] = new = Place(address, address.ssh)
        if place:
            place.give_up()
        return new

    def _open(self, place: Place) -> Line:
        began = time.monotonic()
        try:
            line = Line(logged_in(place.address, place.ssh))
        except GatewayError as error:
            place.fail(error, time.monotonic() - began)
            raise
        place.line, place.error, place.failures = line, None, 0
        if place.is_given_up:
            line.leave()
        return line

    def close(self) -> None:
        """All of them, at once."""
        with self._lock:
            places, self._places = list(self._places.values()), {}
        for place in places:
            place.is_given_up = True
            if place.line:
                place.line.close()


LINES = Lines()
