"""The whole portal as children of one process: private services, migrations, demo data, web server, worker, beat."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import time

from scripts import inside, namespace, private, programs
from scripts import instance as instances
from scripts.instance import CHECKOUT, Instance
from scripts.supervisor import Supervisor, last_line
from scripts.terminal import Refusal, say


def run(environ: dict[str, str]) -> int:
    """Start everything, keep it up until a signal asks for the end, end it."""
    instance = instances.of_checkout(environ)
    port = port_from(environ)
    keep_machines = environ.get("KEEP_VMS", "") not in ("", "0")
    instance.prepare()
    instance.lock()
    namespace.enter(instance)
    supervisor = Supervisor(instance.logs)
    private.heed_signals(supervisor)
    found_machines = False
    try:
        private.clear(instance, but_machines=True)
        found_machines = bool(private.strangers(instance, but_machines=False))
        start(instance, supervisor, environ, port)
        while not supervisor.asked_to_end:
            supervisor.tend()
            time.sleep(0.2)
    except KeyboardInterrupt:
        pass  # asked to end while starting
    except Refusal:
        keep_machines = keep_machines or found_machines  # those of KEEP_VMS=1 outlive a start that fails
        raise
    finally:
        private.end(instance, supervisor, keep_machines=keep_machines)
        if not keep_machines:
            namespace.leave(instance)
        say("ended; machines left running" if keep_machines else "ended")
    return 0


def start(instance: Instance, supervisor: Supervisor, environ: dict[str, str], port: int) -> None:
    """From nothing to "ready".  A service that the environment names is used as it is."""
    refuse_taken(port)
    wanted = [name for name, setting in private.SETTINGS.items() if not environ.get(setting)]
    settings = private.folders(instance, own_libvirt="libvirt" in wanted)
    settings |= {"SECRET_KEY": environ.get("SECRET_KEY") or secret_key(instance)}
    settings |= private.start(wanted, instance, supervisor)
    inside.remember(instance, settings | {"PORT": str(port)})
    say("migrates the database, makes the demo data that are missing")
    log_ins = fill_database(instance, settings)
    say("starts web server, worker and beat")
    supervisor.start(*programs.web(instance, settings, port))
    print(f"\n{log_ins.strip()}\n\nready: http://127.0.0.1:{port}/   (Ctrl-C ends it)\n", flush=True)


def fill_database(instance: Instance, settings: dict[str, str]) -> str:
    """Migrations and demo data; answers the log-ins.  Complaints go to a log."""
    log = instance.logs / "fill_database.log"
    log.parent.mkdir(mode=0o755, exist_ok=True)
    with log.open("wb") as complaints:
        done = subprocess.run(
            [sys.executable, "-m", "scripts.fill_database"],
            check=False,
            cwd=CHECKOUT,
            env=dict(os.environ) | settings,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
            process_group=0,
        )
    if done.returncode != 0:
        raise Refusal(f"The database could not be filled: {last_line(log)}", f"More is in {log}.")
    return done.stdout


def secret_key(instance: Instance) -> str:
    """Made once, kept beside the data, for root's eyes only."""
    file = instance.data / "secret_key"
    if not file.exists():
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(handle, secrets.token_urlsafe(50).encode())
        os.close(handle)
    return file.read_text().strip()


def port_from(environ: dict[str, str]) -> int:
    value = environ.get("PORT") or "8000"
    if not value.isdigit() or not 0 < int(value) < 65536:
        raise Refusal(f"PORT is {value!r}.", "Set it to a number from 1 to 65535.")
    return int(value)


def refuse_taken(port: int) -> None:
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", port))
        except OSError as error:
            raise Refusal(
                f"Port {port} on 127.0.0.1 cannot be had: {error.strerror}.",
                "End what listens there (`ss -ltnp` shows it), or choose another with PORT=8001 make run.",
            ) from None
