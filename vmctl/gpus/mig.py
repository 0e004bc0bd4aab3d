"""GPU instances under vGPUs (dossier 3.3)."""

from __future__ import annotations

from vmctl.gpus.cards import Card
from vmctl.gpus.facts import DriverFacts
from vmctl.gpus.shares import Order
from vmctl.host import Host


def make_room(host: Host, card: Card, order: Order, told: DriverFacts) -> None:
    """See to it that the GPU instance of a wanted cell exists. Raises VmctlError (no capacity)."""


def after_release(host: Host, card: Card, told: DriverFacts) -> None:
    """Take away GPU instances that nobody needs. Raises VmctlError."""
