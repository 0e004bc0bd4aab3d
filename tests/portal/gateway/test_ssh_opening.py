"""Getting a connection: whom the portal speaks with, and how long it tries."""

import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from portal import gateway
from portal.gateway.ssh import opening
from portal.host_address import HostAddress, SSHAddress, fingerprint
from tests.portal.gateway import deaf
from tests.portal.gateway.conftest import error_of
from tests.portal.gateway.sshd import Server, free_port

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIwPXmMqmGk3uMr6wIYZvcWvqkDVX1tF0gO1k8yA2yzs"


def at(port: int, host: str = "127.0.0.1") -> HostAddress:
    return HostAddress("far", "ssh", ssh=SSHAddress("root", host, port, KEY))


def seconds(deed: Callable[[], object]) -> float:
    began = time.monotonic()
    deed()
    return time.monotonic() - began


@pytest.mark.field("C06")
@pytest.mark.parametrize("kind", ["ed25519", "ecdsa"])
def test_a_changed_host_key_is_an_error_with_both_fingerprints_and_nothing_else_happens(
    server: Server, kind: str
) -> None:
    server.answer('open(os.path.dirname(sys.argv[0]) + "/ran", "w"); print(json.dumps({"schema": 1}))')
    pinned = server.host_key
    server.stop()
    server.new_host_key(kind)
    server.start()
    began = time.monotonic()
    error = error_of(lambda: gateway.observe(server.address(host_key=pinned)))
    assert time.monotonic() - began < opening.HANDSHAKE_SECONDS
    assert error.code == "host_key"
    assert fingerprint(pinned) in error.what
    assert fingerprint(server.host_key) in error.what
    assert f"change_host far --fingerprint {fingerprint(server.host_key)}" in error.remedy
    assert not error.retry
    assert not (server.folder / "ran").exists()
    assert "publickey" not in server.log  # the portal's key was not even offered


@pytest.mark.field("C06")
def test_a_host_key_that_nobody_confirmed_is_not_taken(server: Server) -> None:
    error = error_of(lambda: gateway.observe(server.address(host_key="")))
    assert error.code == "host_key"
    assert error.what.startswith("Nobody has confirmed")
    assert fingerprint(server.host_key) in error.what
    assert "publickey" not in server.log


def test_without_the_comparison_anybody_would_be_taken_for_the_host(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of the two above: nothing else stands in the way."""
    shown = opening._shown_key

    def believed(transport: Any, ssh: SSHAddress, until: float) -> str:
        shown(transport, ssh, until)
        return ssh.host_key

    monkeypatch.setattr(opening, "_shown_key", believed)
    assert gateway.observe(server.address(host_key=KEY)) == {"schema": 1}


@pytest.mark.field("C06")
def test_what_the_account_has_of_its_own_counts_for_nothing(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A known host, a key, a configuration and an agent that would all let us in."""
    own = tmp_path / "home" / ".ssh"
    own.mkdir(parents=True)
    (own / "known_hosts").write_text(f"[127.0.0.1]:{server.port} {server.host_key}\n")
    (own / "config").write_text("Host *\n  StrictHostKeyChecking no\n  ProxyCommand touch proxied\n")
    gateway.public_keys()
    (own / "id_ed25519").write_bytes((tmp_path / "ssh" / "apply").read_bytes())
    (own / "id_ed25519").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(tmp_path / "agent"))
        agent.listen()
        agent.setblocking(False)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
        assert error_of(lambda: gateway.observe(server.address(host_key=KEY))).code == "host_key"
        (server.folder / "authorized_keys").write_text("")
        assert error_of(lambda: gateway.gpus(server.address("other"))).code == "key_refused"
        with pytest.raises(BlockingIOError):
            agent.accept()


def test_a_key_that_the_host_does_not_know_is_a_sentence_with_the_way_out(server: Server) -> None:
    (server.folder / "authorized_keys").write_text("")
    error = error_of(lambda: gateway.observe(server.address()))
    assert error.code == "key_refused"
    assert "ssh_keys" in error.remedy


@pytest.mark.field("C05")
def test_a_black_hole_is_given_up_in_time(ssh_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "CONNECT_SECONDS", 0.5)
    with deaf.black_hole() as port:
        began = time.monotonic()
        error = error_of(lambda: gateway.observe(at(port)))
        assert time.monotonic() - began < 1.5
    assert (error.code, error.retry) == ("unreachable", True)
    assert "no answer in 0.5 s" in error.what


def test_a_port_where_nobody_listens_is_told_at_once(ssh_dir: Path) -> None:
    assert seconds(lambda: error_of(lambda: gateway.observe(at(free_port())))) < 2
    assert error_of(lambda: gateway.gpus(at(free_port()))).code == "refused"


def test_a_name_without_an_address_is_a_sentence(ssh_dir: Path) -> None:
    error = error_of(lambda: gateway.observe(at(22, "nowhere.invalid")))
    assert error.code == "unreachable"
    assert "root@nowhere.invalid" in error.what


@pytest.mark.field("C05")
def test_a_name_server_that_does_not_answer_costs_no_more_than_a_host(
    ssh_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "CONNECT_SECONDS", 0.3)

    def slow(*args: object, **options: object) -> list[object]:
        time.sleep(2)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    assert seconds(lambda: error_of(lambda: gateway.observe(at(22, "slow.invalid")))) < 2


@pytest.mark.field("C05")
def test_a_machine_that_takes_the_connection_and_says_nothing_is_given_up(
    ssh_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "HANDSHAKE_SECONDS", 0.5)
    with deaf.mute() as port:
        began = time.monotonic()
        error = error_of(lambda: gateway.observe(at(port)))
        assert time.monotonic() - began < 1.5
    assert (error.code, error.retry) == ("handshake", True)


@pytest.mark.parametrize(
    "words",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"",
        b"\xff\xfe\x00\r\n",
        b"SSH-1.5-old\r\n",
        b"SSH-2.0-x\r\n" + b"\x00" * 64,
    ],
)
def test_what_does_not_speak_ssh_is_a_sentence(ssh_dir: Path, words: bytes) -> None:
    with deaf.talkative(words) as port:
        error = error_of(lambda: gateway.observe(at(port)))
    assert error.code == "handshake"
    assert error.what.endswith(".")


def test_the_host_key_is_told_for_pinning(server: Server) -> None:
    address = server.address().ssh
    assert address
    assert gateway.host_key_of(SSHAddress(address.user, address.host, address.port)) == server.host_key
    assert "publickey" not in server.log


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_a_host_without_the_usual_kind_of_key_is_pinned_by_what_it_has(server: Server, kind: str) -> None:
    server.stop()
    server.new_host_key(kind)
    server.start()
    address = server.address().ssh
    assert address
    assert gateway.host_key_of(SSHAddress(address.user, address.host, address.port)) == server.host_key
    assert gateway.observe(server.address()) == {"schema": 1}


def test_asking_for_a_host_key_has_the_same_limits(ssh_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "CONNECT_SECONDS", 0.3)
    monkeypatch.setattr(opening, "HANDSHAKE_SECONDS", 0.3)
    with deaf.mute() as port:
        assert error_of(lambda: gateway.host_key_of(SSHAddress("root", "127.0.0.1", port))).code == "handshake"
    with deaf.black_hole() as port:
        assert error_of(lambda: gateway.host_key_of(SSHAddress("root", "127.0.0.1", port))).code == "unreachable"
