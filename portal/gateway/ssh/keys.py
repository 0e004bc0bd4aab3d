"""The portal's own key pairs, one for the verbs and one for screens, made when first needed."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings

from portal.gateway.errors import GatewayError

APPLY, CONSOLE = "apply", "console"


def private_key(purpose: str) -> Path:
    """The file of a private key, made if there is none. GatewayError `no_key` if it cannot be used."""
    folder = _folder()
    file = folder / purpose
    try:
        if not file.exists():
            _make(file)
        mode = file.stat().st_mode
    except OSError as error:
        raise unusable(file, str(error.strerror)) from error
    if stat.S_IMODE(mode) & 0o077:
        raise unusable(file, "others may read it")
    _public(file)
    return file


def public_keys() -> dict[str, str]:
    """For each purpose what stands in a host's authorized_keys: "ssh-ed25519 AAAA... tessera-apply"."""
    return {purpose: f"{_public(private_key(purpose))} tessera-{purpose}" for purpose in (APPLY, CONSOLE)}


def known_hosts(alias: str, host_key: str) -> Path:
    """A file with this one host key, for OpenSSH's client. Its name follows from what it holds, so it never changes."""
    line = f"{alias} {host_key}\n".encode()
    file = _folder() / f"known_hosts_{hashlib.sha256(line).hexdigest()[:24]}"
    try:
        if not file.exists():
            _put(file, line)
    except OSError as error:
        raise unusable(file, str(error.strerror)) from error
    return file


def _folder() -> Path:
    folder = Path(settings.SSH_DIR)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise unusable(folder, str(error.strerror)) from error
    return folder


def _make(file: Path) -> None:
    made = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    _put(file, made)


def _put(file: Path, content: bytes) -> None:
    """Write a whole file or none. Of two processes the first one's stays, and both go on with it."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")  # readable by its owner only
    try:
        with os.fdopen(handle, "wb") as new:
            new.write(content)
            new.flush()
            os.fsync(new.fileno())
        os.link(name, file)
    except FileExistsError:
        pass
    finally:
        Path(name).unlink(missing_ok=True)


def _public(file: Path) -> str:
    """The public half. Read by cryptography: it refuses a damaged file in one way, paramiko in many."""
    try:
        key = serialization.load_ssh_private_key(file.read_bytes(), None)
    except (OSError, TypeError, ValueError, UnsupportedAlgorithm) as error:  # TypeError: it has a pass phrase
        raise unusable(file, str(error)) from error
    return key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()


def unusable(file: Path, why: str) -> GatewayError:
    """What is wrong with a file of SSH_DIR."""
    return GatewayError(
        "no_key",
        f"{file} cannot be used: {why}.",
        "It must be the portal's own and nobody else's (owner, mode 600; its folder 700). A removed key is made anew; "
        "hosts must then be given the new one: manage.py ssh_keys.",
        False,
    )
