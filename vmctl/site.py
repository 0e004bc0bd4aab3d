"""Everything a verb needs of the place it works on: the host, and where its machines' things lie."""

from dataclasses import dataclass
from pathlib import Path

from vmctl.errors import bad_input
from vmctl.host import Host

LICENCE_TOKEN = Path("/etc/tessera/client_configuration_token.tok")
"""Where the token of the site's licence server lies on a host, for root only (dossier 8)."""
LONGEST_SOCKET = 100
"""Bytes of a unix socket's path that every kernel and program takes (sun_path holds 108 with its end)."""


@dataclass(frozen=True)
class Site:
    """A host with the folders and the network of its machines."""

    host: Host
    libvirt_uri: str
    storage: Path
    images: Path
    run_dir: Path
    network: str
    licence_token: Path = LICENCE_TOKEN

    @property
    def lock(self) -> Path:
        """Held by whoever changes this host."""
        return self.host.state_dir / "lock"

    @property
    def consoles(self) -> Path:
        """The folder of the screens' sockets; other hosts that share this libvirt may have theirs here too."""
        return self.run_dir / "console"

    def console(self, machine: str) -> Path:
        """The unix socket of a machine's screen. Raises bad_input when it would be too long to be one."""
        path = self.consoles / f"{machine}.sock"
        if len(bytes(path)) > LONGEST_SOCKET:
            raise bad_input(
                f"The console socket {path} would have more than {LONGEST_SOCKET} bytes.", "Choose a shorter --run-dir."
            )
        return path
