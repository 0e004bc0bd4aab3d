"""Hosts over SSH: what is taken for an address, whose key is pinned, and what is refused before it is stored."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import call_command

from portal import gateway
from portal.audit.models import Entry
from portal.errors import WrongInput
from portal.gateway import GatewayError
from portal.host_address import HostAddress, SSHAddress
from portal.inventory import actions, discovery, release
from portal.inventory.models import GPU, Host
from tests.make import NOW, World
from tests.portal.inventory.answering import KEY, OTHER, OTHER_PRINT, PRINT, WHERE, Answering, add, refusal


def test_a_host_is_added_with_its_pinned_key(db: None, there: Answering, capsys: pytest.CaptureFixture[str]) -> None:
    host = add()
    assert host.address == HostAddress("gpu1", "ssh", ssh=SSHAddress("root", "gpu1.example.org", 22, KEY))
    assert there.asked == [host.address]
    assert capsys.readouterr().out.endswith("Added gpu1 with 1 GPU(s).\n")
    assert (host.simulated, GPU.objects.get().host) == (False, host)
    entry = Entry.objects.get(subject=f"host:{host.pk}")
    assert (entry.verb, entry.detail["address"], entry.detail["fingerprint"]) == ("added", WHERE, PRINT)


def test_gpus_that_are_not_real_are_told_as_such(db: None, there: Answering) -> None:
    assert add("--simulated-gpus").simulated


@pytest.mark.field("C06")
def test_where_nobody_can_be_asked_the_fingerprint_and_the_command_are_told(db: None, there: Answering) -> None:
    """Started by a service there is no terminal: nothing waits for an answer, and nothing is believed in silence."""
    told = refusal("add_host", "gpu1", "--ssh", f"{WHERE}:2222", "--simulated-gpus")
    assert f"{WHERE}:2222 is {PRINT}." in told
    assert told.endswith(f"\n    manage.py add_host gpu1 --ssh {WHERE}:2222 --simulated-gpus --fingerprint {PRINT}")
    assert there.asked == []
    assert not Host.objects.exists()


@pytest.mark.field("C06")
def test_another_fingerprint_is_refused_and_both_are_named(db: None, there: Answering) -> None:
    told = refusal("add_host", "gpu1", "--ssh", WHERE, "--fingerprint", OTHER_PRINT)
    assert PRINT in told
    assert OTHER_PRINT in told
    assert there.asked == []
    assert not Host.objects.exists()


@pytest.mark.parametrize(("answer", "added"), [("yes\n", True), ("y\n", False), ("", False)])
def test_whoever_sits_at_the_terminal_compares(
    db: None,
    there: Answering,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: str,
    added: bool,
) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

        def readline(self) -> str:
            return answer

    monkeypatch.setattr("sys.stdin", Terminal())
    if added:
        call_command("add_host", "gpu1", "--ssh", WHERE)
    else:
        assert refusal("add_host", "gpu1", "--ssh", WHERE) == "Nothing was changed."
    out = capsys.readouterr().out
    assert PRINT in out
    assert "ssh-keygen -lf" in out
    assert Host.objects.exists() == added


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ({"error": GatewayError("unreachable", "No route.", "Look.", True)}, "gpu1 is not added: No route. Look."),
        ({"report": {"host": "gpu2"}}, "calls itself gpu2. Give its lines of authorized_keys the name"),
        ({"report": {"portal": "11111111-1111-4111-8111-111111111111"}}, "obeys another portal, 11111111-"),
    ],
)
def test_a_host_that_cannot_be_asked_or_is_another_is_not_added(
    db: None, there: Answering, answers: dict[str, Any], told: str
) -> None:
    for name, value in answers.items():
        setattr(there, name, value)
    assert told in refusal("add_host", "gpu1", "--ssh", WHERE, "--fingerprint", PRINT)
    assert not Host.objects.exists()


def test_a_name_that_is_taken_is_told_before_anybody_is_asked(world: World, there: Answering) -> None:
    assert refusal("add_host", "sim-t4", "--ssh", WHERE) == "There is a host sim-t4 already."
    assert "leave --fingerprint out" in refusal("add_host", "x", "--local", "--fingerprint", PRINT)


@pytest.mark.field("G10")
@pytest.mark.parametrize(
    "where",
    [
        "root@-oProxyCommand=x",
        "root@[-oProxyCommand=x]",
        "-lroot@gpu1",
        "-oProxyCommand=x",
        "root@gpu1?command=x",
        "root@gpu1:22?keyfile=/etc/passwd",
        "root@gpu1/socket=x",
        "ro ot@gpu1",
        "root@gpu1\n",
        "root@gpu1;touch x",
        "root@gpu1:0",
        "root@gpu1:65536",
        "root@gpu1:22:22",
        "gpu1",
        "",
    ],
)
def test_an_address_of_no_known_form_reaches_nobody(
    db: None, there: Answering, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """By an allow-list: what begins with a hyphen would be an option to ssh, what has a query one to libvirt."""
    monkeypatch.setattr(gateway, "host_key_of", lambda address: pytest.fail(f"{address} was asked"))
    assert refusal("add_host", "gpu1", f"--ssh={where}")
    assert not Host.objects.exists()


@pytest.mark.field("G10")
@pytest.mark.parametrize(
    "fields",
    [{"ssh_user": "-lroot"}, {"ssh_host": "-oProxyCommand=x"}, {"ssh_host": "[-oProxyCommand=x]"}, {"ssh_port": 0}],
)
def test_no_path_stores_such_an_address(world: World, client: Any, fields: dict[str, Any]) -> None:
    client.force_login(world.people.olga)
    good: dict[str, Any] = {
        "name": "gpu1",
        "kind": "ssh",
        "layout": "",
        "enabled": "on",
        "ssh_user": "root",
        "ssh_host": "gpu1",
    }
    good |= {"ssh_port": 22, "host_key": KEY}
    page = client.post("/admin/inventory/host/add/", good | fields)
    assert (page.status_code, b"errorlist" in page.content) == (200, True)
    assert not Host.objects.filter(name="gpu1").exists()
    assert client.post("/admin/inventory/host/add/", good).status_code == 302
    assert b"There is a host gpu1 already." in client.post("/admin/inventory/host/add/", good).content
    with pytest.raises(WrongInput):
        actions.save_host(changed(Host.objects.get(name="gpu1"), fields), by=None, now=NOW)


def changed(host: Host, fields: dict[str, Any]) -> Host:
    for name, value in fields.items():
        setattr(host, name, value)
    return host


def test_the_two_lines_for_a_host(
    db: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gateway, "public_keys", lambda: {"apply": f"{KEY} a", "console": f"{OTHER} c"})
    call_command("ssh_keys", "--host", "gpu1")
    assert capsys.readouterr().out.splitlines() == [
        f'restrict,command="/usr/local/bin/vmctl --host gpu1 serve apply" {KEY} a',
        f'restrict,command="/usr/local/bin/vmctl --host gpu1 serve console" {OTHER} c',
    ]
    for words in (["--host", 'a" x'], ["--host", "A"], ["--vmctl", "vmctl"], ["--vmctl", '/x" y']):
        assert refusal("ssh_keys", *words)


@pytest.mark.parametrize(
    ("theirs", "ours", "told"),
    [
        ("0.2.0", "0.2.0", ""),
        ("0.2.1", "0.2.0", "They work together."),
        ("0.1.0", "0.2.0", "one release apart"),
        ("0.3.0", "0.2.0", "one release apart"),
        ("0.1.0", "0.3.0", "too far apart"),
        ("1.0.0", "0.3.0", "too far apart"),
        ("", "0.3.0", "too far apart"),
    ],
)
def test_a_difference_of_releases_is_a_sentence(theirs: str, ours: str, told: str) -> None:
    said = release.difference(theirs, ours)
    assert told in said
    assert bool(said) == bool(told)


def test_add_host_names_a_difference_of_releases(
    db: None, there: Answering, capsys: pytest.CaptureFixture[str]
) -> None:
    there.report = {"vmctl": "0.9.0"}
    add()
    assert "vmctl there is of release 0.9.0, the portal of " in capsys.readouterr().out


def test_the_key_that_is_pinned_already_is_not_asked_about(there: Answering) -> None:
    address = SSHAddress.parse(WHERE)
    assert discovery.pinned(address, known=KEY).host_key == KEY
