"""One connection to one host, kept while it is of use."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import paramiko

PULSE_SECONDS = 5.0  # between two questions for a sign of life, while somebody waits for an answer
IDLE_SECONDS = 60.0  # a connection that nobody used for so long is closed: its host may have been taken away
OLD_SECONDS = 3600.0  # then a new one is opened, so that what the host's sshd was told since counts
PROBE_SECONDS = 3.0  # for a sign of life before a kept connection is used again


class Line:
    """A logged-in connection. Its pulse asks the host for a sign of life while a call is under way.

    paramiko's waits for an answer have no limit, so they are made in threads of their own; whoever uses a line watches
    `quiet_seconds` and closes it, which ends them.
    """

    def __init__(self, transport: paramiko.Transport) -> None:
        self.transport = transport
        self.beginning = threading.Lock()  # of one call at a time: paramiko tells a refusal to whoever looks first
        self._opened = self._used = self._heard = time.monotonic()
        self._calls = 0
        self._was_used = self._leaving = self._is_asked = False
        self._news = threading.Condition()
        threading.Thread(target=self._pulse, name="pulse of an SSH connection", daemon=True).start()

    @property
    def is_alive(self) -> bool:
        return self.transport.is_active()

    @property
    def quiet_seconds(self) -> float:
        """Since the last sign of life."""
        return time.monotonic() - self._heard

    def is_current(self) -> bool:
        """May it be used for another call?"""
        return self.is_alive and not self._leaving and time.monotonic() - self._opened < OLD_SECONDS

    def hear(self) -> None:
        """The host has just sent something."""
        with self._news:
            self._heard = time.monotonic()
            self._news.notify_all()

    def answers(self) -> bool:
        """Is somebody there? Asked before a kept connection is used again: its host may have restarted meanwhile."""
        asked = time.monotonic()
        with self.in_use(), self._news:
            self._is_asked = True
            self._news.notify_all()
            self._news.wait_for(lambda: self._heard > asked or not self.is_alive, PROBE_SECONDS)
            return self._heard > asked and self.is_alive

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Inside, a call is under way, and the host is asked for signs of life."""
        with self._news:
            self._calls += 1
            self._was_used = True
        try:
            yield
        finally:
            with self._news:
                self._calls -= 1
                self._used = time.monotonic()
                last = self._leaving and not self._calls
            if last:
                self.close()

    def leave(self) -> None:
        """No new calls; closed when those under way have ended, and a first one that is just about to begin."""
        with self._news:
            self._leaving = True
            free = self._was_used and not self._calls
        if free:
            self.close()

    def close(self) -> None:
        """At once; whoever waits for something from it is told."""
        self.transport.close()
        with self._news:
            self._news.notify_all()

    def _pulse(self) -> None:
        while self.is_alive:
            if self._calls:
                self._ask()
            elif time.monotonic() - self._used > IDLE_SECONDS:
                self.close()
            with self._news:
                self._news.wait_for(lambda: self._is_asked or not self.is_alive, PULSE_SECONDS)
                self._is_asked = False
        with self._news:
            self._news.notify_all()

    def _ask(self) -> None:
        try:
            self.transport.global_request("keepalive@openssh.com", wait=True)
        except (EOFError, OSError, paramiko.SSHException):  # it breaks just now
            self.close()
        if self.is_alive:
            self.hear()
