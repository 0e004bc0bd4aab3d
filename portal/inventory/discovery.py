"""Asks a host what GPUs it has, and stores it: at set-up only. Later every pass of enforcement brings them along."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from django.conf import settings

from portal import gateway
from portal.errors import Refused
from portal.gateway import GatewayError
from portal.host_address import HostAddress, SSHAddress, fingerprint
from portal.inventory import actions
from portal.inventory.models import GPU, Host

COMPARE = "Compare it on the host itself: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub"


def look(host: Host, *, now: datetime) -> list[GPU]:
    """The host's GPUs as they are now, stored. Raises GatewayError."""
    return actions.record_inventory(host, gateway.gpus(host.address), now)


def pinned(
    address: SSHAddress, *, known: str = "", given: str = "", repeat: str = "", ask: Callable[[str], bool] | None = None
) -> SSHAddress:
    """The address with the host key that answers there, once it is known to be the right one.

    known: the key that is pinned already. given: a fingerprint to compare with. ask: puts a question to a person; None:
    nobody is there, and `repeat` is the command that would do. Raises Refused, or GatewayError.
    """
    key = gateway.host_key_of(address)
    seen = fingerprint(key)
    if given and given != seen:
        raise Refused(f"{address} has the host key {seen}, not {given}: another machine may answer there. {COMPARE}")
    if not given and key != known:
        told = f"The host key of {address} is {seen}."
        if ask is None:
            raise Refused(f"{told} {COMPARE}\nIf it is the same, repeat:\n    {repeat} --fingerprint {seen}")
        if not ask(f"{told}\n{COMPARE}\nIs it the same?"):
            raise Refused("Nothing was changed.")
    return replace(address, host_key=key)


@dataclass(frozen=True)
class Meeting:
    """What a host over SSH said of itself. obeyed: whether it has worked for this portal before."""

    report: gateway.Report
    release: str
    obeyed: bool


def meet(address: HostAddress) -> Meeting:
    """Ask a host over SSH who it is and whom it obeys, before anything is stored. Raises GatewayError."""
    report = gateway.observe(address)
    if report.get("host") != address.name:
        raise GatewayError(
            "other_host",
            f"What answers at {address.ssh} calls itself {report.get('host')}.",
            f"Give its lines of authorized_keys the name: manage.py ssh_keys --host {address.name}",
            False,
        )
    portal = report.get("portal")
    if portal is not None and portal != str(UUID(settings.PORTAL_ID)):
        raise GatewayError(
            "wrong_portal",
            f"{address.name} obeys another portal, {portal}.",
            "If it was handed over, stop its machines and remove memory.json from vmctl's state folder there.",
            False,
        )
    return Meeting(report, str(report.get("vmctl") or ""), portal is not None)
