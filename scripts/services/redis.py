"""A private Redis (or Valkey), only on a unix socket: broker and channel layer.  Nothing in it needs to last."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

from scripts.instance import Instance
from scripts.supervisor import Service
from scripts.terminal import Refusal


def service(instance: Instance) -> Service:
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        raise Refusal("Neither redis-server nor valkey-server is installed.", "Run `scripts/setup`, or set REDIS_URL.")
    folder, where = instance.var / "redis", instance.run_dir / "redis.sock"
    folder.mkdir(mode=0o700, exist_ok=True)
    options = {"port": "0", "unixsocket": str(where), "unixsocketperm": "700", "dir": str(folder)}
    options |= {"save": "", "appendonly": "no", "daemonize": "no"}
    command = [program]
    for name, value in options.items():
        command += [f"--{name}", value]
    return Service(name="redis", command=command, ready=lambda: answers(where))


def url(instance: Instance) -> str:
    return f"unix://{instance.run_dir}/redis.sock"


def answers(where: Path) -> bool:
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(1)
            line.connect(str(where))
            line.sendall(b"PING\r\n")
            return line.recv(16).startswith(b"+PONG")
    except OSError:
        return False
