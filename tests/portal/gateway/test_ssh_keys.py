"""The portal's own keys: made once, by whoever comes first, and for nobody else to read."""

import random
import stat
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pytest_django import Settings

from portal import gateway
from portal.gateway.ssh import keys
from portal.host_address import HostAddress, SSHAddress
from tests.portal.gateway.conftest import error_of


def test_two_keys_are_made_that_ssh_can_read(ssh_dir: Path) -> None:
    public = gateway.public_keys()
    assert set(public) == {"apply", "console"}
    assert public["apply"].split()[1] != public["console"].split()[1]
    for purpose, line in public.items():
        told = subprocess.run(
            ["ssh-keygen", "-y", "-f", str(ssh_dir / purpose)], capture_output=True, text=True, check=True
        )
        assert told.stdout.split()[:2] == line.split()[:2]
        assert line.split()[2] == f"tessera-{purpose}"
    assert gateway.public_keys() == public


def test_nobody_else_can_read_them(ssh_dir: Path) -> None:
    gateway.public_keys()
    assert stat.S_IMODE(ssh_dir.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in ssh_dir.iterdir()} == {0o600}


def test_many_at_once_make_one_key(ssh_dir: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        made = list(pool.map(lambda _: tuple(gateway.public_keys().values()), range(32)))
    assert len(set(made)) == 1
    assert sorted(file.name for file in ssh_dir.iterdir()) == ["apply", "console"]


def test_a_key_that_others_can_read_is_not_used(ssh_dir: Path) -> None:
    gateway.public_keys()
    (ssh_dir / "apply").chmod(0o640)
    error = error_of(lambda: keys.private_key("apply"))
    assert (error.code, error.retry) == ("no_key", False)
    assert "others may read it" in error.what


@pytest.mark.parametrize("cut", [0, 60, 200, 380])
def test_a_damaged_key_is_a_sentence(ssh_dir: Path, cut: int) -> None:
    gateway.public_keys()
    whole = (ssh_dir / "apply").read_text()
    (ssh_dir / "apply").write_text(whole[:cut])
    far = HostAddress("far", "ssh", ssh=SSHAddress("root", "127.0.0.1", 1))
    for call in (gateway.public_keys, lambda: gateway.observe(far)):
        assert error_of(call).code == "no_key"


def test_no_damage_to_a_key_is_more_than_a_sentence(ssh_dir: Path) -> None:
    """paramiko fails in many ways on what is no key any more, not all of them meant as errors."""
    gateway.public_keys()
    whole, chance = (ssh_dir / "apply").read_bytes(), random.Random(1)
    far = HostAddress("far", "ssh", ssh=SSHAddress("root", "127.0.0.1", 1))
    codes = Counter[str]()
    for _ in range(150):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(whole))] = chance.choice(b"ABCabc019+/=\n\0\xff ")
        (ssh_dir / "apply").write_bytes(damaged)
        codes[error_of(lambda: gateway.observe(far)).code] += 1
    assert set(codes) == {"no_key", "refused"}  # here and there the damage is none


def test_a_folder_that_cannot_be_made_is_a_sentence(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    settings.SSH_DIR = tmp_path / "file" / "ssh"
    assert error_of(gateway.public_keys).code == "no_key"


@pytest.mark.field("C06")
def test_known_hosts_hold_the_pinned_key_alone(ssh_dir: Path) -> None:
    first = keys.known_hosts("tessera", "ssh-ed25519 AAAA")
    second = keys.known_hosts("tessera", "ssh-ed25519 BBBB")
    assert first != second
    assert first.read_text() == "tessera ssh-ed25519 AAAA\n"
    assert keys.known_hosts("tessera", "ssh-ed25519 AAAA") == first
