"""`make run` without its set-up: in a copy of the checkout under a long path in a folder that only root enters."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import namespace
from scripts.instance import for_tests, name_of

CHECKOUT = Path(__file__).resolve().parents[2]
PATH_LENGTH = 200


class Copy:
    """A copy of the checkout, and one start after the other of it."""

    def __init__(self, checkout: Path) -> None:
        self.checkout = checkout
        self.name = name_of(checkout)
        with socket.create_server(("127.0.0.1", 0)) as trial:
            self.port = str(trial.getsockname()[1])
        self.output = checkout / "output.txt"
        self.started: list[subprocess.Popen[bytes]] = []

    def environ(self) -> dict[str, str]:
        """That of a terminal: none of what the tests' own services are told."""
        own = ("DATABASE_URL", "REDIS_URL", "LIBVIRT_URI", "VAR_DIR", "RUN_DIR", "STORAGE_DIR", "SECRET_KEY")
        return {name: value for name, value in os.environ.items() if name not in own} | {"PORT": self.port}

    def start(self) -> subprocess.Popen[bytes]:
        with self.output.open("wb") as output:
            words = [sys.executable, "-m", "scripts.stack", "run"]
            running = subprocess.Popen(
                words, cwd=self.checkout, env=self.environ(), stdout=output, stderr=subprocess.STDOUT
            )
        self.started.append(running)
        return running

    def ready(self) -> subprocess.Popen[bytes]:
        """Started, and it has said so."""
        running = self.start()
        limit = time.monotonic() + 240
        while "\nready: " not in self.said():
            assert running.poll() is None, self.said()
            assert time.monotonic() < limit, self.said()
            time.sleep(0.1)
        return running

    def said(self) -> str:
        return self.output.read_text()

    def inside(self, *command: str) -> subprocess.CompletedProcess[str]:
        """A command in the running copy."""
        words = [sys.executable, "-m", "scripts.stack", "inside", "--", *command]
        return subprocess.run(words, cwd=self.checkout, env=self.environ(), capture_output=True, text=True, timeout=120)

    def left(self) -> list[str]:
        """What still bears its name: processes, bridges, filter rules, folders of sockets."""
        asked = [["ps", "axww", "-o", "args="], ["ip", "-o", "link"], ["iptables", "-S"], ["ls", "/run/tessera"]]
        lines = []
        for command in asked:
            lines += subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        return [line for line in lines if self.name in line or f"tsr-{self.name[:6]}" in line]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    home = tmp_path_factory.mktemp("home", numbered=True)
    home.chmod(0o700)
    checkout = home / "a folder"
    while len(str(checkout)) < PATH_LENGTH:
        checkout /= "x" * min(100, max(1, PATH_LENGTH - len(str(checkout)) - 1))
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files"], cwd=CHECKOUT, check=True, capture_output=True, text=True
    )
    for name in listed.stdout.splitlines():
        if name.startswith(("portal/", "vmctl/", "scripts/", "templates/", "static/", "manage.py")):
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(CHECKOUT / name, checkout / name)
    made = Copy(checkout)
    yield made
    for running in made.started:
        running.terminate()
        running.wait(60)


def test_it_gets_ready_once_survives_a_kill_and_leaves_nothing(copy: Copy) -> None:
    """One test for one life: each start takes seconds."""
    running = copy.ready()
    assert "student2" in copy.said(), "the log-ins are not shown"
    with urllib.request.urlopen(f"http://127.0.0.1:{copy.port}/healthz", timeout=10) as answer:
        assert answer.status == 200
    assert "Tesla T4" in copy.inside(sys.executable, "manage.py", "vmctl", "sim-t4", "gpus").stdout
    first_output = copy.output
    copy.output = copy.checkout / "second.txt"
    assert copy.start().wait(60) == 1
    assert "It is already running" in copy.said()
    running.kill()
    running.wait()
    assert_a_taken_port_leaves_the_network(copy)
    copy.output = first_output
    running = copy.ready()
    running.send_signal(signal.SIGINT)
    assert running.wait(60) == 0
    assert copy.left() == []
    subprocess.run(["ip", "link", "add", f"tsr-{copy.name[:6]}", "type", "bridge"], check=True)  # of a start cut off
    running = copy.ready()
    running.send_signal(signal.SIGINT)
    assert running.wait(60) == 0
    assert copy.left() == []
    assert "Nothing of this checkout runs" in copy.inside("true").stderr


def assert_a_taken_port_leaves_the_network(copy: Copy) -> None:
    """And with it the machines: a start that fails has no business with what it found."""
    own_port = copy.port
    with socket.create_server(("127.0.0.1", 0)) as other:
        copy.port = str(other.getsockname()[1])
        assert copy.start().wait(60) == 1
    copy.port = own_port
    assert "cannot be had" in copy.said()
    found = namespace.inhabitants(for_tests(copy.name, copy.checkout))
    assert "dnsmasq" in map(namespace.program_of, found)
