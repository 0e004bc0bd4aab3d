"""Log-in, profile, tokens, notices."""

import re

import pytest
from django.test import Client
from django.urls import reverse

from portal import clock
from portal.accounts import actions as accounts
from portal.accounts.models import ApiToken, User
from portal.notices import actions as notices
from tests import make
from tests.portal.pages.conftest import LogIn

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHcdkXNwJSUEMjCYRsyJyTRcDaUbgQRzRlZ4Mcbcdefg ada@home"
PASSWORD = "quite-long-enough-4711"


@pytest.fixture
def dora(db: None) -> User:
    return make.user("dora", password=PASSWORD, now=clock.now())


def log_in(client: Client, name: str, password: str, **more: str) -> tuple[int, str]:
    answer = client.post(reverse("accounts:login"), {"username": name, "password": password} | more)
    return answer.status_code, answer.headers.get("Location", "") or answer.content.decode()


def test_log_in_and_out(client: Client, dora: User) -> None:
    assert log_in(client, "dora", PASSWORD) == (302, "/")
    assert client.get(reverse("accounts:logout")).status_code == 405
    assert client.post(reverse("accounts:logout")).status_code == 302
    assert client.get("/").status_code == 302


def test_after_log_in_one_lands_where_one_wanted_to_but_nowhere_else(client: Client, dora: User) -> None:
    assert log_in(client, "dora", PASSWORD, next="/machines") == (302, "/machines")
    client.post(reverse("accounts:logout"))
    assert log_in(client, "dora", PASSWORD, next="https://elsewhere.invalid/") == (302, "/")


def test_too_many_tries_are_slowed_down_and_told(client: Client, dora: User) -> None:
    for _ in range(5):
        status, page = log_in(client, "dora", "wrong")
    assert status == 200
    status, page = log_in(client, "dora", PASSWORD)
    assert status == 200
    assert "Too many tries" in page
    assert re.search(r"Wait until \d\d:\d\d:\d\d", page)


def test_a_profile_that_is_saved_late_opens_no_account_again(world: make.World) -> None:
    ada = User.objects.get(pk=world.people.ada.pk)
    accounts.deactivate_user(world.people.ada, by=world.people.olga, now=make.NOW)
    accounts.save_profile(ada, time_zone="Asia/Tokyo", ssh_keys=KEY, now=make.NOW)
    ada.refresh_from_db()
    assert (ada.is_active, ada.time_zone, ada.ssh_keys) == (False, "Asia/Tokyo", KEY)


@pytest.mark.parametrize("zone", ["Berlin", "Europe", "../../etc/passwd"])
def test_a_zone_that_nobody_knows_is_the_sites(world: make.World, logged_in: LogIn, zone: str) -> None:
    """It may come from a machine that knew more zones; a page, a notice or a host must not break on it."""
    User.objects.filter(pk=world.people.ada.pk).update(time_zone=zone)
    assert "UTC" in logged_in(world.people.ada).get("/").content.decode()
    assert str(User.objects.get(pk=world.people.ada.pk).zone) == "UTC"


@pytest.mark.parametrize(("field", "value"), [("time_zone", "Berlin"), ("ssh_keys", "ssh-rsa\tAAAA")])
def test_operators_cannot_enter_what_a_host_would_refuse(
    world: make.World, logged_in: LogIn, field: str, value: str
) -> None:
    world.people.olga.is_superuser = True
    world.people.olga.save()
    form = {"username": "ada", "time_zone": "", "ssh_keys": "", "is_active": "on", "email": ""}
    browser, page = logged_in(world.people.olga), f"/admin/accounts/user/{world.people.ada.pk}/change/"
    assert browser.post(page, form | {field: value}).status_code == 200
    assert getattr(User.objects.get(pk=world.people.ada.pk), field) == ""
    assert browser.post(page, form | {"time_zone": "Europe/Berlin", "ssh_keys": KEY}).status_code == 302
    assert User.objects.get(pk=world.people.ada.pk).ssh_keys == KEY


@pytest.mark.field("D29")
def test_the_zone_is_what_was_chosen_whatever_the_browser_says(world: make.World, logged_in: LogIn) -> None:
    browser = logged_in(world.people.ada)
    browser.post(reverse("accounts:profile"), {"time_zone": "Asia/Tokyo", "ssh_keys": ""})
    page = browser.get("/", headers={"X-Timezone": "America/New_York"}).content.decode()
    assert "Asia/Tokyo" in page
    world.people.ada.refresh_from_db()
    assert world.people.ada.time_zone == "Asia/Tokyo"


@pytest.mark.parametrize("zone", ["Mars/Base", "../../etc/passwd", "UTC\n", "a" * 5000])
def test_a_zone_that_is_none_is_refused(zone: str, world: make.World, logged_in: LogIn) -> None:
    answer = logged_in(world.people.ada).post(reverse("accounts:profile"), {"time_zone": zone, "ssh_keys": ""})
    assert answer.status_code == 422
    assert "Select a valid choice" in answer.content.decode()


def test_keys_are_stored_one_a_line(world: make.World, logged_in: LogIn) -> None:
    sent = f"  {KEY}\r\n\r\n{KEY.replace('ada@home', '')}  "
    logged_in(world.people.ada).post(reverse("accounts:profile"), {"time_zone": "", "ssh_keys": sent})
    world.people.ada.refresh_from_db()
    assert world.people.ada.ssh_keys.splitlines() == [KEY, KEY.replace(" ada@home", "")]


@pytest.mark.field("G11")
@pytest.mark.parametrize(
    "key",
    [
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        'command="rm -rf /" ' + KEY,
        KEY + "\x00",
        KEY + "\tnew-key: value",
        KEY + " 🔑",
        "ssh-ed25519 short",
        "hello",
        f"{KEY}\nruncmd: [evil]",
    ],
)
def test_what_is_no_key_is_refused_by_its_line(key: str, world: make.World, logged_in: LogIn) -> None:
    answer = logged_in(world.people.ada).post(reverse("accounts:profile"), {"time_zone": "", "ssh_keys": key})
    assert answer.status_code == 422
    assert "is no public SSH key" in answer.content.decode() or "Null characters" in answer.content.decode()
    world.people.ada.refresh_from_db()
    assert world.people.ada.ssh_keys == ""


def test_a_token_is_shown_once_and_revoked(world: make.World, logged_in: LogIn) -> None:
    browser = logged_in(world.people.ada)
    made = browser.post(reverse("accounts:token_make"), {"name": "laptop", "scopes": ["read", "book"]})
    secret = re.search(r'id="new-token">([^<]+)<', made.content.decode())
    assert secret
    assert secret[1] not in browser.get(reverse("accounts:profile")).content.decode()
    token = ApiToken.objects.get()
    assert token.scopes == ["book", "read"]
    logged_in(world.people.ben).post(reverse("accounts:token_revoke", args=[token.pk]))
    token.refresh_from_db()
    assert token.revoked is None
    browser.post(reverse("accounts:token_revoke", args=[token.pk]))
    token.refresh_from_db()
    assert token.revoked is not None


def test_a_token_needs_a_name_and_a_scope(world: make.World, logged_in: LogIn) -> None:
    answer = logged_in(world.people.ada).post(reverse("accounts:token_make"), {"name": "", "scopes": ["everything"]})
    assert answer.status_code == 422
    assert not ApiToken.objects.exists()


def test_notices_are_listed_and_marked(world: make.World, logged_in: LogIn) -> None:
    notices.tell(world.people.ada, "Your <machine> starts.", now=clock.now(), url="/machines")
    browser = logged_in(world.people.ada)
    menu = browser.get(reverse("notices:menu")).content.decode()
    assert "1 unread" in menu
    assert "Your &lt;machine&gt; starts." in menu
    browser.post(reverse("notices:read"))
    assert "unread" not in browser.get(reverse("notices:menu")).content.decode()
    assert (
        "Your &lt;machine&gt; starts." not in logged_in(world.people.cleo).get(reverse("notices:list")).content.decode()
    )
