"""libvirt, and the only file that imports it.

Every call has a limit of its own: libvirt waits for ever for a daemon that hangs, and for 30 s for one domain whose
job is stuck. A call that does not come back is left behind in a daemon thread; the short-lived process ends without it.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import libvirt

from vmctl import firewall, limits, refusals
from vmctl.errors import Code, VmctlError
from vmctl.mark import NAMESPACE, PREFIX
from vmctl.node import Domain, Node, qemu_user
from vmctl.observation import MachineState
from vmctl.statistics import DomainStatistics, counted

__all__ = ["Domain", "Hypervisor", "LibvirtError", "Node", "connect"]

T = TypeVar("T")

CONNECT_SECONDS = 5.0
CALL_SECONDS = 5.0
STUCK_MILLISECONDS = 2000
START_SECONDS = 30.0
"""A start is the one slow call: libvirt makes the tap, the filter and the QEMU process; usually about a second."""
ASK_SECONDS = 3.0
DESTROY_SECONDS = 18.0
"""libvirt sends SIGTERM, after 10 s SIGKILL, and looks for 5 s more; QEMU usually ends within 0.3 s."""

STATES = {
    libvirt.VIR_DOMAIN_NOSTATE: MachineState.UNKNOWN,
    libvirt.VIR_DOMAIN_RUNNING: MachineState.RUNNING,
    libvirt.VIR_DOMAIN_BLOCKED: MachineState.RUNNING,
    libvirt.VIR_DOMAIN_PAUSED: MachineState.PAUSED,
    libvirt.VIR_DOMAIN_SHUTDOWN: MachineState.STOPPING,
    libvirt.VIR_DOMAIN_SHUTOFF: MachineState.OFF,
    libvirt.VIR_DOMAIN_CRASHED: MachineState.CRASHED,
    libvirt.VIR_DOMAIN_PMSUSPENDED: MachineState.PAUSED,
}

STATISTICS = (
    libvirt.VIR_DOMAIN_STATS_STATE
    | libvirt.VIR_DOMAIN_STATS_CPU_TOTAL
    | libvirt.VIR_DOMAIN_STATS_BALLOON
    | libvirt.VIR_DOMAIN_STATS_VCPU
    | libvirt.VIR_DOMAIN_STATS_INTERFACE
    | libvirt.VIR_DOMAIN_STATS_BLOCK
)
STATISTICS_FLAGS = libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_ACTIVE | libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT
STATISTICS_SECONDS, STATISTICS_TRIES = 2.0, 3

LOST = (libvirt.VIR_ERR_NO_CONNECT, libvirt.VIR_ERR_INVALID_CONN, libvirt.VIR_ERR_RPC)


MOST_TIMEOUTS = 3
"""So many looks may be late before the whole daemon is taken for hung."""
LATE_SECONDS = MOST_TIMEOUTS * CALL_SECONDS  # what they cost together


@dataclass
class LibvirtError(VmctlError):
    """What libvirt refused; `number` is its own code."""

    number: int = 0

    @property
    def gone(self) -> bool:
        """Whether the domain is not there any more."""
        return bool(self.number == libvirt.VIR_ERR_NO_DOMAIN)


@contextmanager
def connect(uri: str) -> Iterator["Hypervisor"]:
    """A connection for one short life. Raises `unreachable` within seconds, whether libvirt is stopped or hangs."""
    libvirt.registerErrorHandler(lambda *_: None, None)  # it would print each error to standard error
    try:
        connection = _within(CONNECT_SECONDS, lambda: libvirt.open(uri))
    except TimeoutError as error:
        raise _unreachable(f"libvirt at {uri} took the call and did not answer in {CONNECT_SECONDS:g} s.") from error
    except libvirt.libvirtError as error:
        raise _unreachable(f"libvirt at {uri} cannot be reached: {_first_line(error)}.") from error
    try:
        yield Hypervisor(connection)
    finally:
        # Closing waits for calls that hang: not for longer than they deserve.
        threading.Thread(target=connection.close, daemon=True).start()


class Hypervisor:
    """One libvirt connection, in our words."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._timeouts = 0
        self._left: Callable[[float], float] = float

    @contextmanager
    def hurried(self, left: Callable[[float], float]) -> Iterator[None]:
        """Changes in here take at most what is left of their seconds."""
        self._left = left
        yield
        self._left = float

    # -- looking

    def domains(self) -> tuple[Domain, ...]:
        """All domains, running and defined. One that vanishes meanwhile is left out (field log C12)."""
        # Without it there is no report at all, and libvirt keeps it back while it writes a starting domain's rules.
        listed = self._call("the list of domains", self._connection.listAllDomains, LATE_SECONDS)
        found = (self._domain(handle) for handle in listed)
        return tuple(domain for domain in found if domain is not None)

    def _domain(self, handle: Any) -> Domain | None:
        """One domain; a stuck one only loses its own state (field log C08)."""
        name, xml = handle.name(), ""
        try:
            xml = self._call(f"the XML of {name}", lambda: handle.XMLDesc(0))
            state = self._call(f"the state of {name}", handle.state)[0]
            trouble = self._stuck(handle, name) if state == libvirt.VIR_DOMAIN_RUNNING else None
        except LibvirtError as error:
            if error.gone:
                return None
            state, trouble = libvirt.VIR_DOMAIN_NOSTATE, error.what
        except VmctlError as error:
            if error.code == Code.UNREACHABLE:
                raise
            state, trouble = libvirt.VIR_DOMAIN_NOSTATE, error.what
        known = STATES.get(state, MachineState.UNKNOWN) if trouble is None else MachineState.UNKNOWN
        return Domain(name, handle.UUIDString(), known, xml, trouble)

    def _stuck(self, handle: Any, name: str) -> str | None:
        """Whether the domain's monitor answers; libvirt tells without asking QEMU."""
        state, _, milliseconds = self._call(f"the monitor of {name}", lambda: handle.controlInfo(0))
        if state == libvirt.VIR_DOMAIN_CONTROL_OK or milliseconds < STUCK_MILLISECONDS:
            return None
        return f"Another operation has held {name} for {milliseconds / 1000:.0f} s."

    def node(self) -> Node:
        """CPUs, memory, and who QEMU runs as."""
        info = self._call("the host's size", self._connection.getInfo)
        capabilities = self._call("the host's capabilities", self._connection.getCapabilities)
        return Node(vcpus=info[2], memory_mib=info[1], qemu_user=qemu_user(capabilities))

    def version(self) -> tuple[int, int, int]:
        """Which libvirt answers: major, minor, release."""
        number = self._call("its version", self._connection.getLibVersion)
        return number // 1_000_000, number // 1000 % 1000, number % 1000

    def network(self, name: str) -> str:
        """The XML of a network that is up."""
        network = self._call(f"the network {name}", lambda: self._connection.networkLookupByName(name))
        if not self._call(f"the network {name}", network.isActive):
            raise VmctlError(Code.FAILED, f"The libvirt network {name} is down.", f"Start it: virsh net-start {name}.")
        return str(self._call(f"the network {name}", lambda: network.XMLDesc(0)))

    def leases(self, name: str) -> frozenset[str]:
        """Addresses that the network's DHCP has given away."""
        network = self._call(f"the network {name}", lambda: self._connection.networkLookupByName(name))
        return frozenset(str(lease["ipaddr"]) for lease in self._call(f"the leases of {name}", network.DHCPLeases))

    def filter(self, name: str) -> str | None:
        """The XML of a network filter; None where it is not defined."""
        try:
            found = self._call(f"the filter {name}", lambda: self._connection.nwfilterLookupByName(name))
        except LibvirtError as error:
            if error.number == libvirt.VIR_ERR_NO_NWFILTER:
                return None
            raise
        return str(self._call(f"the filter {name}", lambda: found.XMLDesc(0)))

    def statistics(self, asked: Collection[str] = (), agent_seconds: float = 2.0) -> tuple[DomainStatistics, ...]:
        """What every running domain has used, in one call.

        `asked`: the uuids of machines whose guest agent is asked who is logged in, all at once, for so many seconds.
        """
        found = {record["uuid"]: record for record in self._records()}
        users = self._users({uuid: found[uuid]["handle"] for uuid in asked if uuid in found}, agent_seconds)
        return tuple(replace(counted(record), users=users.get(uuid)) for uuid, record in found.items())

    def _records(self) -> list[dict[str, Any]]:
        """A stuck domain would hold the first call up; the next ones find it stuck, and tell of it what they can."""
        for left in reversed(range(STATISTICS_TRIES)):
            try:
                listed = self._call(
                    "what domains use",
                    lambda: self._connection.getAllDomainStats(STATISTICS, STATISTICS_FLAGS),
                    STATISTICS_SECONDS,
                    looking=False,
                )
            except VmctlError as error:
                if error.code != Code.TIMEOUT or not left:
                    raise
            else:
                break
        return [
            record | {"uuid": handle.UUIDString(), "name": handle.name(), "handle": handle} for handle, record in listed
        ]

    def _users(self, handles: Mapping[str, Any], seconds: float) -> dict[str, tuple[str, ...]]:
        """Who is logged in, by uuid; a guest whose agent is not there or silent is left out."""

        def ask(handle: Any) -> tuple[str, ...]:
            handle.agentSetResponseTimeout(max(1, int(seconds)), 0)  # or a silent guest holds a thread of the daemon's
            told = handle.guestInfo(libvirt.VIR_DOMAIN_GUEST_INFO_USERS, 0)
            return tuple(str(told[f"user.{number}.name"]) for number in range(told.get("user.count", 0)))

        calls = {uuid: partial(ask, handle) for uuid, handle in handles.items()}
        return limits.side_by_side(seconds, calls, (libvirt.libvirtError, KeyError))

    # -- changing

    def define_filter(self, xml: str) -> None:
        """Define a network filter; running machines get it at once."""
        self._through_the_firewall("the filter's definition", lambda: self._connection.nwfilterDefineXML(xml))

    def start(self, xml: str) -> None:
        """Start a transient domain. It is there with all its devices, or not at all."""
        self._through_the_firewall("the start", lambda: self._connection.createXML(xml, 0))

    def ask_stop(self, uuid: str) -> None:
        """Press the ACPI power button: explicitly, since the default may wait for a guest agent (field log C16)."""
        self._on(uuid, lambda domain: domain.shutdownFlags(libvirt.VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN), ASK_SECONDS)

    def force_stop(self, uuid: str) -> None:
        """Take the power away. One that is gone already is fine."""
        with firewall.alone(self._left(firewall.WAIT_SECONDS)):
            self._on(uuid, lambda domain: domain.destroy(), DESTROY_SECONDS)

    def set_mark(self, uuid: str, xml: str) -> None:
        """Replace the mark of a running domain."""
        kind, live = libvirt.VIR_DOMAIN_METADATA_ELEMENT, libvirt.VIR_DOMAIN_AFFECT_LIVE
        self._on(uuid, lambda domain: domain.setMetadata(kind, xml, PREFIX, NAMESPACE, live), ASK_SECONDS)

    # -- the wire

    def _on(self, uuid: str, act: Callable[[Any], object], seconds: float) -> None:
        try:
            found = self._call(f"the domain {uuid}", lambda: self._connection.lookupByUUIDString(uuid))
            self._call(f"the domain {found.name()}", lambda: act(found), self._left(seconds), looking=False)
        except LibvirtError as error:
            if not error.gone:
                raise

    def _through_the_firewall(self, what: str, call: Callable[[], Any]) -> None:
        """A change for which libvirt writes firewall rules, tried again when another program wrote some meanwhile."""
        for left in reversed(range(firewall.TRIES)):
            try:
                with firewall.alone(self._left(firewall.WAIT_SECONDS)):
                    self._call(what, call, self._left(START_SECONDS), looking=False)
                return
            except LibvirtError as error:
                if firewall.REFUSED not in error.what or not left or self._left(ASK_SECONDS) < ASK_SECONDS:
                    raise
                time.sleep(firewall.PAUSE_SECONDS)

    def _call(self, what: str, call: Callable[[], Any], seconds: float = CALL_SECONDS, *, looking: bool = True) -> Any:
        """The answer. Looking asks only the daemon, so late answers tell of it; a change may wait for one QEMU."""
        try:
            return _within(seconds, call)
        except TimeoutError as error:
            self._timeouts += looking
            if self._timeouts >= MOST_TIMEOUTS:
                raise _unreachable("libvirt answered several calls too late.") from error
            raise VmctlError(
                Code.TIMEOUT, f"libvirt did not answer about {what} in {seconds:g} s.", refusals.OTHERWISE, retry=True
            ) from error
        except libvirt.libvirtError as error:
            raise _refused(error) from error


def _within(seconds: float, call: Callable[[], T]) -> T:
    return limits.within(seconds, call, (libvirt.libvirtError, VmctlError))


def _refused(error: libvirt.libvirtError) -> VmctlError:
    """libvirt's error as one of ours, with what to do about it."""
    text = _first_line(error)
    if error.get_error_code() in LOST or error.get_error_domain() == libvirt.VIR_FROM_RPC:
        return _unreachable(f"The connection to libvirt broke: {text}.")
    advice = refusals.remedy(text)
    return LibvirtError(Code.FAILED, f"libvirt refused: {text}.", advice, retry=True, number=error.get_error_code())


def _unreachable(what: str) -> VmctlError:
    return VmctlError(Code.UNREACHABLE, what, refusals.way_to_libvirt(what), retry=True)


def _first_line(error: libvirt.libvirtError) -> str:
    """One line of libvirt's message: several of them carry QEMU's whole last words."""
    return " ".join((error.get_error_message() or str(error)).split())[:500].rstrip(".")
