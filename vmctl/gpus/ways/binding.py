"""Gives one PCI function to user space and back: by its own `driver_override`, never by its ids (dossier 1.4).

An id is shared by all cards of a model, and by a card's virtual functions with the card: bound by it, they would all
go (field log B03), and adding it twice fails (B04).
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from vmctl.errors import Code, VmctlError
from vmctl.gpus import processes
from vmctl.gpus.cards import is_vfio
from vmctl.host import Host

VFIO = "vfio-pci"
DRIVERS = "/sys/bus/pci/drivers"
PROBE = "/sys/bus/pci/drivers_probe"


class Stuck(VmctlError):
    """The kernel does not come back from an unbinding: somebody holds the device (field log B10)."""


def driver_of(host: Host, address: str) -> str:
    """The driver of a function; empty: none."""
    return host.link(host.pci(address) / "driver") or ""


def on_vfio(host: Host, address: str) -> bool:
    """Whether user space may drive a function."""
    return is_vfio(driver_of(host, address))


def _load(host: Host) -> None:
    """See to it that vfio-pci is there. Raises VmctlError."""
    if host.path(f"{DRIVERS}/{VFIO}").is_dir():
        return
    answer = host.driver_tool(["modprobe", VFIO], limit=30, changes=True)
    if not host.path(f"{DRIVERS}/{VFIO}").is_dir():
        said = (answer.errors or answer.output).strip() or "modprobe said nothing"
        raise VmctlError(Code.FAILED, f"The kernel has no driver {VFIO}: {said}.", "Run vmctl check on the host.")


def to_vfio(host: Host, address: str) -> None:
    """Bind one function to vfio-pci. Raises VmctlError; what it was bound to before is the caller's to restore."""
    if on_vfio(host, address):
        return
    _load(host)
    lock(host, address)
    override = host.pci(address) / "driver_override"
    try:
        host.write(override, VFIO, reading=override)
        _unbind(host, address)
        _probe(host, address)
    except OSError as error:
        raise _refused(host, address, VFIO, error) from error
    if not on_vfio(host, address):
        raise _stayed(host, address, VFIO)


def give_back(host: Host, address: str, driver: str) -> None:
    """Bind one function to the driver that it had before; empty: to none. Raises VmctlError when it does not get it."""
    if is_back(host, address, driver):
        return
    override = host.pci(address) / "driver_override"
    try:
        if driver_of(host, address) != driver:
            _unbind(host, address)
        elif _locked(host, address):
            host.write(_lock_file(host, address), "0", reading=_lock_file(host, address))
        host.write(override, "\n", reading=override)
        if driver and driver_of(host, address) != driver:
            _probe(host, address)
    except OSError as error:
        raise _refused(host, address, driver, error) from error
    if driver_of(host, address) != driver:
        raise _stayed(host, address, driver)


def is_back(host: Host, address: str, driver: str) -> bool:
    """Whether a function that had this driver is the host's again, and nothing keeps it from being so.

    Another driver of the host's is as good: after a reboot it may have got another one.
    """
    now = driver_of(host, address)
    if is_vfio(driver):
        return now == driver
    return not (is_vfio(now) or _overridden(host, address) or (driver and not now) or _locked(host, address))


def _overridden(host: Host, address: str) -> bool:
    return (host.read_or_none(host.pci(address) / "driver_override") or "").strip() == VFIO


def _unbind(host: Host, address: str) -> None:
    """Raises OSError, or Stuck that names who holds the device when the kernel does not come back (B10)."""
    if not driver_of(host, address):
        return
    link = host.pci(address) / "driver"
    try:
        host.write(link / "unbind", address, reading=link)
    except VmctlError as error:
        holders = processes.holding(host, processes.gpu_nodes(host, address) | processes.function_nodes(host, address))
        who = processes.named(holders) or "a process that this user cannot see"
        raise Stuck(error.code, f"{error.what} It is held by {who}.", error.remedy, error.retry) from error


def lock(host: Host, address: str) -> None:
    """NVIDIA's driver lets nobody open a card while this is 1; it stays 0 while somebody has it open (dossier 1.4)."""
    path = _lock_file(host, address)
    if driver_of(host, address) != "nvidia" or not path.exists() or _locked(host, address):
        return
    found: str | None = None
    with suppress(OSError):  # older drivers do not take it
        found = host.write(path, "1", reading=path)
    if (found or "").strip() == "0":
        holders = processes.holding(host, processes.gpu_nodes(host, address) | {"/dev/nvidiactl"})
        who = processes.named(holders) or "somebody"
        raise VmctlError(Code.BUSY, f"GPU {address} is held by {who}.", "End them, then try again.", retry=True)


def _locked(host: Host, address: str) -> bool:
    """Whether a run that was killed before it unbound the card keeps everybody else from opening it."""
    return (host.read_or_none(_lock_file(host, address)) or "").strip() == "1"


def _lock_file(host: Host, address: str) -> Path:
    return host.path(f"/proc/driver/nvidia/gpus/{address}/unbindLock")


def _probe(host: Host, address: str) -> None:
    host.write(host.path(PROBE), address, reading=host.pci(address) / "driver")


def _refused(host: Host, address: str, driver: str, error: OSError) -> VmctlError:
    return VmctlError(
        Code.FAILED,
        f"The kernel does not bind {address} to {driver or 'no driver'}: {error.strerror} ({error.filename}).",
        "Look at the kernel's log of this minute (dmesg).",
        retry=True,
    )


def _stayed(host: Host, address: str, driver: str) -> VmctlError:
    now = driver_of(host, address) or "no driver"
    return VmctlError(
        Code.FAILED,
        f"{address} was to get {driver or 'no driver'}, but has {now}.",
        "Look at the kernel's log of this minute (dmesg).",
        retry=True,
    )
