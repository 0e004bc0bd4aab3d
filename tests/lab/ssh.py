"""The administrator's way in: one connection that is kept, and commands with a limit that works from outside."""

from __future__ import annotations

import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab.errors import LabError

ALIAS = "tessera-lab"
CONTROL = "admin.sock"
HANDSHAKE = 45.0  # seconds; about one on an idle machine


@dataclass(frozen=True)
class Keys:
    """Private key files, and the host key by which the lab is known."""

    apply: Path
    console: Path
    admin: Path
    host_fingerprint: str
    host_key: str


@dataclass
class Line:
    """Runs commands as root in the lab that listens on a port of this machine."""

    folder: Path
    port: int
    keys: Keys
    _master: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def run(self, script: str, *, limit: float) -> str:
        """Standard output of a script that ends at its first failure.

        Raises LabError with all that it printed, where it fails or takes more than `limit` seconds.
        """
        end = time.monotonic() + limit
        self._connect(min(limit, HANDSHAKE))
        command = ["ssh", *self._options(), "-S", CONTROL, "root@127.0.0.1", f"set -e\n{script}"]
        process = subprocess.Popen(
            command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, errors="replace",
        )  # fmt: skip
        try:
            output, errors = process.communicate(timeout=max(end - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            process.kill()
            self.close()  # it has the command's output open, too
            output, errors = process.communicate()
            raise LabError(f"Not done in {limit:g} s: {script.strip()[:200]}\n{output}{errors}") from None
        if process.returncode:
            raise LabError(f"Status {process.returncode} of {script.strip()[:200]}\n{output}{errors}")
        return output

    def wait(self, seconds: float, so: str = "true") -> None:
        """Until somebody can log in and finds it so. Raises LabError."""
        end, why = time.monotonic() + seconds, ""
        while (left := end - time.monotonic()) > 0:
            try:
                self.run(so, limit=min(HANDSHAKE, left))
                return
            except LabError as error:
                self.close()
                why = why if left < 1 and why else str(error)
            time.sleep(0.2)
        raise LabError(f"Nobody can log in to the lab after {seconds:g} s: {why}")

    def close(self) -> None:
        """End the kept connection, as it must be before the machine behind it becomes another."""
        if self._master is not None:
            self._master.send_signal(signal.SIGKILL)
            self._master.wait()
            self._master = None
        (self.folder / CONTROL).unlink(missing_ok=True)

    def _connect(self, seconds: float) -> None:
        control = self.folder / CONTROL
        if self._master is not None and self._master.poll() is None and control.exists():
            return
        self.close()
        (self.folder / "known_hosts").write_text(f"{ALIAS} {self.keys.host_key}\n")
        self._master = subprocess.Popen(
            ["ssh", *self._options(), "-M", "-N", "-S", CONTROL, "root@127.0.0.1"],
            cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        end = time.monotonic() + seconds
        while not control.exists():
            if self._master.poll() is not None:
                said = self._master.stderr.read().decode(errors="replace") if self._master.stderr else ""
                raise LabError(f"ssh ended: {said.strip()}")
            if time.monotonic() > end:
                self.close()
                raise LabError(f"No answer from the lab's sshd in {seconds:g} s.")
            time.sleep(0.02)

    def _options(self) -> list[str]:
        settings = {
            "BatchMode": "yes",
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": "known_hosts",
            "GlobalKnownHostsFile": "/dev/null",
            "HostKeyAlias": ALIAS,
            "IdentitiesOnly": "yes",
            "ConnectTimeout": str(int(HANDSHAKE)),
            "LogLevel": "ERROR",
        }
        words = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
        return ["-F", "none", *words, "-i", str(self.keys.admin), "-p", str(self.port)]
