"""A guest's password between booking and its one showing: encrypted with a key made from SECRET_KEY."""

import base64
import hashlib
import secrets

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings
from passlib.hash import sha512_crypt

# Without 0/O, 1/l/I: people type it from a page into a console
ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
ROUNDS = 5000  # glibc's default; a shadow file of one day's guest needs no more


def new_password() -> str:
    """Sixteen letters and digits, 80 bits, in groups of four."""
    return "-".join("".join(secrets.choice(ALPHABET) for _ in range(4)) for _ in range(4))


def shadow_hash(password: str) -> str:
    """SHA-512 crypt ($6$), as a guest's shadow file wants it."""
    hashed: str = sha512_crypt.using(rounds=ROUNDS).hash(password)
    return hashed


def seal(text: str) -> str:
    """Encrypted, so that a copy of the database shows nothing."""
    return _box().encrypt(text.encode()).decode()


def unseal(sealed: str) -> str | None:
    """The text again; None when SECRET_KEY is another one by now."""
    try:
        return _box().decrypt(sealed.encode()).decode()
    except InvalidToken:
        return None


def _box() -> Fernet:
    digest = hashlib.sha256(b"guest passwords\0" + settings.SECRET_KEY.encode()).digest()
    return Fernet(base64.urlsafe_b64encode(digest))
