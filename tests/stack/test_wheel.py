"""The wheel holds all that production needs: both programs, templates and built assets; no npm, no checkout."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from vmctl import __version__

CHECKOUT = Path(__file__).resolve().parents[2]

LOOK = """
import json, django
from django.conf import settings
django.setup()
from django.contrib.staticfiles import finders
from django.template.loader import get_template
pages = [get_template(name).origin.name for name in ("base.html", "enforcement/hosts.html", "accounts/login.html")]
assets = ("build/page.js", "build/page.css", "build/calendar.js", "build/images/mark.svg")
files = [finders.find(name) for name in assets]
print(json.dumps({"files": pages + files, "release": settings.VERSION, "data": str(settings.VAR_DIR)}))
"""


def run(folder: Path, *words: str | Path) -> str:
    environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "SECRET_KEY": "k" * 50}
    environment |= {"DJANGO_SETTINGS_MODULE": "portal.settings"}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a fresh environment that has the wheel; ours lends its dependencies, without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([CHECKOUT / "scripts/wheel", folder], check=True, capture_output=True, timeout=300)
    (wheel,) = folder.glob("tessera-*.whl")
    assert wheel.name == f"tessera-{__version__}-py3-none-any.whl"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True, timeout=120)
    pip: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        folder / "venv/bin/python",
        "--disable-pip-version-check",
    ]
    subprocess.run([*pip, "install", "-q", "--no-deps", "--no-index", wheel], check=True, timeout=120)
    # A line of a path file adds a folder, but reads no path files there: our editable checkout stays outside
    (site,) = folder.glob("venv/lib/python3*/site-packages")
    (site / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "venv/bin"


def test_the_programs_start(installed: Path, tmp_path: Path) -> None:
    assert "serve" in run(tmp_path, installed / "vmctl", "--help")
    assert run(tmp_path, installed / "python", "-m", "vmctl", "--version") == f"{__version__}\n"
    assert "no issues" in run(tmp_path, installed / "python", "-m", "django", "check", "--settings", "portal.settings")


def test_templates_and_assets_come_from_the_package(installed: Path, tmp_path: Path) -> None:
    seen = json.loads(run(tmp_path, installed / "python", "-c", LOOK))
    assert [file for file in seen["files"] if not str(file).startswith(f"{installed.parent}/lib/")] == []
    assert (seen["release"], seen["data"]) == (__version__, "/var/lib/tessera")


def test_the_same_sources_make_the_same_file(installed: Path, tmp_path: Path) -> None:
    subprocess.run([CHECKOUT / "scripts/wheel", tmp_path], check=True, capture_output=True, timeout=300)
    (first,), (second,) = installed.parents[1].glob("*.whl"), tmp_path.glob("*.whl")
    assert first.read_bytes() == second.read_bytes()
