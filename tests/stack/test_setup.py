"""What set-up asks before it installs anything."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
PARTS = "set -euo pipefail; for part in say wanted python assets; do . scripts/setup.d/$part.sh; done; "


def bash(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", PARTS + script], check=False, cwd=CHECKOUT, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("wanted", "said", "enough"),
    [
        ("15", "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)", True),
        ("15", "postgres (PostgreSQL) 14.9", False),
        ("9.0", "libvirtd (libvirt) 11.3.0", True),
        ("7.2", "QEMU emulator version 10.0.13", True),
        ("7.2", "QEMU emulator version 6.2.0", False),
        ("18", "v20.19.2", True),
        ("18", "v9.11.0", False),
        ("18", "", False),
        ("18", "command not found", False),
    ],
)
def test_versions_are_compared_as_numbers(wanted: str, said: str, enough: bool) -> None:
    assert (bash(f"at_least {wanted} '{said}'").returncode == 0) is enough


def test_what_is_there_is_not_wanted_and_what_is_missing_is_named() -> None:
    done = bash('missing=(); want there true; want absent false; echo "${missing[*]}"')
    assert done.stdout == "absent\n"


def test_everything_that_these_tests_run_with_is_there() -> None:
    """They run after set-up, which therefore finds nothing to install."""
    done = bash('wanted test; echo "missing: ${missing[*]}"')
    assert done.stdout == "missing: \n", done.stderr


def test_only_the_lab_wants_what_makes_it() -> None:
    wanted = [
        bash(f'program() {{ false; }}; wanted {purpose}; echo "${{missing[*]}}"').stdout for purpose in ("test", "lab")
    ]
    assert ["mmdebstrap" in each.split() for each in wanted] == [False, True]
    assert set(wanted[0].split()) < set(wanted[1].split())


def test_a_service_that_the_environment_names_is_not_installed() -> None:
    nothing = "unset DATABASE_URL REDIS_URL; has_postgres() { false; }; has_redis() { false; }; "
    given = "DATABASE_URL=postgres:///x REDIS_URL=redis://127.0.0.1; "
    assert bash(nothing + 'wanted run; echo "${missing[*]}"').stdout == "postgresql redis-server\n"
    assert bash(nothing + given + 'wanted run; echo "${missing[*]}"').stdout == "\n"


def test_a_stamp_changes_with_a_name_or_a_content(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("1")
    (tmp_path / "two").write_text("1")
    hashes = [bash(f"stamp_of '{tmp_path}/{name}'").stdout for name in ("one", "one", "two")]
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_failing_step_shows_what_it_said_and_is_a_failure() -> None:
    done = bash('progress "tries" sh -c "echo its last words; exit 4" || fail "It failed." "Look above."')
    assert done.returncode == 1
    assert "its last words" in done.stderr
    assert "It failed.  Look above." in done.stderr


def test_too_little_memory_or_disk_is_a_sentence(tmp_path: Path) -> None:
    little_memory = bash(f"var={tmp_path}; awk() {{ echo 900; }}; check_machine")
    assert "Only 900 MiB of memory are free; 1500 are needed." in little_memory.stderr
    little_disk = bash(f"var={tmp_path}; df() {{ printf 'x\\n/dev/x 9000 8100 900 90 /\\n'; }}; check_machine")
    assert f"Only 900 MiB are free in {tmp_path}; 2000 are needed." in little_disk.stderr


def test_without_root_and_sudo_the_packages_are_named() -> None:
    done = bash("id() { echo 1000; }; command() { false; }; missing=(redis-server npm); as_root true")
    assert done.returncode == 1
    assert "apt-get install redis-server npm." in done.stderr


def test_an_unknown_purpose_is_a_sentence() -> None:
    done = subprocess.run(["scripts/setup", "walk"], check=False, cwd=CHECKOUT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "Unknown purpose 'walk'." in done.stderr
