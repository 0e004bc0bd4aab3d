"""The driver refuses to make a share, refuses to open it, or takes its time; somebody else holds one open."""

from __future__ import annotations

import errno
import time
from contextlib import ExitStack

import pytest

from tests.lab.desired import ALL, CUT, ON_CARD, ON_FUNCTION, VENDOR, Caller, Json, machine
from tests.lab.foreign import hidden, qemu

pytestmark = pytest.mark.timeout(1200)
REFUSALS = {errno.EIO: ("no_capacity", "Input/output error"), errno.EPERM: ("failed", "Operation not permitted")}
"""What the kernel may say, as what that counts, and how it is told."""
LONG_MS = 25_000
GIVEN_UP = 120.0
"""Seconds in which an apply answers that met a kernel which does not; a fifth of it on an idle machine."""


def test_a_share_that_is_refused(caller: Caller) -> None:
    """In each way of cutting a card the kernel's own word is told, and nothing is half made."""
    wishes = [machine(way) for way in CUT]
    for number, (code, word) in REFUSALS.items():
        caller.fault(fail_create=number)
        answer = caller.until_told({wish["machine"]: [word] for wish in wishes}, caller.want(*wishes))
        assert {answer.of(wish["machine"])["code"] for wish in wishes} == {code}, answer.words
        assert (answer.shares, answer.running) == ({}, set())
    assert caller.findings().status("leftovers.vgpus") == "pass"


def test_a_share_that_nobody_may_open(caller: Caller) -> None:
    """QEMU cannot start with it, and guesses why; the kernel's reason is told, and the way out."""
    wishes = [machine(way) for way in CUT]
    caller.fault(fail_open=errno.EBUSY)
    answer = caller.until_told({wish["machine"]: ["Device or resource busy"] for wish in wishes}, caller.want(*wishes))
    assert all(error["retry"] for error in answer.errors), answer.errors
    assert not answer.running
    caller.fault(fail_open=0)
    caller.until_back()


def test_a_share_that_takes_longer_than_anybody_waits(caller: Caller) -> None:
    """The write is given up, and comes to its end by itself; a later apply takes what it made."""
    caller.fault(slow_create_ms=LONG_MS)
    wishes = [machine(way) for way in (ON_CARD, VENDOR)]
    began = time.monotonic()
    answer = caller.want(*wishes)
    assert time.monotonic() - began < GIVEN_UP
    caller.until_told({wish["machine"]: ["does not come back"] for wish in wishes}, answer)
    caller.fault(slow_create_ms=0)
    caller.until_back()


def test_shares_in_a_strangers_qemu(caller: Caller) -> None:
    """They are not taken away, and whoever asks is told which process has them."""
    wishes = [machine(way) for way in ALL]
    answer = caller.until_running(*wishes)
    devices = [answer.device(wish) for wish in wishes]
    switch_off(caller, *wishes)
    with ExitStack() as strangers:
        for number, device in enumerate(devices):
            strangers.enter_context(qemu(caller.lab, device, number))
        answer = caller.until(
            "all are told", lambda answer: answer.words.count("qemu-system") == len(ALL), caller.want()
        )
        assert [error["code"] for error in answer.errors] == ["busy"] * len(ALL), answer.words
        assert len(answer.shares) == len(ALL)
        assert "qemu-system" in caller.findings().words("leftovers.vgpus")


def test_a_removal_that_sleeps_in_the_kernel(caller: Caller) -> None:
    """Nobody can see who has a device open, so the kernel is asked, and never answers: vmctl does, in its time.

    Meanwhile others get their shares of the same card.
    """
    wishes = [machine(way) for way in (ON_CARD, ON_FUNCTION)]
    answer = caller.until_running(*wishes)
    switch_off(caller, *wishes)
    with ExitStack() as strangers:
        for number, wish in enumerate(wishes):
            strangers.enter_context(hidden(caller.lab, answer.device(wish), number))
        began = time.monotonic()
        answer = caller.want()
        assert time.monotonic() - began < GIVEN_UP
        caller.until("it is told", lambda answer: "does not come back" in answer.words, answer)
        caller.until_running(machine(ON_CARD, 1))


def switch_off(caller: Caller, *wishes: Json) -> None:
    """Take machines away behind vmctl's back; their shares stay."""
    caller.lab.shell("\n".join(f"virsh -q destroy {wish['machine']}" for wish in wishes), limit=120)
