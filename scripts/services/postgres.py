"""A private PostgreSQL: only on a unix socket, never as root."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
from pathlib import Path

from scripts.instance import Instance
from scripts.supervisor import Service
from scripts.terminal import Refusal, say

OLDEST = 15
DATABASE = USER = "tessera"
# Each of the worker's threads has a connection, and each request that the web server answers at the moment.
ROOM = ["-c", "max_connections=200"]
# Throw-away data need not survive a power cut.
FAST = ["-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off"]


def service(instance: Instance) -> Service:
    """Ready to start: the cluster is made if there is none."""
    programs, owner = newest_programs(), service_user()
    sockets, data = instance.run_dir / "postgres", instance.var / "postgres"
    own(sockets, owner, 0o750)
    own(data, owner, 0o700)
    if not (data / "PG_VERSION").exists():
        make_cluster(programs, data, owner)
    check_version(programs, data)
    command = [str(programs / "postgres"), "-D", str(data), "-k", str(sockets), "-c", "listen_addresses="]
    return Service(
        name="postgres",
        command=command + ROOM + (FAST if instance.throw_away else []),
        ready=lambda: answers(programs, sockets),
        user=owner,
        end_signal=signal.SIGINT,  # "fast": roll back, write a checkpoint, end
    )


def url(instance: Instance) -> str:
    return f"postgres:///{DATABASE}?host={instance.run_dir}/postgres&user={USER}"


def make_database(instance: Instance) -> None:
    """Make our database in a running server, once."""
    psql = [str(newest_programs() / "psql"), "-h", str(instance.run_dir / "postgres"), "-U", USER, "-XAtq"]
    there = subprocess.run(
        [*psql, "-d", "postgres", "-c", f"SELECT 1 FROM pg_database WHERE datname = '{DATABASE}'"],
        check=True,
        capture_output=True,
        text=True,
    )
    if not there.stdout.strip():
        subprocess.run([*psql, "-d", "postgres", "-c", f'CREATE DATABASE "{DATABASE}"'], check=True)


def newest_programs() -> Path:
    """The folder of the newest server's programs.  The distribution's come first: a `postgres` in PATH may be a
    stray one without the modules we need."""
    packaged = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    for program in reversed(packaged):
        if int(program.parts[-3]) >= OLDEST:
            return program.parent
    in_path = shutil.which("postgres")
    if in_path and shutil.which("initdb", path=str(Path(in_path).parent)):
        return Path(in_path).resolve().parent
    raise Refusal(f"No PostgreSQL {OLDEST} or newer is installed.", "Run `scripts/setup`, or set DATABASE_URL.")


def service_user() -> str | None:
    """PostgreSQL refuses to run as root: then it runs as its own user."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        raise Refusal("There is no user postgres.", "Install the distribution's PostgreSQL server.") from None


def make_cluster(programs: Path, data: Path, owner: str | None) -> None:
    say("makes a database cluster")
    made = subprocess.run(
        [
            str(programs / "initdb"),
            *(
                "-D",
                str(data),
                "-U",
                USER,
                "-A",
                "trust",
            ),  # who gets through the socket's folder (0750) may come in
            *("-E", "UTF8", "--locale=C.UTF-8", "--no-sync"),
        ],
        user=owner,
        group=owner,
        extra_groups=[] if owner else None,
        cwd="/",
        capture_output=True,
        text=True,
    )
    if made.returncode != 0:
        raise Refusal(f"initdb failed: {made.stderr.strip().splitlines()[-1]}", f"Look at {data}.")


def check_version(programs: Path, data: Path) -> None:
    """Data of one major version are not read by another."""
    made_by = (data / "PG_VERSION").read_text().strip()
    found = subprocess.run([str(programs / "postgres"), "--version"], check=True, capture_output=True, text=True)
    number = re.search(r"(\d+)", found.stdout)
    if number and number[1] != made_by:
        raise Refusal(
            f"The database was made by PostgreSQL {made_by}, installed is {number[1]}.",
            "Install the older server beside it, or run `make clean` to begin anew (all bookings go).",
        )


def answers(programs: Path, sockets: Path) -> bool:
    ask = [str(programs / "pg_isready"), "-q", "-h", str(sockets), "-U", USER, "-d", "postgres"]
    return subprocess.run(ask, check=False).returncode == 0


def own(folder: Path, owner: str | None, mode: int) -> None:
    folder.mkdir(mode=mode, exist_ok=True)
    if owner:
        shutil.chown(folder, owner, owner)
    folder.chmod(mode)
