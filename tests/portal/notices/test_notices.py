"""Notices reach their person and stay unread until looked at."""

from portal.bookings import actions as bookings
from portal.notices import actions
from portal.notices.models import Notice
from tests.make import NOW, World, at


def test_the_owner_is_told_in_their_own_zone(world: World) -> None:
    ada = world.people.ada
    ada.time_zone = "Europe/Helsinki"
    ada.save()
    bookings.cancel(world.book(1, 3), by=world.people.olga, now=NOW)
    texts = list(Notice.objects.filter(user=ada).order_by("pk").values_list("text", flat=True))
    assert texts[0].endswith("from 2027-03-01 12:00 EET to 2027-03-01 14:00 EET.")
    assert texts[1].endswith("from 2027-03-01 12:00 EET is cancelled.")
    assert not Notice.objects.exclude(user=ada).exists()


def test_read_once(world: World) -> None:
    world.book()
    assert actions.mark_read(world.people.ada, now=at(1)) == 1
    assert actions.mark_read(world.people.ada, now=at(2)) == 0
    assert Notice.objects.get().read == at(1)
