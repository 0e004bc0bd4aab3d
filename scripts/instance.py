"""One running copy of Tessera: where its data and sockets lie, and what tells it from a copy beside it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from scripts.terminal import Refusal

CHECKOUT = Path(__file__).resolve().parent.parent
# A socket's path may have 107 bytes; the longest below run_dir is console/<uuid>.sock and its like.
RUN_DIR_LIMIT = 60
LOCK = "stack.lock"


@dataclass(frozen=True)
class Instance:
    """The folders of one copy.  `data` is where its data really lie; children see them at `var`, a path that is
    short and that service users can enter, wherever the checkout lies."""

    name: str
    data: Path
    run_dir: Path
    images: Path
    storage: Path
    network: str = "tessera"
    throw_away: bool = False
    locks: list[int] = field(default_factory=list, compare=False)

    @property
    def var(self) -> Path:
        return self.run_dir / "var"

    @property
    def bridge(self) -> str:
        return f"tsr-{self.name[:6]}"

    @property
    def libvirt_uri(self) -> str:
        return f"qemu+unix:///system?socket={self.run_dir}/libvirt/libvirt-sock"

    @property
    def logs(self) -> Path:
        return self.data / "log"

    def prepare(self) -> None:
        """Make the folders that everything else needs.  Service users must get through them."""
        self.refuse_strange_run_dir()
        for folder in (self.run_dir, self.data, self.images, self.storage, self.run_dir / "console"):
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        for folder in (self.run_dir, self.data, self.images, self.storage):
            if not folder.stat().st_mode & 0o001:
                raise Refusal(
                    f"{folder} cannot be entered by service users (PostgreSQL, QEMU).",
                    "Run `chmod 711` on it, or set VAR_DIR, IMAGES_DIR or STORAGE_DIR to another folder.",
                )

    def refuse_strange_run_dir(self) -> None:
        """RUN_DIR is emptied at the end, so it must be ours: a new folder, an empty one, or one with our lock."""
        if self.run_dir.is_dir() and not (self.run_dir / LOCK).exists() and set(os.listdir(self.run_dir)) - {"console"}:
            raise Refusal(
                f"{self.run_dir} holds things that are not Tessera's; it would be emptied at the end.",
                "Set RUN_DIR to a folder of its own.",
            )

    def lock(self) -> None:
        """Hold this copy: a second start of the same one is told so.  The lock dies with the process."""
        for folder in (self.run_dir, self.data):
            handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.read(handle, 32).decode().strip() or "unknown"
                raise Refusal(
                    f"It is already running (process {holder}) on {folder}.",
                    "Use that one, or end it with Ctrl-C or a SIGTERM to that process.",
                ) from None
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
            self.locks.append(handle)

    def holder(self) -> int | None:
        """The process that holds this copy; None: it does not run."""
        try:
            handle = os.open(self.run_dir / "stack.lock", os.O_RDWR)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(os.read(handle, 32))
        finally:
            os.close(handle)
        return None


def name_of(checkout: Path) -> str:
    """The name of a checkout's copy: the same at every start, another for every clone."""
    return hashlib.sha256(str(checkout.resolve()).encode()).hexdigest()[:8]


def of_checkout(environ: dict[str, str]) -> Instance:
    """The lasting copy of this checkout, as VAR_DIR, RUN_DIR, IMAGES_DIR and STORAGE_DIR say."""
    name = name_of(CHECKOUT)
    data = folder_from(environ, "VAR_DIR", CHECKOUT / "var")
    run_dir = folder_from(environ, "RUN_DIR", Path("/run/tessera") / name)
    if len(str(run_dir)) > RUN_DIR_LIMIT:
        raise Refusal(
            f"RUN_DIR has {len(str(run_dir))} characters; sockets leave room for {RUN_DIR_LIMIT}.",
            "Set RUN_DIR to a shorter path.",
        )
    return Instance(
        name=name,
        data=data,
        run_dir=run_dir,
        images=folder_from(environ, "IMAGES_DIR", data / "images"),
        storage=folder_from(environ, "STORAGE_DIR", data / "storage"),
        network=environ.get("GUEST_NETWORK", "tessera"),
    )


def checked(name: str) -> str:
    """A name for folders and bridges, or a refusal."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,20}", name):
        raise Refusal(f"{name!r} is no name of an instance.", "Use 1 to 21 small letters, digits and hyphens.")
    return name


def for_tests(name: str, data: Path) -> Instance:
    """A throw-away copy with its data in `data`.  It borrows the checkout's images: making one takes a while."""
    images = folder_from(dict(os.environ), "IMAGES_DIR", CHECKOUT / "var" / "images")
    return Instance(
        name=name,
        data=data,
        run_dir=Path("/run/tessera") / name,
        images=images,
        storage=data / "storage",
        throw_away=True,
    )


def folder_from(environ: dict[str, str], setting: str, default: Path) -> Path:
    value = environ.get(setting, "")
    return Path(value).absolute() if value else default
