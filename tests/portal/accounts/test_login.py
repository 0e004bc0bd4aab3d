"""Log-in is slowed down per name and address; tokens come from the command line too."""

from datetime import timedelta
from io import StringIO

import pytest
from django.contrib.auth import authenticate
from django.core.management import CommandError, call_command
from django.test import Client, RequestFactory

from portal.accounts import actions
from portal.accounts.models import ApiToken, LoginFailure
from portal.audit.models import Entry
from tests import make
from tests.make import NOW

HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture(autouse=True)
def quick(settings: object, db: None) -> None:
    settings.PASSWORD_HASHERS = HASHERS  # type: ignore[attr-defined]


def attempt(name: str, password: str, address: str = "10.0.0.1") -> bool:
    request = RequestFactory().post("/login", REMOTE_ADDR=address)
    return authenticate(request, username=name, password=password) is not None


def test_after_five_failures_even_the_right_password_waits() -> None:
    make.user("ada", password="right")
    make.user("ben", password="right")
    for _ in range(actions.FAILURES):
        assert not attempt("ada", "wrong")
    assert not attempt("ada", "right")
    assert attempt("ada", "right", "10.0.0.2")  # another address: a stranger cannot lock Ada out of her own
    assert attempt("ben", "right")
    LoginFailure.objects.update(at=LoginFailure.objects.latest("at").at - actions.FAILURE_LIFE - timedelta(seconds=1))
    assert attempt("ada", "right")
    assert not LoginFailure.objects.filter(username="ada", address="10.0.0.1").exists()


def test_names_that_do_not_exist_are_slowed_down_alike() -> None:
    for _ in range(actions.FAILURES):
        attempt("nobody" * 40, "x")
    last = LoginFailure.objects.latest("at").at
    assert actions.locked_until("nobody" * 40, "10.0.0.1", last) is not None
    assert Entry.objects.filter(verb="log-in refused").count() == actions.FAILURES


def test_the_admin_pages_log_in_the_same_way() -> None:
    make.user("olga", operator=True, password="right")
    for _ in range(actions.FAILURES):
        Client().post("/admin/login/", {"username": "olga", "password": "wrong"})
    assert (
        Client().post("/admin/login/", {"username": "olga", "password": "right"}).status_code == 200
    )  # the form again


def test_who_is_closed_cannot_log_in() -> None:
    ada, olga = make.user("ada", password="right"), make.user("olga", operator=True)
    browser = Client()
    browser.force_login(ada)
    actions.deactivate_user(ada, by=olga, now=NOW)
    assert not attempt("ada", "right")
    assert browser.get("/api/v1/flavors").status_code == 401


def test_api_token_prints_the_token_as_its_last_line() -> None:
    ada, out = make.user("ada"), StringIO()
    call_command("api_token", "ada", "--scopes", "read,book", "--days", "7", stdout=out)
    secret = out.getvalue().splitlines()[-1]
    token = ApiToken.objects.get(user=ada)
    assert (token.digest, token.scopes) == (actions.digest(secret), ["book", "read"])
    assert token.expires - token.created == timedelta(days=7)


@pytest.mark.parametrize(
    "words", [["nobody"], ["ada", "--scopes", "root"], ["ada", "--scopes", ""], ["ada", "--days", "0"]]
)
def test_api_token_refuses_in_a_sentence(words: list[str]) -> None:
    make.user("ada")
    with pytest.raises(CommandError, match=r"\.$"):
        call_command("api_token", *words)
    assert not ApiToken.objects.exists()
