"""The private services together: those that the environment does not name are started here."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from types import FrameType

from scripts import namespace
from scripts.instance import Instance
from scripts.services import libvirt, network, postgres, redis
from scripts.supervisor import Supervisor
from scripts.terminal import say

# Who serves a setting, in the order of starting.
SETTINGS = {"postgres": "DATABASE_URL", "redis": "REDIS_URL", "libvirt": "LIBVIRT_URI"}


def start(names: Sequence[str], instance: Instance, supervisor: Supervisor) -> dict[str, str]:
    """Start these services; answers the settings by which others find them."""
    found = {}
    if "postgres" in names:
        supervisor.start(postgres.service(instance))
        postgres.make_database(instance)
        found["DATABASE_URL"] = postgres.url(instance)
    if "redis" in names:
        supervisor.start(redis.service(instance))
        found["REDIS_URL"] = redis.url(instance)
    if "libvirt" in names:
        supervisor.start(libvirt.service(instance))
        network.provide(instance)
        found["LIBVIRT_URI"] = instance.libvirt_uri
    return found


def folders(instance: Instance, *, own_libvirt: bool = True) -> dict[str, str]:
    """The settings that say where things lie, as our children see them.  A libvirt that is not ours sees none of our
    binds: then they are the real paths, which its QEMU must be able to enter."""
    places = {"VAR_DIR": instance.var, "RUN_DIR": instance.run_dir}
    places |= {"STORAGE_DIR": instance.var / "storage", "IMAGES_DIR": instance.var / "images"}
    if not own_libvirt:
        libvirt.let_qemu_make_sockets(instance.run_dir / "console")
        places |= {"VAR_DIR": instance.data, "STORAGE_DIR": instance.storage, "IMAGES_DIR": instance.images}
    return {setting: str(place) for setting, place in places.items()} | {"GUEST_NETWORK": instance.network}


def end(instance: Instance, supervisor: Supervisor, *, keep_machines: bool) -> None:
    """End everything of this instance.  Machines go through libvirt while it answers; what is left then, by signal."""
    if any(child.service.name == "libvirtd" for child in supervisor.children) and not keep_machines:
        libvirt.end_machines(instance)
        network.remove(instance)
    supervisor.end()
    clear(instance, but_machines=keep_machines)


def clear(instance: Instance, *, but_machines: bool) -> None:
    """End what lives in a namespace of this instance and is not ours to wait for: QEMU, dnsmasq, and daemons that
    outlived a killed supervisor.  `but_machines`: QEMU and dnsmasq stay, for the next libvirtd to adopt."""
    for with_signal in (signal.SIGTERM, signal.SIGKILL):
        left = strangers(instance, but_machines=but_machines)
        for pid in left:
            namespace.send(pid, with_signal)
        limit = time.monotonic() + 10
        while strangers(instance, but_machines=but_machines) and time.monotonic() < limit:
            time.sleep(0.1)


def strangers(instance: Instance, *, but_machines: bool) -> list[int]:
    kept = ("qemu-system", "dnsmasq") if but_machines else ()
    found = namespace.inhabitants(instance)
    return [pid for pid in found if not namespace.program_of(pid).startswith(kept or ("\0",))]


def heed_signals(supervisor: Supervisor) -> None:
    """SIGINT, SIGTERM and SIGHUP ask for an orderly end.  A second one changes nothing: the end has its own limits."""

    def ask(number: int, frame: FrameType | None) -> None:
        if not supervisor.asked_to_end:
            say(f"{signal.Signals(number).name}: ends")
        supervisor.asked_to_end = True

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, ask)
