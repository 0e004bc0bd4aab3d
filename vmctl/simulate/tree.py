"""Makes and changes files as sysfs shows them. Everything may be done again: what is there already stays."""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

DRAFT = ".draft"


@dataclass(frozen=True)
class Tree:
    """Names are relative to the root. One text and a line break; links relative, inside the root."""

    root: Path

    def path(self, name: str) -> Path:
        return self.root / name

    def folder(self, name: str) -> None:
        os.makedirs(self.root / name, exist_ok=True)

    def file(self, name: str, text: str, mode: int = 0o444) -> None:
        """A file that is made once."""
        path = self.root / name
        if os.path.lexists(path):
            return
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT, mode)
        except FileNotFoundError:
            os.makedirs(path.parent, exist_ok=True)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT, mode)
        with os.fdopen(handle, "w") as stream:
            stream.write(f"{text}\n" if text else "")

    def link(self, name: str, target: str) -> None:
        """A link to an absolute path (borrowed) or to a path below the root; another one there gives way."""
        path = self.root / name
        text = target if target.startswith("/") else os.path.relpath(self.root / target, path.parent)
        try:
            path.symlink_to(text)
        except FileNotFoundError:
            os.makedirs(path.parent, exist_ok=True)
            path.symlink_to(text)
        except FileExistsError:
            if os.readlink(path) != text:
                self._draft().symlink_to(text)
                self._draft_path.rename(path)

    def closed(self, name: str) -> None:
        """An attribute that answers a read with ENXIO, as those of a VF without a vGPU do: a socket does the same."""
        path = self.root / name
        if not (path.is_socket() if os.path.lexists(path) else False):
            os.mknod(self._draft(), stat.S_IFSOCK | 0o444)
            self._draft_path.rename(path)

    def show(self, name: str, text: str, mode: int = 0o644) -> None:
        """An attribute whose text changes: a reader sees the old one or the new one."""
        path, wanted = self.root / name, f"{text}\n" if text else ""
        if path.is_file() and path.read_text() == wanted:
            return
        draft = self._draft()
        draft.write_text(wanted)
        draft.chmod(mode)
        os.makedirs(path.parent, exist_ok=True)
        draft.replace(path)

    def gone(self, name: str) -> None:
        """See to it that a file, a link or a whole folder is not there."""
        path = self.root / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def names(self, name: str) -> list[str]:
        try:
            return sorted(os.listdir(self.root / name))
        except FileNotFoundError:
            return []

    def target(self, name: str) -> str | None:
        """The last part of where a link points to; None when it is no link."""
        try:
            return os.path.basename(os.readlink(self.root / name))
        except OSError:
            return None

    @property
    def _draft_path(self) -> Path:
        return self.root / DRAFT

    def _draft(self) -> Path:
        """Where the next thing is made before it takes its name; what a dead process left there goes."""
        self._draft_path.unlink(missing_ok=True)
        return self._draft_path
