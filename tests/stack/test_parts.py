"""Parts of the stack that decide: subnets, names, back-off, and the sentence for every refusal."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from scripts import instance, whole
from scripts.services import network
from scripts.services.network import Network
from scripts.supervisor import Child, Service
from scripts.terminal import Refusal

CHECKOUT = Path(__file__).resolve().parents[2]


def test_a_subnet_is_the_same_at_every_start_and_differs_between_copies() -> None:
    first = [network.free_subnet([], name) for name in ("a1b2c3d4", "a1b2c3d4", "00000000")]
    assert first[0] == first[1] != first[2]


def test_a_subnet_with_a_route_is_left_alone() -> None:
    taken = network.free_subnet([], "a1b2c3d4")
    assert not network.free_subnet([taken], "a1b2c3d4").overlaps(taken)


def test_a_site_that_uses_all_of_ten_gets_another_range() -> None:
    assert network.free_subnet([Network("10.0.0.0/8")], "a1b2c3d4").overlaps(Network("172.16.0.0/12"))


def test_no_free_subnet_is_a_sentence() -> None:
    with pytest.raises(Refusal, match="No private network of 256 addresses is free"):
        network.free_subnet(list(network.RANGES), "a1b2c3d4")


def test_a_copy_is_named_by_where_it_lies(tmp_path: Path) -> None:
    (tmp_path / "clone").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "clone")
    assert instance.name_of(tmp_path / "clone") == instance.name_of(tmp_path / "link")
    assert instance.name_of(tmp_path / "clone") != instance.name_of(CHECKOUT)


def test_a_run_dir_that_leaves_no_room_for_sockets_is_refused() -> None:
    with pytest.raises(Refusal, match="RUN_DIR has 91 characters"):
        instance.of_checkout({"RUN_DIR": "/run/" + "x" * 86})


def test_a_run_dir_with_other_peoples_things_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    (tmp_path / "theirs").touch()
    ours = replace(instance.of_checkout({"VAR_DIR": str(tmp_path / "var")}), run_dir=tmp_path)
    with pytest.raises(Refusal, match="would be emptied at the end"):
        ours.prepare()
    assert [entry.name for entry in tmp_path.iterdir()] == ["theirs"]


def test_a_folder_that_service_users_cannot_enter_is_refused(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    ours = replace(instance.of_checkout({"VAR_DIR": str(closed)}), run_dir=tmp_path / "run")
    with pytest.raises(Refusal, match="cannot be entered by service users"):
        ours.prepare()


@pytest.mark.parametrize("port", ["http", "0", "65536", "-1"])
def test_a_port_that_is_none_is_refused(port: str) -> None:
    with pytest.raises(Refusal, match="Set it to a number from 1 to 65535"):
        whole.port_from({"PORT": port})


def test_a_taken_port_is_refused_with_a_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(Refusal, match="choose another with PORT="):
        whole.refuse_taken(other.getsockname()[1])


def test_a_child_that_dies_is_started_again_later_each_time(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    child = Child(Service("brief", ["false"], ready=lambda: True), tmp_path / "brief.log")
    for wait in ("0.5", "1", "2"):
        child.process.wait()
        child.tend()
        assert f"brief ended (exit status 1); again in {wait} s." in capfd.readouterr().err
        child.again_at = time.monotonic()
        child.tend()


def test_a_child_learns_of_our_death(tmp_path: Path) -> None:
    """Killed with -9 we can do nothing any more; the kernel tells the child."""
    said = tmp_path / "pid"
    parent = (
        "import sys, time; from pathlib import Path; from scripts.supervisor import Child, Service\n"
        "child = Child(Service('c', ['sleep', '60'], ready=lambda: True), Path(sys.argv[1] + '.log'))\n"
        "Path(sys.argv[1]).write_text(str(child.process.pid)); time.sleep(60)"
    )
    running = subprocess.Popen([sys.executable, "-c", parent, str(said)], cwd=CHECKOUT)
    while not (said.exists() and said.read_text()):
        time.sleep(0.05)
    running.kill()
    running.wait()
    for _ in range(100):
        if not alive(int(said.read_text())):
            return
        time.sleep(0.05)
    pytest.fail("the child lives on")


def alive(pid: int) -> bool:
    """A process that has ended may stay as a zombie until its new parent looks."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_bad_words_on_the_command_line_are_a_usage_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scripts.stack", "walk"], cwd=CHECKOUT, capture_output=True, text=True, env=os.environ
    )
    assert done.returncode == 2
    assert "usage:" in done.stderr
