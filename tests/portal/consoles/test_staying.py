"""A console stays open as long as its right does, and not a breath longer; two tabs live side by side."""

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest
from django.test import Client
from redis.exceptions import ConnectionError as RedisConnectionError

from portal import clock, nudge
from portal.accounts import actions as accounts
from portal.accounts.models import ApiToken, Membership, Role, User
from portal.bookings import actions as bookings
from portal.bookings.models import Reservation
from portal.consoles import consumers
from tests import make
from tests.portal.consoles.conftest import (
    Person,
    Screens,
    StuckScreen,
    Wire,
    close_code,
    enter,
    knock,
    outside,
    present,
    running,
)

People = Callable[[User], Person]


async def console_of(person: Person, machine: UUID) -> Wire:
    """An open console, its greeting read."""
    socket = knock(cookies=person.cookies())
    await enter(socket, await outside(person.ticket)(machine))
    assert await socket.hear() == b"RFB 003.008\n"
    return socket


@pytest.fixture(autouse=True)
def seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Consoles look by themselves so seldom that only a message can have told them."""
    monkeypatch.setattr(consumers, "CHECK_SECONDS", 60.0)


async def test_ended_by_its_owner_it_closes_at_once(
    world: make.World, machine: UUID, person: People, screens: Screens
) -> None:
    socket = await console_of(await outside(person)(world.people.ada), machine)
    reservation = await outside(Reservation.objects.get)()
    await outside(bookings.end_now)(reservation, by=world.people.ada, now=await outside(clock.now)())
    assert await close_code(socket) == 4410
    await socket.let_go()
    assert screens.opened[0].closed


async def test_at_the_end_of_the_period_it_closes_without_any_message(
    world: make.World, machine: UUID, person: People, screens: Screens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "CHECK_SECONDS", 0.3)
    socket = await console_of(await outside(person)(world.people.ada), machine)
    later = await outside(clock.now)() + timedelta(hours=4)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert await close_code(socket) == 4410


async def test_a_channel_layer_that_is_away_neither_closes_a_console_nor_keeps_it_open(
    world: make.World, machine: UUID, person: People, screens: Screens, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*groups: str) -> None:
        raise RedisConnectionError("Error 2 connecting to unix socket: no Redis")

    monkeypatch.setattr(consumers, "CHECK_SECONDS", 0.3)
    monkeypatch.setattr(consumers, "listening", away)
    socket = await console_of(await outside(person)(world.people.ada), machine)
    await asyncio.sleep(0.7)
    await socket.say(b"still here")
    assert await socket.hear() == b"still here"
    later = await outside(clock.now)() + timedelta(hours=4)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert await close_code(socket) == 4410


async def test_a_page_hears_that_there_is_no_news_to_be_had(
    world: make.World, person: People, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*groups: str) -> None:
        raise RedisConnectionError("Error 2 connecting to unix socket: no Redis")

    monkeypatch.setattr(consumers, "listening", away)
    ada = await outside(person)(world.people.ada)
    page = knock("/ws/nudge", cookies=ada.cookies())
    await page.connect()
    assert await close_code(page) == 1013
    assert "Traceback" not in caplog.text


async def test_after_a_log_out_it_closes(world: make.World, machine: UUID, person: People, screens: Screens) -> None:
    ada = await outside(person)(world.people.ada)
    socket, page = await console_of(ada, machine), knock("/ws/nudge", cookies=ada.cookies())
    await page.connect()
    other = await outside(person)(world.people.ada)  # another browser of hers stays
    second = await console_of(other, machine)
    await outside(ada.client.logout)()
    await outside(lambda: nudge.recheck(nudge.sockets_of_user(world.people.ada.pk)))()
    assert await close_code(socket) == 4403
    assert await close_code(page) == 4403
    await second.say(b"still here")
    assert await second.hear() == b"still here"
    await second.leave()


async def test_a_log_out_through_the_page_is_told(
    world: make.World, machine: UUID, person: People, screens: Screens
) -> None:
    ada = await outside(person)(world.people.ada)
    socket = await console_of(ada, machine)
    await outside(lambda: ada.client.post("/logout", headers={"X-CSRFToken": ada.csrf()}))()
    assert await close_code(socket) == 4403


async def test_a_manager_who_leaves_the_project_loses_the_screen(
    world: make.World, machine: UUID, person: People, screens: Screens
) -> None:
    await outside(lambda: Membership.objects.filter(user=world.people.ben).update(role=Role.MANAGER))()
    socket = await console_of(await outside(person)(world.people.ben), machine)
    await outside(lambda: Membership.objects.get(user=world.people.ben).delete())()
    assert await close_code(socket) == 4403


async def test_a_withdrawn_token_closes_the_screens_it_opened(
    world: make.World, machine: UUID, screens: Screens
) -> None:
    def asked() -> tuple[ApiToken, str]:
        now, ada = clock.now(), world.people.ada
        token, secret = accounts.make_token(ada, name="script", scopes=["console"], days=None, by=ada, now=now)
        answer = Client().post(f"/api/v1/machines/{machine}/console", headers={"Authorization": f"Bearer {secret}"})
        return token, str(answer.json()["ticket"])

    token, ticket = await outside(asked)()
    socket = knock(cookies="")
    await enter(socket, ticket)
    await outside(accounts.revoke_token)(token, by=world.people.ada, now=await outside(clock.now)())
    assert await close_code(socket) == 4403


async def test_who_is_shut_out_loses_the_screen(
    world: make.World, machine: UUID, person: People, screens: Screens
) -> None:
    socket = await console_of(await outside(person)(world.people.olga), machine)

    def shut_out() -> None:
        olga = User.objects.get(pk=world.people.olga.pk)
        olga.is_active = False
        accounts.save_user(olga, by=None, now=clock.now())

    await outside(shut_out)()
    assert await close_code(socket) == 4403


@pytest.mark.field("F07")
async def test_two_tabs_both_live(world: make.World, machine: UUID, person: People, screens: Screens) -> None:
    ada = await outside(person)(world.people.ada)
    one, other = await console_of(ada, machine), await console_of(ada, machine)
    for socket in (one, other, one):
        await socket.say(b"key")
        assert await socket.hear() == b"key"
    await one.leave()
    await other.say(b"key")
    assert await other.hear() == b"key"
    await other.leave()


@pytest.mark.field("F08")
async def test_after_a_power_cycle_a_new_ticket_shows_the_same_machine_again(
    world: make.World, machine: UUID, person: People, screens: Screens
) -> None:
    await outside(running)(world)  # another machine, which must never be shown
    ada = await outside(person)(world.people.ada)
    socket = await console_of(ada, machine)
    screens.opened[0].out.put_nowait(b"")
    assert await close_code(socket) == 4409
    again = await console_of(ada, machine)
    await again.leave()
    assert {asked for _, asked in screens.asked} == {machine}


async def test_a_screen_that_takes_no_input_is_given_up(
    world: make.World, machine: UUID, person: People, screens: Screens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "WRITE_SECONDS", 0.3)
    screens.kind = StuckScreen
    socket = await console_of(await outside(person)(world.people.ada), machine)
    await socket.say(b"key")
    assert await close_code(socket) == 4502
    assert screens.opened[0].closed


async def test_a_stuck_screen_does_not_keep_a_console_whose_right_is_gone(
    world: make.World, machine: UUID, person: People, screens: Screens
) -> None:
    screens.kind = StuckScreen
    socket = await console_of(await outside(person)(world.people.ada), machine)
    await socket.say(b"key")
    reservation = await outside(Reservation.objects.get)()
    await outside(bookings.end_now)(reservation, by=world.people.ada, now=await outside(clock.now)())
    assert await close_code(socket) == 4410


@pytest.mark.field("F05")
@pytest.mark.field("F06")
async def test_many_rounds_leave_no_task_behind(
    world: make.World, machine: UUID, person: People, screens: Screens
) -> None:
    ada = await outside(person)(world.people.ada)
    before = len(asyncio.all_tasks())
    for _ in range(30):
        await (await console_of(ada, machine)).leave()
    await asyncio.sleep(0.1)
    assert len(asyncio.all_tasks()) <= before + 1  # the channel layer's one reader
    assert all(screen.closed for screen in screens.opened)


async def test_nudges_go_to_whom_they_concern_and_carry_a_url_only(world: make.World, person: People) -> None:
    pages = {}
    for name in ("ada", "cleo"):
        pages[name] = knock("/ws/nudge", cookies=(await outside(person)(getattr(world.people, name))).cookies())
        assert (await pages[name].connect())[0]
    await asyncio.sleep(0.3)
    await outside(lambda: nudge.user(world.people.ada.pk, url="/machines"))()
    await outside(lambda: nudge.everyone(url="/"))()
    assert [json.loads(await pages["ada"].hear()) for _ in range(2)] == [{"url": "/machines"}, {"url": "/"}]
    assert json.loads(await pages["cleo"].hear()) == {"url": "/"}
    for page in pages.values():
        await page.leave()


async def test_nudges_need_a_log_in(transactional_db: None) -> None:
    assert not (await knock("/ws/nudge").connect())[0]
    assert not (await knock("/ws/nudge", cookies="sessionid=made-up").connect())[0]


async def test_a_ticket_is_no_log_in_for_nudges(
    world: make.World, machine: UUID, person: People, screens: Screens
) -> None:
    """The two sockets do not stand in for one another."""
    ada = await outside(person)(world.people.ada)
    page = knock("/ws/nudge", cookies=ada.cookies())
    await page.connect()
    await present(page, await outside(ada.ticket)(machine))
    assert await page.is_silent(0.5)
    await page.leave()
    assert screens.asked == []
