"""A screen's bytes through OpenSSH's client, against a real sshd."""

import asyncio
import json
import os
import time
from pathlib import Path
from uuid import uuid4

import pytest

from portal import gateway
from portal.gateway import GatewayError, HostAddress
from portal.gateway.ssh import client
from portal.host_address import SSHAddress, fingerprint
from tests.portal.gateway import deaf
from tests.portal.gateway.conftest import is_alive, pid_in
from tests.portal.gateway.sshd import Server, free_port

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIwPXmMqmGk3uMr6wIYZvcWvqkDVX1tF0gO1k8yA2yzs"
ECHO = """
    open(os.path.dirname(sys.argv[0]) + "/pid", "w").write(str(os.getpid()))
    sys.stdout.buffer.write(b"RFB 003.008\\n" + os.environ["SSH_ORIGINAL_COMMAND"].encode()); sys.stdout.buffer.flush()
    while data := os.read(0, 65536):
        os.write(1, data)
"""


async def refusal(address: HostAddress) -> GatewayError:
    """The error that opening a screen ends with."""
    with pytest.raises(GatewayError) as caught:
        await gateway.open_console(address, uuid4())
    return caught.value


async def exactly(stream: gateway.ByteStream, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = await stream.read()
        assert part
        data += part
    return data


async def test_a_console_carries_bytes_both_ways(server: Server) -> None:
    server.answer(ECHO, "console")
    machine = uuid4()
    stream = await gateway.open_console(server.address(), machine)
    greeting = b"RFB 003.008\n" + f"console --machine {machine}".encode()
    assert await exactly(stream, len(greeting)) == greeting
    keys = bytes(range(256)) * 100 + b"\r\n~.\r\n~?"  # the client's own escapes are no escapes here
    await stream.write(keys)
    assert await exactly(stream, len(keys)) == keys
    await stream.close()
    await stream.close()
    assert not is_alive(pid_in(server.folder / "pid"))


async def test_each_key_opens_its_own_door(server: Server) -> None:
    server.answer('print(json.dumps({"schema": 1, "who": "apply"}))')
    server.answer(ECHO, "console")
    stream = await gateway.open_console(server.address(), uuid4())
    await stream.close()
    told = await asyncio.to_thread(gateway.observe, server.address())
    assert told["who"] == "apply"


@pytest.mark.field("C06")
@pytest.mark.parametrize("kind", ["ed25519", "ecdsa"])
async def test_a_changed_host_key_is_told_and_nothing_is_sent(server: Server, kind: str) -> None:
    pinned = server.host_key
    server.answer(ECHO, "console")
    server.stop()
    server.new_host_key(kind)
    server.start()
    began = time.monotonic()
    error = await refusal(server.address(host_key=pinned))
    assert time.monotonic() - began < gateway.WAY_SECONDS
    assert error.code == "host_key"
    assert fingerprint(pinned) in error.what
    if kind == "ed25519":  # of another kind the client names no fingerprint
        assert fingerprint(server.host_key) in error.what
    assert "publickey" not in server.log


@pytest.mark.field("C06")
async def test_a_host_key_that_nobody_confirmed_is_not_taken(server: Server) -> None:
    server.answer(ECHO, "console")
    assert (await refusal(server.address(host_key=""))).code == "host_key"
    assert "publickey" not in server.log


@pytest.mark.field("C06")
async def test_nobody_is_asked_for_a_password(server: Server) -> None:
    (server.folder / "authorized_keys").write_text("")
    error = await refusal(server.address())
    assert error.code == "key_refused"
    assert "console key" in error.what


async def test_where_nobody_answers_is_a_sentence(ssh_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def at(port: int, host: str = "127.0.0.1") -> HostAddress:
        return HostAddress("far", "ssh", ssh=SSHAddress("root", host, port, KEY))

    assert (await refusal(at(free_port()))).code == "refused"
    assert (await refusal(at(22, "nowhere.invalid"))).code == "unreachable"
    with deaf.talkative(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        assert (await refusal(at(port))).code == "handshake"
    monkeypatch.setitem(client.OPTIONS, "ConnectTimeout", "1")
    with deaf.black_hole() as port:
        assert (await refusal(at(port))).code == "unreachable"
    with deaf.mute() as port:
        assert (await refusal(at(port))).code in ("unreachable", "handshake")


async def test_a_missing_client_is_a_sentence(ssh_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "SSH", "/nowhere/ssh")
    error = await refusal(HostAddress("far", "ssh", ssh=SSHAddress("root", "127.0.0.1", 22, KEY)))
    assert error.code == "no_program"
    assert "openssh-client" in error.remedy


async def test_a_console_that_cannot_open_says_why(server: Server) -> None:
    error = {"code": "not_running", "what": "The machine is off.", "remedy": "Start it.", "retry": True}
    server.answer(f"print({json.dumps({'schema': 1, 'error': error})!r}, file=sys.stderr); sys.exit(1)", "console")
    assert (await refusal(server.address())).as_dict() == error


async def test_a_silent_screen_is_given_up_and_ends_on_the_host(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "CONSOLE_OPEN_SECONDS", 1)
    monkeypatch.setattr(gateway, "WAY_SECONDS", 1)
    server.answer(
        'open(os.path.dirname(sys.argv[0]) + "/pid", "w").write(str(os.getpid())); sys.stdin.read()', "console"
    )
    assert (await refusal(server.address())).code == "no_screen"
    assert not is_alive(pid_in(server.folder / "pid"))


async def test_a_host_that_dies_ends_the_screen(server: Server) -> None:
    server.answer(ECHO, "console")
    stream = await gateway.open_console(server.address(), uuid4())
    await stream.read()
    server.stop()
    async with asyncio.timeout(5):
        while await stream.read():
            pass
    await stream.close()


@pytest.mark.field("F06")
async def test_consoles_leave_no_descriptor_and_no_child(server: Server) -> None:
    server.answer(ECHO, "console")
    before = len(os.listdir("/proc/self/fd"))
    streams = await asyncio.gather(*(gateway.open_console(server.address(), uuid4()) for _ in range(8)))
    await asyncio.gather(*(stream.close() for stream in streams))
    await asyncio.sleep(0.2)
    assert len(os.listdir("/proc/self/fd")) <= before + 2
    assert server.process
    assert children() == {server.process.pid}


def children() -> set[int]:
    """Processes that this one started and has not reaped."""
    lists = [file.read_text() for file in Path("/proc/self/task").glob("*/children")]
    return {int(pid) for pid in " ".join(lists).split()}


async def test_a_screen_that_nobody_reads_stops_instead_of_filling_memory(server: Server) -> None:
    """The client's own window is some megabytes."""
    note = server.folder / "sent"
    server.answer(
        f"""
        sent = 0
        while sent < 200_000_000:
            sent += os.write(1, b"x" * 65536)
            open({str(note)!r}, "w").write(str(sent))
        """,
        "console",
    )
    stream = await gateway.open_console(server.address(), uuid4())
    await asyncio.sleep(2)
    first = int(note.read_text())
    await asyncio.sleep(1)
    assert int(note.read_text()) == first < 20_000_000
    await stream.close()


@pytest.mark.field("G10")
def test_the_argument_list_ends_the_options_before_the_host(ssh_dir: Path) -> None:
    words = gateway.command(HostAddress("far", "ssh", ssh=SSHAddress("root", "gpu1", 2222, KEY)), "console")
    assert words[-3:] == ["--", "gpu1", "console"]
    assert words[:3] == ["ssh", "-F", "none"]
    assert words[words.index("-l") + 1] == "root"
    assert words[words.index("-p") + 1] == "2222"
    assert {"BatchMode=yes", "StrictHostKeyChecking=yes", "IdentitiesOnly=yes"} <= set(words)
