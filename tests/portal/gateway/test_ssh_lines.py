"""Connections are kept, one a host, and nobody waits for another host's."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import paramiko
import pytest

from portal import gateway
from portal.gateway import GatewayError
from portal.gateway.ssh import line, lines, opening
from portal.host_address import HostAddress, SSHAddress
from tests.portal.gateway import deaf, sshd
from tests.portal.gateway.conftest import error_of
from tests.portal.gateway.sshd import Server

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIwPXmMqmGk3uMr6wIYZvcWvqkDVX1tF0gO1k8yA2yzs"
SLOWLY = """
    open({note!r}, "w").write("1")
    time.sleep(2)
    print(json.dumps({{"schema": 1, "who": "slow"}}))
"""


def at(name: str, port: int) -> HostAddress:
    return HostAddress(name, "ssh", ssh=SSHAddress("root", "127.0.0.1", port, KEY))


def until(fact: Callable[[], bool], seconds: float = 10) -> None:
    """Wait for a fact."""
    end = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < end, "It did not come about."
        time.sleep(0.02)


def logins(server: Server) -> int:
    return server.log.count("Accepted publickey")


def test_one_connection_serves_many_calls_and_threads(server: Server) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: gateway.observe(server.address()), range(24)))
    assert answers == [{"schema": 1}] * 24
    assert logins(server) == 1


def test_more_calls_at_once_than_sshd_takes_are_told_why_and_the_others_go_on(server: Server) -> None:
    """Ten by default. One pass at a time calls a host, so it takes an odd configuration to see this."""

    def code(_: int) -> str:
        try:
            return str(gateway.observe(server.address())["schema"])
        except GatewayError as error:
            return error.code

    server.answer('time.sleep(2); print(json.dumps({"schema": 1}))')
    with ThreadPoolExecutor(14) as pool:
        codes = list(pool.map(code, range(14)))
    assert set(codes) == {"1", "crowded"}
    assert codes.count("1") >= 10
    assert logins(server) == 1


def test_a_connection_that_breaks_under_its_pulse_is_replaced(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """paramiko raises there, in a thread where nobody would hear it."""
    ask, unheard, broken = paramiko.Transport.global_request, list[object](), list[object]()

    def break_once(transport: paramiko.Transport, *args: Any, **options: Any) -> object:
        if not broken:
            broken.append(transport)
            raise EOFError
        return ask(transport, *args, **options)

    gateway.observe(server.address())
    monkeypatch.setattr(threading, "excepthook", unheard.append)
    monkeypatch.setattr(paramiko.Transport, "global_request", break_once)
    began = time.monotonic()
    assert gateway.observe(server.address()) == {"schema": 1}
    assert time.monotonic() - began < line.PROBE_SECONDS
    assert (len(broken), logins(server), unheard) == (1, 2, [])


@pytest.mark.field("C04")
@pytest.mark.field("C05")
def test_nobody_waits_for_another_hosts_black_hole(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "CONNECT_SECONDS", 60.0)
    gateway.observe(server.address())
    with ThreadPoolExecutor(4) as pool:
        with deaf.black_hole() as port:
            dead = [pool.submit(error_of, lambda: gateway.observe(at("dead", port))) for _ in range(3)]
            time.sleep(0.2)
            began = time.monotonic()
            for _ in range(3):
                gateway.observe(server.address())
            assert time.monotonic() - began < 20
            assert not any(call.done() for call in dead)
        assert {call.result().code for call in dead} == {"refused"}  # the port is closed now


def test_who_waited_for_a_connection_that_failed_does_not_try_it_again(
    ssh_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the tenth caller would wait for ten attempts."""
    monkeypatch.setattr(opening, "CONNECT_SECONDS", 1.0)
    began = time.monotonic()
    with deaf.black_hole() as port, ThreadPoolExecutor(10) as pool:
        list(pool.map(lambda _: error_of(lambda: gateway.observe(at("dead", port))), range(10)))
    assert time.monotonic() - began < 2.5


@pytest.mark.field("C18")
def test_a_changed_address_counts_at_once_and_a_call_under_way_ends_where_it_began(
    server: Server, tmp_path: Path
) -> None:
    note = tmp_path / "began"
    server.answer(SLOWLY.format(note=str(note)))
    with sshd.running(tmp_path / "new") as other, ThreadPoolExecutor(1) as pool:
        other.answer('print(json.dumps({"schema": 1, "who": "new"}))')
        slow = pool.submit(gateway.observe, server.address())
        until(note.exists)
        assert gateway.observe(other.address())["who"] == "new"
        assert not slow.done()
        assert slow.result()["who"] == "slow"
        until(lambda: server.sessions == [])
        assert gateway.observe(other.address())["who"] == "new"
        assert len(other.sessions) == 1


@pytest.mark.field("C18")
def test_a_host_that_is_pinned_anew_gets_a_new_connection_and_others_keep_theirs(
    server: Server, tmp_path: Path
) -> None:
    with sshd.running(tmp_path / "other") as other:
        gateway.observe(server.address("a"))
        gateway.observe(other.address("b"))
        assert error_of(lambda: gateway.observe(server.address("a", host_key=KEY))).code == "host_key"
        until(lambda: server.sessions == [])
        gateway.observe(server.address("a"))
        gateway.observe(other.address("b"))
        assert (logins(server), logins(other)) == (2, 1)


@pytest.mark.field("C18")
def test_a_connection_that_nobody_uses_is_closed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a host that is disabled or removed is left without anybody having to say so, in every process."""
    monkeypatch.setattr(line, "IDLE_SECONDS", 0.5)
    monkeypatch.setattr(line, "PULSE_SECONDS", 0.1)
    gateway.observe(server.address())
    assert len(server.sessions) == 1
    until(lambda: server.sessions == [], 3)
    assert gateway.observe(server.address()) == {"schema": 1}


def test_an_old_connection_is_renewed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway.observe(server.address())
    monkeypatch.setattr(line, "OLD_SECONDS", 0.0)
    gateway.observe(server.address())
    assert logins(server) == 2
    until(lambda: len(server.sessions) <= 1)


def test_a_host_that_restarted_between_two_calls_is_connected_to_anew(server: Server) -> None:
    gateway.observe(server.address())
    server.stop()
    server.start()
    assert gateway.observe(server.address()) == {"schema": 1}


def test_a_host_that_froze_between_two_calls_is_found_out_before_it_is_asked(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And once it is back under another process, the next call works."""
    monkeypatch.setattr(line, "PROBE_SECONDS", 0.3)
    gateway.observe(server.address())
    for pid in server.sessions:
        os.kill(pid, signal.SIGSTOP)
    began = time.monotonic()
    assert gateway.observe(server.address()) == {"schema": 1}
    assert time.monotonic() - began < 3
    assert logins(server) == 2


def test_a_patient_caller_leaves_a_dead_host_in_peace_for_a_while_and_a_person_does_not(
    ssh_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "CONNECT_SECONDS", 0.3)
    with deaf.black_hole() as port:
        dead = at("dead", port)
        assert error_of(lambda: gateway.apply(dead, {})).code == "unreachable"
        began = time.monotonic()
        assert error_of(lambda: gateway.apply(dead, {})).code == "unreachable"
        assert time.monotonic() - began < 0.1
        began = time.monotonic()
        assert error_of(lambda: gateway.observe(dead)).code == "unreachable"
        assert time.monotonic() - began >= 0.3


def test_a_pause_grows_to_a_limit_and_there_is_none_after_an_error_that_came_at_once() -> None:
    assert [lines.pause(5.0, failures) for failures in range(1, 6)] == [10, 20, 40, 60, 60]
    assert lines.pause(0.001, 100) < 0.1


def test_a_pause_ends_with_the_first_answer(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.stop()
    monkeypatch.setattr(lines, "pause", lambda took, failures: 600.0)
    assert error_of(lambda: gateway.apply(server.address(), {})).code == "refused"
    server.start()
    assert error_of(lambda: gateway.apply(server.address(), {})).code == "refused"
    assert gateway.observe(server.address()) == {"schema": 1}  # a person asks
    assert gateway.apply(server.address(), {}) == {"schema": 1}


def test_a_pause_ends_when_somebody_wants_to_know(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.stop()
    monkeypatch.setattr(lines, "pause", lambda took, failures: 600.0)
    assert error_of(lambda: gateway.apply(server.address(), {})).code == "refused"
    server.start()
    assert error_of(lambda: gateway.apply(server.address(), {})).code == "refused"
    gateway.try_at_once(server.address())
    assert gateway.apply(server.address(), {}) == {"schema": 1}


@pytest.mark.field("C05")
@pytest.mark.parametrize(("wrong", "lost"), [(deaf.black_hole, 0), (deaf.mute, 1)])
def test_forty_dead_hosts_leave_the_live_ones_their_turns(
    server: Server, monkeypatch: pytest.MonkeyPatch, wrong: Callable[[], deaf.Port], lost: int
) -> None:
    """A worker of 32 threads, a tick and limits, five times as quick as they are.

    Forty that take a connection and say nothing hold all threads until the first tick is over; never again.
    """
    monkeypatch.setattr(opening, "CONNECT_SECONDS", 1.0)
    monkeypatch.setattr(opening, "HANDSHAKE_SECONDS", 2.0)
    tick, ticks = 2.0, 4
    begun: dict[str, int] = dict.fromkeys(("live0", "live1"), 0)

    def turn(address: HostAddress, expires: float) -> None:
        """As a task: worthless once its tick is over."""
        if time.monotonic() > expires:
            return
        if address.name in begun:
            begun[address.name] += 1
        with contextlib.suppress(GatewayError):
            gateway.apply(address, {})

    with wrong() as port, ThreadPoolExecutor(32) as pool:
        began = time.monotonic()
        for number in range(ticks):
            time.sleep(max(0, began + number * tick - time.monotonic()))
            hosts = [at(f"dead{k}", port) for k in range(40)] + [server.address(name) for name in begun]
            for host in hosts:
                pool.submit(turn, host, began + (number + 1) * tick)
    assert all(times >= ticks - lost for times in begun.values()), begun


def test_calls_leave_no_thread_and_no_descriptor(server: Server) -> None:
    gateway.observe(server.address())
    threads, files = threading.active_count(), len(os.listdir("/proc/self/fd"))
    for _ in range(8):
        gateway.observe(server.address())
    until(lambda: threading.active_count() <= threads)
    assert len(os.listdir("/proc/self/fd")) <= files
