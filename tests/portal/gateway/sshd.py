"""A real sshd on 127.0.0.1 with its own keys and configuration, whose forced command is what a test wants it to be."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from portal import gateway
from portal.host_address import HostAddress, SSHAddress

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")
START_SECONDS = 10
LONGEST_SECONDS = 60  # then a command that a test has left behind ends by itself
PRIVILEGE_FOLDER = Path("/run/sshd")  # sshd started by root wants it; a machine that never ran one lacks it
CONFIGURATION = """
ListenAddress 127.0.0.1
Port {port}
HostKey "{folder}/{key}"
PidFile none
AuthorizedKeysFile "{folder}/authorized_keys"
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PrintMotd no
MaxStartups 100
LogLevel VERBOSE
SetEnv SHLVL=2
"""
# The last line: bash reads ~/.bashrc for a command under sshd, if its level is 1. What stands in there is not ours.


@dataclass
class Server:
    """One sshd. Its host key can be changed, and what its forced commands do; `started` are the pids of commands."""

    folder: Path
    port: int
    kind: str = "ed25519"
    process: subprocess.Popen[bytes] | None = None
    words: dict[str, str] = field(default_factory=dict)

    @property
    def host_key(self) -> str:
        """As it is pinned."""
        return " ".join((self.folder / f"{self._key}.pub").read_text().split()[:2])

    @property
    def _key(self) -> str:
        return f"host_{self.kind}"

    def address(self, name: str = "far", host_key: str | None = None) -> HostAddress:
        """Of a host behind this sshd."""
        pinned = self.host_key if host_key is None else host_key
        return HostAddress(name, "ssh", ssh=SSHAddress(getpass.getuser(), "127.0.0.1", self.port, pinned))

    def answer(self, source: str, purpose: str = "apply") -> None:
        """Let the forced command of a key be this Python script."""
        script = self.folder / f"{purpose}.py"
        script.write_text(
            f"import json, os, signal, sys, time\nsignal.alarm({LONGEST_SECONDS})\n" + textwrap.dedent(source)
        )
        self.force(purpose, shlex.join([sys.executable, str(script)]))

    def force(self, purpose: str, command: str) -> None:
        """Let the forced command of a key be this, for connections that are made from now on."""
        self.words[purpose] = command
        lines = [
            f'restrict,command="{self.words[key]}" {line}'
            for key, line in gateway.public_keys().items()
            if key in self.words
        ]
        (self.folder / "authorized_keys").write_text("\n".join(lines) + "\n")

    def new_host_key(self, kind: str = "ed25519") -> None:
        """Make one; it counts from the next start on."""
        self.kind = kind
        for file in (self.folder / self._key, self.folder / f"{self._key}.pub"):
            file.unlink(missing_ok=True)
        words = ["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", str(self.folder / self._key)]
        subprocess.run(words, check=True)

    def start(self) -> None:
        """Returns when it takes connections."""
        file = self.folder / "sshd_config"
        file.write_text(CONFIGURATION.format(port=self.port, folder=self.folder, key=self._key))
        assert SSHD
        log = (self.folder / "sshd.log").open("ab")
        with log:
            self.process = subprocess.Popen([SSHD, "-D", "-e", "-f", str(file)], stdin=subprocess.DEVNULL, stderr=log)
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and self.process.poll() is None:
            with socket.socket() as line:
                if line.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        pytest.fail(f"sshd does not start: {self.log}")

    @property
    def log(self) -> str:
        return (self.folder / "sshd.log").read_text()

    @property
    def sessions(self) -> list[int]:
        """Its processes that hold a connection."""
        assert self.process
        listed = subprocess.run(
            ["ps", "--no-headers", "-o", "pid", "--ppid", str(self.process.pid)],
            capture_output=True,
            text=True,
            check=False,
        )
        return [int(pid) for pid in listed.stdout.split()]

    def stop(self) -> None:
        """It, and its connections, at once."""
        if self.process:
            for pid in self.sessions:
                subprocess.run(["kill", "-9", str(pid)], check=False)
            self.process.kill()
            self.process.wait()
            self.process = None


def free_port() -> int:
    """A port of 127.0.0.1 that nobody had a moment ago."""
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        return int(line.getsockname()[1])


@contextmanager
def running(folder: Path) -> Iterator[Server]:
    """An sshd for one test; its key's forced commands are empty documents at first."""
    if SSHD is None:
        pytest.fail("sshd is missing; make setup brings it (openssh-server)")
    if os.geteuid() == 0:
        PRIVILEGE_FOLDER.mkdir(mode=0o755, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    server = Server(folder, free_port())
    server.new_host_key()
    server.answer('print(json.dumps({"schema": 1}))')
    server.start()
    try:
        yield server
    finally:
        server.stop()
