"""The NoCloud seed: a small ISO 9660 image that tells a machine who it is.  JSON is YAML, so no value can add a key."""

import base64
import json
import os
from ipaddress import IPv4Network
from pathlib import Path
from tempfile import TemporaryDirectory

from vmctl.errors import Code, VmctlError
from vmctl.host import Host
from vmctl.machine.domain import Wiring
from vmctl.model import DesiredMachine

LABEL = "CIDATA"
LIMIT = 20.0
TOKEN = "/etc/nvidia/ClientConfigToken/client_configuration_token.tok"
GRIDD = "/etc/nvidia/gridd.conf"


def documents(machine: DesiredMachine, wiring: Wiring, token: bytes | None = None) -> dict[str, str]:
    """The seed's files.  A new reservation is a new instance, so that cloud-init takes the new password.

    `token`: of the site's licence server, where the machine's image asks for it.
    """
    user = {
        "name": machine.seed.user,
        "passwd": machine.seed.password_hash,
        "lock_passwd": False,
        "shell": "/bin/sh",
        "ssh_authorized_keys": list(machine.seed.ssh_keys),
    }
    tessera = {
        "owner": machine.seed.owner,
        "period": machine.seed.period,
        "vgpu": machine.seed.vgpu,
        "reservation": machine.reservation,
    }
    user_data: dict[str, object] = {"hostname": machine.hostname, "users": [user], "tessera": tessera}
    if token is not None:
        user_data |= _licence(machine, token)
    meta_data = {"instance-id": machine.reservation, "local-hostname": machine.hostname}
    return {
        "meta-data": _json(meta_data),
        "user-data": "#cloud-config\n" + _json(user_data),
        "network-config": _json(_network(wiring)),
    }


def _licence(machine: DesiredMachine, token: bytes) -> dict[str, object]:
    """NVIDIA's guest driver takes its one token and one FeatureType when its service starts (dossier 8)."""
    files = ((TOKEN, token, "0744"), (GRIDD, f"FeatureType={machine.seed.licence}\n".encode(), "0644"))
    return {
        "write_files": [
            {
                "path": path,
                "content": base64.b64encode(content).decode(),
                "encoding": "b64",
                "owner": "root:root",
                "permissions": mode,
            }
            for path, content, mode in files
        ],
        "runcmd": [["systemctl", "restart", "nvidia-gridd"]],
    }


def _network(wiring: Wiring) -> dict[str, object]:
    """cloud-init's network configuration, version 2."""
    card = {
        "match": {"macaddress": wiring.mac},
        "addresses": [f"{wiring.address}/{_prefix(wiring.netmask)}"],
        "gateway4": wiring.gateway,
        "nameservers": {"addresses": [wiring.gateway]},
    }
    return {"version": 2, "ethernets": {"guest": card}}


def _prefix(netmask: str) -> int:
    return IPv4Network(f"0.0.0.0/{netmask}").prefixlen


def _json(value: object) -> str:
    """ASCII only: every other letter is escaped, so no reader's idea of an encoding matters."""
    return json.dumps(value, indent=1) + "\n"


def write(host: Host, path: Path, machine: DesiredMachine, wiring: Wiring, token: bytes | None = None) -> None:
    """Make the seed's image, whole or not at all.  It holds secrets: only QEMU's user will read it."""
    with TemporaryDirectory(dir=path.parent, prefix=".seed-") as closed:  # the folder around it can be passed by all
        folder, new = Path(closed, "files"), Path(closed, path.name)
        folder.mkdir()
        for name, text in documents(machine, wiring, token).items():
            (folder / name).write_text(text)
        command = f"xorriso -as mkisofs -quiet -volid {LABEL} -joliet -rock -output".split()
        answer = host.run([*command, str(new), str(folder)], limit=LIMIT)
        if answer.status:
            raise VmctlError(
                Code.FAILED,
                f"xorriso made no seed: {answer.errors.strip()[-300:]}.",
                f"See whether {path.parent} is full.",
            )
        new.chmod(0o600)
        os.replace(new, path)
