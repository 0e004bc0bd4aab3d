"""A small guest that is booted with one share of a GPU, and what it sees of it by its own word."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from vmctl import gpus, kvm
from vmctl.card import ProvidedVGPU
from vmctl.documents import Json
from vmctl.errors import Code, VmctlError
from vmctl.host import Host
from vmctl.hypervisor import Hypervisor
from vmctl.machine import launch, storage
from vmctl.model import DesiredMachine, DesiredState, Order, Seed, WantedVGPU
from vmctl.observation import ACCEPTANCE
from vmctl.site import Site

BOOT_SECONDS = 240.0
"""An emulated guest takes a minute; one that asks for a vGPU of a real driver some seconds more."""
STARTING_SECONDS = 60.0
"""How long a start may go on that nobody waits for any more; seen: 50 s, for the firewall's rules on a slow host."""
FUNCTION = re.compile(
    r"tessera-pci: ([0-9a-f]{4}):([0-9a-f]{4}) [0-9a-f]{4}:[0-9a-f]{4} ([0-9a-f]{6}) ([0-9a-f:.]+)\s*$", re.MULTILINE
)
DISPLAY = "03"
TOLD = "tessera: reservation"
"""What the guest says after its last function."""


@dataclass(frozen=True)
class GuestTrial:
    """What came of it. `seen`: the display functions in the guest, VENDOR:DEVICE; `expected`: what the vGPU is."""

    type: str
    seconds: float
    expected: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()
    stand_in: str | None = None  # what took the vGPU's place, where no real GPU is behind it
    error: str | None = None

    @property
    def problem(self) -> str | None:
        """What is wrong with it, in a sentence."""
        if self.error is not None:
            return f"The guest with a {self.type}: {self.error}"
        if self.stand_in is None and not set(self.expected) & set(self.seen):
            expected, seen = " or ".join(self.expected), ", ".join(self.seen) or "no display function"
            return f"The guest with a {self.type} sees {seen}, not {expected}."
        return None

    def to_json(self) -> Json:
        """As it stands in the report."""
        return {
            "type": self.type,
            "seconds": self.seconds,
            "expected": list(self.expected),
            "seen": list(self.seen),
            "stand_in": self.stand_in,
            "problem": self.problem,
        }


def check_image(site: Site, image: str, machine: str) -> None:
    """Raise VmctlError when the image is not on this host."""
    storage.image(site.images, _wish(site, image, machine, ()))


def boot(site: Site, hypervisor: Hypervisor, wanted: WantedVGPU, machine: str, image: str) -> GuestTrial:
    """Make a share, boot a guest with it, and read what it says; what went wrong stands in the answer.

    The caller takes the share and the guest away.
    """
    began = time.monotonic()
    wish = _wish(site, image, machine, (wanted,))
    try:
        share = gpus.provide(site.host, wanted, machine)
        storage.make_disk(site.host, site.storage, site.images, wish)
        accelerator = kvm.accelerator(site.host)
        launch.start(site, hypervisor, _desired(site, wish), wish, [share], accelerator.domain_type)
        said = _said(site, machine)
    except VmctlError as error:
        return GuestTrial(wanted.type, _since(began), error=str(error))
    labels = {site.host.attachment(device).label for device in gpus.devices(site.host, share)}
    return GuestTrial(
        type=wanted.type,
        seconds=_since(began),
        expected=_identities(site.host, share),
        seen=tuple(_displays(said)),
        stand_in=", ".join(sorted(labels - {""})) or None,
        error=None if TOLD in said else f"it told nothing of its functions within {BOOT_SECONDS:g} s.",
    )


def switch_off(hypervisor: Hypervisor, machine: str) -> None:
    """Take a guest's power away. Raises VmctlError.

    A start that took too long is still under way: until it is done libvirt answers nothing about this guest.
    """
    until = time.monotonic() + STARTING_SECONDS
    while True:
        try:
            return hypervisor.force_stop(machine)
        except VmctlError as error:
            if error.code != Code.TIMEOUT or time.monotonic() > until:
                raise


def tidy(site: Site, machine: str) -> None:
    """Remove the files of a guest that is gone."""
    storage.purge(site.storage, machine)
    site.console(machine).unlink(missing_ok=True)


def _since(began: float) -> float:
    return round(time.monotonic() - began, 1)


def _wish(site: Site, image: str, machine: str, vgpus: tuple[WantedVGPU, ...]) -> DesiredMachine:
    now = site.host.now()
    return DesiredMachine(
        machine=machine,
        reservation=machine,
        order=Order.RUN,
        start=now,
        end=now + timedelta(minutes=15),
        promised=None,
        force_at=None,
        hostname="accept",
        vcpus=1,
        memory_mib=256,
        disk_gib=1,
        image=image,
        vgpus=vgpus,
        seed=Seed("vmctl accept", "user", "!", (), "acceptance of a card", ", ".join(each.type for each in vgpus)),
    )


def _desired(site: Site, wish: DesiredMachine) -> DesiredState:
    """As a portal would say it. By its mark, the host's next apply or expire ends a guest that was left behind."""
    return DesiredState(ACCEPTANCE, site.host.name, 0, 0, 0, frozenset(), frozenset(), (wish,))


def _said(site: Site, machine: str) -> str:
    """The guest's serial log once it has told all, or what there is when the time is over."""
    path = storage.folder(site.storage, machine) / storage.SERIAL
    deadline = time.monotonic() + BOOT_SECONDS
    while True:
        said = (site.host.read_or_none(path) or "").replace("\r\n", "\n")
        if TOLD in said or time.monotonic() > deadline:
            return said
        time.sleep(0.5)


def _displays(said: str) -> Iterator[str]:
    for vendor, device, kind, _ in FUNCTION.findall(said):
        if kind.startswith(DISPLAY):
            yield f"{vendor}:{device}"


def _identities(host: Host, share: ProvidedVGPU) -> tuple[str, ...]:
    """What the share's function is in a guest: the card itself or, plain SR-IOV, a virtual function of another id."""
    found = dict.fromkeys(_identity(host, address) for address in (share.gpu, share.parent))
    return tuple(each for each in found if each is not None)


def _identity(host: Host, address: str) -> str | None:
    numbers = [host.read_or_none(host.pci(address) / name) for name in ("vendor", "device")]
    return ":".join(number.removeprefix("0x") for number in numbers if number) if all(numbers) else None
