"""What wakes enforcement before the next tick. All of these are sent on commit."""

import logging
from collections.abc import Iterable
from typing import Any

from django.dispatch import receiver
from kombu.exceptions import OperationalError

from portal import clock
from portal.bookings import signals as bookings
from portal.enforcement import signals, tasks
from portal.inventory import signals as inventory

log = logging.getLogger(__name__)


@receiver([bookings.changed, signals.wanted])
def hosts_changed(sender: Any, host_ids: Iterable[int], **kwargs: Any) -> None:
    """Look at these hosts soon. A broker that is away costs seconds, the tick comes anyway."""
    now = clock.now()
    try:
        for host_id in host_ids:
            tasks.soon(host_id, now)
    except OperationalError as error:
        log.warning("No broker; the next tick will see to it: %s", error)


@receiver([inventory.added, inventory.changed])
def host_edited(sender: Any, host_id: int, **kwargs: Any) -> None:
    """A new host's GPUs are found by looking; an edited one is looked at again."""
    hosts_changed(sender, [host_id])
