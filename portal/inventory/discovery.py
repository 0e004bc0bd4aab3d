"""Asks a host what GPUs it has, and stores it: at set-up only. Later every pass of enforcement brings them along."""

from datetime import datetime

from portal import gateway
from portal.gateway import HostAddress
from portal.inventory import actions
from portal.inventory.models import GPU, Host


def look(host: Host, *, now: datetime) -> list[GPU]:
    """The host's GPUs as they are now, stored. Raises GatewayError."""
    return actions.record_inventory(host, gateway.gpus(HostAddress(host.name, host.kind, host.layout)), now)
