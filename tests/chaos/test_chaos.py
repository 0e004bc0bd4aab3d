"""Kill and freeze what works for the portal; it must be right again within two ticks, with nothing left over."""

import os
import signal
import time
from pathlib import Path

import pytest

from portal import gateway
from portal.audit.models import Entry
from portal.bookings.models import Reservation
from portal.gateway import GatewayError
from portal.notices.models import Notice
from tests.chaos.portal import Portal, qemu_of, until, virsh

RIGHT_AGAIN = 4  # passes: two, the one that was under way, and one that may have begun while we looked


def active(portal: Portal, reservation: Reservation) -> None:
    portal.ticks_until(lambda: portal.status(reservation) == "active", "the machine runs")


def over(portal: Portal, reservation: Reservation) -> None:
    """End it, and look that nothing is left."""
    portal.end(reservation)
    portal.ticks_until(lambda: portal.status(reservation) == "ended", "the machine has ended")
    assert portal.left(reservation) == []


def starts(reservation: Reservation) -> int:
    return Entry.objects.filter(subject=f"reservation:{reservation.pk}", verb="moved to active").count()


async def greeting(portal: Portal, reservation: Reservation) -> bytes:
    stream = await gateway.open_console(portal.address, reservation.machine_id)
    try:
        return await stream.read()
    finally:
        await stream.close()


def test_a_machine_from_booking_to_nothing_left(portal: Portal) -> None:
    from asgiref.sync import async_to_sync

    reservation = portal.book()
    active(portal, reservation)
    assert async_to_sync(greeting)(portal, reservation).startswith(b"RFB ")
    assert str(reservation.machine_id) in virsh("list", "--uuid")
    over(portal, reservation)


@pytest.mark.field("E01")
@pytest.mark.field("E08")
@pytest.mark.field("C14")
def test_a_worker_killed_in_the_middle_of_a_start(portal: Portal) -> None:
    before = portal.state().generation
    reservation = portal.book()
    until(lambda: portal.state().generation > before, "the call has begun")
    portal.workers[0].kill()
    portal.worker()
    portal.tick()
    portal.tick()
    active(portal, reservation)
    assert portal.state().generation - before <= 1 + RIGHT_AGAIN
    assert len(qemu_of(reservation.machine_id)) == 1
    assert starts(reservation) == 1
    assert Notice.objects.filter(text__contains="is running").count() == 1
    over(portal, reservation)


def test_a_qemu_that_dies_is_started_again(portal: Portal) -> None:
    reservation = portal.book()
    active(portal, reservation)
    (first,) = qemu_of(reservation.machine_id)
    before = portal.state().generation
    os.kill(first, signal.SIGKILL)
    portal.ticks_until(lambda: qemu_of(reservation.machine_id) not in ([], [first]), "another QEMU runs")
    assert portal.state().generation - before <= RIGHT_AGAIN
    assert portal.status(reservation) == "active"
    assert starts(reservation) == 1
    over(portal, reservation)


@pytest.mark.field("C01")
def test_a_libvirtd_that_dies_takes_no_machine_with_it(portal: Portal) -> None:
    reservation = portal.book()
    active(portal, reservation)
    before, generation = qemu_of(reservation.machine_id), portal.state().generation
    os.kill(libvirtd(), signal.SIGKILL)
    portal.tick()
    portal.ticks_until(lambda: portal.state().last_error is None, "the host answers again")
    assert portal.state().generation - generation <= RIGHT_AGAIN
    portal.tick()
    assert portal.status(reservation) == "active"
    assert qemu_of(reservation.machine_id) == before
    over(portal, reservation)


@pytest.mark.field("C04")
def test_a_frozen_libvirtd_is_given_up_in_time_and_frees_nothing(portal: Portal) -> None:
    reservation = portal.book()
    active(portal, reservation)
    pid = libvirtd()
    os.kill(pid, signal.SIGSTOP)
    try:
        portal.end(reservation)
        portal.ticks_until(lambda: portal.state().last_error is not None, "the host is given up", 90)
        assert portal.status(reservation) == "ending"
    finally:
        os.kill(pid, signal.SIGCONT)
    portal.ticks_until(lambda: portal.status(reservation) == "ended", "the machine has ended")
    assert portal.left(reservation) == []


@pytest.mark.field("E08")
def test_a_frozen_worker_wakes_up_to_find_its_order_old(portal: Portal) -> None:
    reservation = portal.book()
    active(portal, reservation)
    frozen = portal.workers[0]
    before = portal.state().generation
    portal.end(reservation)
    until(lambda: portal.state().generation > before, "the call has begun")
    frozen.send(signal.SIGSTOP)
    old = portal.state().generation
    portal.worker()
    portal.ticks_until(lambda: portal.status(reservation) == "ended", "another worker has taken over", 90)
    newer = portal.state().generation
    assert newer > old
    frozen.send(signal.SIGCONT)
    portal.tick()
    portal.tick()
    assert portal.status(reservation) == "ended"
    assert portal.left(reservation) == []
    with pytest.raises(GatewayError) as refused:
        gateway.apply(portal.address, order_of(portal, old))
    assert refused.value.code == "stale_generation"


def order_of(portal: Portal, generation: int) -> dict[str, object]:
    """What the frozen worker would still have sent: stop whatever runs."""
    from django.conf import settings

    return {
        "schema": 1,
        "portal": settings.PORTAL_ID,
        "host": portal.host.name,
        "generation": generation,
        "stop_grace_seconds": 1,
        "expire_allowance_seconds": 900,
        "confirmed_stops": [],
        "purge": [],
        "machines": [],
        "cards": [],
    }


def libvirtd() -> int:
    """The private one's process, when its own file names it (again)."""
    file = Path(os.environ["RUN_DIR"]) / "libvirt/libvirtd.pid"
    until(lambda: file.exists() and file.read_text().strip(), "libvirtd has written its number")
    time.sleep(0.1)
    return int(file.read_text())
