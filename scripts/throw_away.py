"""Private services with throw-away data around one command: for tests."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from scripts import instance as instances
from scripts import namespace, private
from scripts.instance import Instance
from scripts.supervisor import Supervisor
from scripts.terminal import Refusal, hush, say

FOLDER = Path("/var/tmp")


def around(command: list[str], services: Sequence[str], name: str | None) -> int:
    """Start the services, run the command with their settings, end them; answers the command's exit status."""
    unknown = set(services) - set(private.SETTINGS)
    if unknown:
        raise Refusal(
            f"No service is called {', '.join(sorted(unknown))}.", f"There are {', '.join(private.SETTINGS)}."
        )
    name = instances.checked(name or secrets.token_hex(4))
    data = Path(tempfile.mkdtemp(prefix=f"tessera-{name}.", dir=FOLDER))
    try:
        data.chmod(0o755)
        instance = instances.for_tests(name, data)
        instance.prepare()
        instance.lock()
        for older in FOLDER.glob(f"tessera-{name}.*"):  # of a start that was killed: we hold its lock now
            if older != data:
                shutil.rmtree(older)
        return within(instance, command, services)
    finally:
        shutil.rmtree(data)


def within(instance: Instance, command: list[str], services: Sequence[str]) -> int:
    namespace.enter(instance)
    supervisor = Supervisor(instance.logs)
    private.heed_signals(supervisor)
    try:
        private.clear(instance, but_machines=False)
        found = private.start(services, instance, supervisor)
        settings = found | private.folders(instance) | {"SECRET_KEY": secrets.token_urlsafe(50)}
        return attend(command, settings, supervisor)
    except KeyboardInterrupt:
        return 130
    finally:
        hush()
        private.end(instance, supervisor, keep_machines=False)
        namespace.leave(instance)


def attend(command: list[str], settings: dict[str, str], supervisor: Supervisor) -> int:
    """Run the command in the foreground and keep the services up meanwhile."""
    say(f"runs {' '.join(command[:4])}")
    process = subprocess.Popen(command, env=dict(os.environ) | settings)
    told = False
    while process.poll() is None:
        supervisor.tend()
        if supervisor.asked_to_end and not told:
            process.send_signal(signal.SIGTERM)
            told = True
        time.sleep(0.1)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode
