"""`python -m scripts.stack with`: private services around a command, and nothing afterwards."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from secrets import token_hex

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
WITH = [sys.executable, "-m", "scripts.stack", "with"]


def around(services: str, name: str, command: str) -> subprocess.CompletedProcess[str]:
    words = [*WITH, services, "--instance", name, "--", "sh", "-c", command]
    return subprocess.run(words, check=False, cwd=CHECKOUT, capture_output=True, text=True, timeout=120)


@pytest.fixture
def name() -> str:
    return f"t{token_hex(3)}"


def left_of(name: str) -> list[str]:
    """Folders, bridges, filter rules and processes that bear the name of an instance."""
    folders = ["ls", "/run/tessera", "/var/tmp"]
    asked = [folders, ["ip", "-o", "link"], ["iptables", "-S"], ["ps", "axww", "-o", "args="]]
    lines = []
    for command in asked:
        lines += subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [line for line in lines if name in line or f"tsr-{name[:6]}" in line]


def test_the_command_finds_the_services_and_its_status_is_ours(name: str) -> None:
    asks = 'psql -XAtq "$DATABASE_URL" -c "SELECT 6 * 7" && virsh -c "$LIBVIRT_URI" net-list --name && exit 3'
    done = around("postgres,libvirt", name, asks)
    assert done.returncode == 3, done.stderr
    assert "42\ntessera" in done.stdout
    assert left_of(name) == []


def test_what_the_command_says_last_is_the_last_line(name: str) -> None:
    """Also where both outputs go to one place: a build log."""
    assert around("redis", name, "echo the summary").stdout == "the summary\n"
    assert around("redis", name, "echo the summary >&2").stderr.splitlines()[-1] == "the summary"


def test_a_machine_that_the_command_left_is_switched_off(name: str, tmp_path: Path) -> None:
    xml = tmp_path / "domain.xml"
    machine = "<os><type arch='x86_64' machine='pc'>hvm</type></os>"
    xml.write_text(f"<domain type='qemu'><name>{name}-vm</name><memory unit='MiB'>16</memory>{machine}</domain>")
    done = around("libvirt", name, f"virsh -q -c $LIBVIRT_URI create '{xml}'")
    assert done.returncode == 0, done.stderr
    assert left_of(name) == []


def test_a_killed_service_comes_back(name: str) -> None:
    command = (
        'kill -9 $(cat "$RUN_DIR/libvirt/libvirtd.pid"); sleep 0.2; '
        'for i in $(seq 50); do virsh -q -c "$LIBVIRT_URI" net-list --name && exit; sleep 0.2; done; exit 1'
    )
    done = around("libvirt", name, command)
    assert done.returncode == 0, done.stderr
    assert "libvirtd ended (signal SIGKILL)" in done.stderr


def test_a_killed_supervisor_leaves_nothing_for_long(name: str) -> None:
    """Its children are told by the kernel; what they leave, the next start of the same instance clears."""
    words = [*WITH, "postgres,redis,libvirt", "--instance", name, "--", "sh", "-c", "echo up; exec sleep 300"]
    killed = subprocess.Popen(words, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)
    assert killed.stdout is not None
    while killed.stdout.readline().strip() != "up":
        pass
    killed.kill()
    killed.wait()
    time.sleep(1)
    assert around("postgres,libvirt", name, "true").returncode == 0
    assert left_of(name) == []


def test_sigterm_ends_the_command_and_the_services(name: str) -> None:
    words = [*WITH, "redis", "--instance", name, "--", "sh", "-c", "echo up; exec sleep 300"]
    running = subprocess.Popen(words, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    while running.stdout.readline().strip() != "up":
        pass
    running.send_signal(signal.SIGTERM)
    assert running.wait(30) == 128 + signal.SIGTERM
    assert left_of(name) == []


def test_a_second_one_of_the_same_name_is_told_so(name: str) -> None:
    inner = shlex.join([*WITH, "redis", "--instance", name, "--", "true"])
    done = around("redis", name, f"cd '{CHECKOUT}'; {inner}; test $? = 1")
    assert done.returncode == 0
    assert "It is already running" in done.stderr


@pytest.mark.parametrize(
    ("services", "name", "sentence"),
    [("mysql", "t1", "No service is called mysql."), ("redis", "../x", "'../x' is no name of an instance.")],
)
def test_a_wrong_word_is_answered_with_a_sentence(services: str, name: str, sentence: str) -> None:
    done = around(services, name, "true")
    assert done.returncode == 1
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_the_environment_of_the_caller_comes_along(name: str) -> None:
    assert around("redis", name, f'test "$HOME" = {shlex.quote(os.environ["HOME"])}').returncode == 0
