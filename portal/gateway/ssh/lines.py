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

    def give_up(self) -> None:
        """A connection that is just being opened is given up by whoever opens it."""
        self.is_given_up = True
        if self.line:
            self.line.leave()


class Lines:
    """Connections by the host's name."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}
        self._lock = threading.Lock()  # never held while anything is waited for

    def line(self, address: HostAddress, *, patient: bool) -> Line:
        """A connection that answers. patient: a host that keeps not answering is asked more seldom.

        Such a host costs its caller seconds, at every tick. With many of them no worker thread would be left for the
        others; so after every attempt that took long there is a pause, growing to a minute, in which the same error is
        told at once. Whoever asks by hand is not patient.
        """
        place = self._place(address)
        came = time.monotonic()
        with place.lock:
            if place.line and place.line.is_current() and place.line.answers():
                return place.line
            if place.line:
                place.line.close() if not place.line.is_alive else place.line.leave()
                place.line = None
            if place.error and (place.failed_at > came or (patient and time.monotonic() < place.pause_until)):
                raise place.error.again()
            return self._open(place)

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
            place.error, place.failed_at = error, time.monotonic()
            place.failures += 1
            pause = (place.failed_at - began) * min(2**place.failures, STEEPEST_PAUSE)
            place.pause_until = place.failed_at + min(pause, LONGEST_PAUSE)
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
