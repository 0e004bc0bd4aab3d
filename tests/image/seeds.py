"""Seeds as vmctl makes them, and seeds as nobody should."""

import json
import subprocess
from pathlib import Path
from typing import Any

PASSWORD = "open-sesame"
PASSWORD_HASH = "$6$tesseratest$DN0pbUUPR0xJy3x11HgflTYRMWcK9JF9ukchq4DfAQg4IDUmYhIIzkply4BFBT.EME4R5doxDqSSvCHKoVIG4/"
MAC = "52:54:00:12:34:56"


def write_seed(
    file: Path,
    *,
    hostname: str,
    owner: str,
    address: str,
    user: str = "user",
    period: str = "2026-12-01 10:00-12:00 CET",
    vgpu: str = "T4-4Q (simulated)",
    label: str = "CIDATA",
) -> Path:
    """A NoCloud ISO file with the facts of one booking; values go in as they are, nothing is checked."""
    folder = file.with_suffix("")
    folder.mkdir(parents=True)
    person = {"name": user, "passwd": PASSWORD_HASH, "ssh_authorized_keys": ["ssh-ed25519 AAAAC3Nz ada@desk"]}
    facts = {"owner": owner, "period": period, "vgpu": vgpu, "reservation": "5f0c0b6e-0000-4000-8000-000000000001"}
    card: dict[str, Any] = {"match": {"macaddress": MAC}, "addresses": [f"{address}/24"], "gateway4": "10.213.7.1"}
    documents = {
        "meta-data": json.dumps({"instance-id": facts["reservation"], "local-hostname": hostname}),
        "user-data": "#cloud-config\n" + json.dumps({"hostname": hostname, "users": [person], "tessera": facts}),
        "network-config": json.dumps({"version": 2, "ethernets": {"guest": card}}),
    }
    for name, text in documents.items():
        (folder / name).write_text(text + "\n")
    make: list[str | Path] = [
        "xorriso",
        "-as",
        "mkisofs",
        "-quiet",
        "-volid",
        label,
        "-joliet",
        "-rock",
        "-output",
        file,
        folder,
    ]
    subprocess.run(make, check=True, capture_output=True, timeout=30)
    return file
