"""One look at a host for all checks: each source is asked once, all at the same time, none for longer than it may.

A check that asks for what could not be had ends with the VmctlError that is kept for it: it is `unknown` then.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import cast
from xml.etree.ElementTree import ParseError

from vmctl import gpus, kvm
from vmctl import mark as marks
from vmctl.card import GPU, Unknown
from vmctl.checks.together import together
from vmctl.errors import Code, VmctlError
from vmctl.gpus import cards
from vmctl.gpus.driver import facts, lock
from vmctl.gpus.driver.answers import DriverFacts
from vmctl.host import Answer, Host
from vmctl.hypervisor import connect
from vmctl.machine import domain
from vmctl.model import Accelerator
from vmctl.site import Site

COMMAND_SECONDS = 4.0
DRIVER_SECONDS = 6.5
ALL_SECONDS = 9.0
"""The whole of `vmctl check` is this and a few file reads."""

AS_ROOT = "Run vmctl check as root."

LIBVIRT_UNITS = (
    "libvirtd.service",
    "libvirtd.socket",
    "virtqemud.service",
    "virtqemud.socket",
    "virtnodedevd.service",
    "virtnodedevd.socket",
)
UNITS = ("nvidia-vgpud.service", "nvidia-vgpu-mgr.service", *LIBVIRT_UNITS, "libvirt-guests.service")
UNIT_FACTS = "Id,LoadState,ActiveState,SubState,Result,UnitFileState,LimitMEMLOCK,CapabilityBoundingSet"


def systemctl(unit: str) -> str:
    """The question about one unit. Only these facts: others may hold secrets."""
    return f"systemctl show -p {UNIT_FACTS} {unit}"


SMI = "nvidia-smi -q"
SSHD = "/usr/sbin/sshd -T"
LVS = "lvs --reportformat json -o vg_name,lv_name,lv_attr,data_percent,metadata_percent"
SIGNER = "modinfo -F signer nvidia"
TOOLS = {
    "mdevctl": "mdevctl --version",
    "qemu-img": "qemu-img --version",
    "xorriso": "xorriso -version",
}
"""The tools that must be there, with a question that does nothing."""
COMMANDS = (*map(systemctl, UNITS), SSHD, LVS, SIGNER, "dmesg", *TOOLS.values())
"""What is run beside nvidia-smi; `make collect-host` records the answers of the same ones."""


Cards = tuple[tuple[GPU, ...], Mapping[str, DriverFacts]]
"""The GPUs, and what the driver told of them, by address."""

DRIVER_FIELDS = ("mig", "ecc", "mixed", "scheduler")
"""What nobody but the driver tells of a card."""


@dataclass(frozen=True)
class Libvirt:
    """What libvirt tells: its version, and which devices its domains name, running or defined."""

    version: tuple[int, int, int]
    claims: Mapping[str, str] = field(default_factory=dict)  # device -> the domain's name
    unread: tuple[str, ...] = ()  # domains whose XML makes no sense
    by_acceptance: tuple[str, ...] = ()  # guests of an acceptance, that runs or was cut off


@dataclass(frozen=True)
class Look:
    """What was seen. The methods raise the VmctlError of what could not be."""

    site: Site
    answers: Mapping[str, object] = field(default_factory=dict)

    @property
    def host(self) -> Host:
        return self.site.host

    @property
    def gpus(self) -> tuple[GPU, ...]:
        return cast("Cards", self._had("GPUs"))[0]

    @property
    def nvidia(self) -> list[GPU]:
        """Those of the maker whose driver most questions are about."""
        return [gpu for gpu in self.gpus if gpu.vendor == "NVIDIA"]

    @property
    def facts(self) -> Mapping[str, DriverFacts]:
        """What the driver tells of its cards, by address."""
        return cast("Cards", self._had("GPUs"))[1]

    @property
    def kvm(self) -> Accelerator:
        return cast("Accelerator", self._had("KVM"))

    @property
    def libvirt(self) -> Libvirt:
        return cast("Libvirt", self._had("libvirt"))

    @property
    def free_bytes(self) -> tuple[str, int]:
        """The folder that was looked at for the machines' disks, and what is free there."""
        return cast("tuple[str, int]", self._had("disk space"))

    def said(self, command: str) -> Answer:
        """What a command answered."""
        return cast("Answer", self._had(command))

    def _had(self, name: str) -> object:
        answer = self.answers.get(name)
        if isinstance(answer, VmctlError):
            raise answer
        if answer is None:
            raise VmctlError(Code.COULD_NOT_TELL, f"Nobody asked about {name}.", "Report this as a bug.")
        return answer

    def text(self, name: str) -> str | None:
        """A file's text; None where there is no such file. Raises VmctlError where it is there and cannot be read."""
        try:
            return self.host.read(self.host.path(name))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise unreadable(name, error) from error

    def entries(self, name: str) -> list[str]:
        """The names in a folder, none where there is no such folder. Raises VmctlError where it cannot be listed."""
        try:
            return sorted(os.listdir(self.host.path(name)))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise unreadable(name, error) from error

    def there(self, name: str) -> bool:
        """Whether a path exists. Raises VmctlError where this user may not look."""
        try:
            self.host.path(name).stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise unreadable(name, error) from error
        return True


def unreadable(name: str, error: OSError) -> VmctlError:
    """The complaint about a file that is there and was not read."""
    denied = error.errno in (errno.EACCES, errno.EPERM)
    remedy = AS_ROOT if denied else "Look at it on the host."
    return VmctlError(Code.COULD_NOT_TELL, f"{name} cannot be read: {error.strerror or error}.", remedy)


def look_at(site: Site) -> Look:
    """Ask everything about a host at the same time; at most `ALL_SECONDS`. Raises nothing that concerns the host."""
    host = site.host
    questions: dict[str, Callable[[], object]] = {
        "GPUs": lambda: _cards(host),
        "KVM": lambda: _accelerator(host),
        "libvirt": lambda: _libvirt(site),
        "disk space": lambda: _free(site),
        SMI: lambda: _smi(host),
    }
    for command in COMMANDS:
        questions[command] = partial(host.run, command.split(), limit=COMMAND_SECONDS)
    return Look(site, together(questions, ALL_SECONDS))


def _cards(host: Host) -> Cards:
    """The GPUs by what the kernel shows, even when the driver's tools hang."""
    told = together({"the driver": lambda: facts.read(host)}, DRIVER_SECONDS)["the driver"]
    if isinstance(told, VmctlError):
        gaps = tuple(Unknown(what, told.what) for what in DRIVER_FIELDS)
        told = {card.address: DriverFacts(unknown=gaps) for card in cards.cards(host)}
    return tuple(gpus.inventory(host, told)), told


def _smi(host: Host) -> Answer:
    """What nvidia-smi says of all cards. It holds them meanwhile, so nobody may be changing one."""
    with lock.looking(host):
        return host.driver_tool(SMI.split(), limit=COMMAND_SECONDS, changes=False)


def _accelerator(host: Host) -> Accelerator:
    host.ensure_live()
    return kvm.accelerator(host)


def _libvirt(site: Site) -> Libvirt:
    site.host.ensure_live()
    claims: dict[str, str] = {}
    unread, by_acceptance = [], []
    with connect(site.libvirt_uri) as hypervisor:
        version = hypervisor.version()
        for found in hypervisor.domains():
            try:
                claims |= dict.fromkeys(domain.read_claims(found.xml), found.name)
                mark = marks.read(found.xml)
                by_acceptance += [found.name] if mark is not None and mark.by_acceptance else []
            except (ValueError, ParseError):
                unread.append(found.name)
    return Libvirt(version, claims, tuple(unread), tuple(by_acceptance))


def _free(site: Site) -> tuple[str, int]:
    """Of a folder that is not there yet, where it will be."""
    site.host.ensure_live()
    folder = next(path for path in (site.storage, *site.storage.parents) if os.path.exists(path))
    try:
        numbers = os.statvfs(folder)
    except OSError as error:
        raise unreadable(str(folder), error) from error
    return str(folder), numbers.f_bavail * numbers.f_frsize
