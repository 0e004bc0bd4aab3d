"""Where the browser is."""

import os
import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str:
    """The system's Chromium, or the one that CHROMIUM names."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if not found:
        raise RuntimeError("No Chromium: install the package chromium, or set CHROMIUM to one.")
    return found


def arguments() -> list[str]:
    """Chromium refuses to sandbox root, and tests often run as root."""
    return ["--no-sandbox"] if os.geteuid() == 0 else []
