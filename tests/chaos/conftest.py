"""The portal that is mistreated."""

import os
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from portal import clock
from portal.celery import app
from portal.inventory.models import GPU
from tests import make
from tests.chaos.portal import GRACE_SECONDS, PATIENCE, Portal, add_host


@pytest.fixture
def portal(transactional_db: None, settings: Settings, tmp_path: Path) -> Iterator[Portal]:
    """One simulated T4 on the real libvirt, one flavor, an image that boots to nothing, one worker."""
    assert os.environ.get("LIBVIRT_URI"), "These tests need LIBVIRT_URI: run them by `make test`."
    settings.SLOT_MINUTES, settings.STOP_GRACE_SECONDS = 1, GRACE_SECONDS
    app.control.purge()
    name = secrets.token_hex(3)
    now = clock.now()
    made = Portal(
        people=make.cast(now),
        host=add_host(f"sim-{name}"),
        flavor=make.flavor(now=now),
        image=make.image(f"chaos-{name}", now=now),
        log=tmp_path / "workers.log",
    )
    file = _empty_image(Path(settings.IMAGES_DIR) / f"chaos-{name}.qcow2")
    try:
        made.worker()
        made.ticks_until(GPU.objects.filter(host=made.host).exists, "the host's GPUs are found", PATIENCE)
        yield made
    finally:
        for worker in made.workers:
            worker.kill()
        file.unlink()


def _empty_image(file: Path) -> Path:
    """A disk without a system: the guest never obeys the power button, and its screen shows the firmware."""
    file.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(file), "64M"], check=True)
    return file
