"""Hosts over SSH: what is taken for an address, whose key is pinned, and how they come, change and go."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction

from portal import gateway
from portal.audit.models import Entry
from portal.bookings import actions as bookings
from portal.bookings.states import Status
from portal.enforcement import actions as enforcement
from portal.errors import Refused, WrongInput
from portal.gateway import GatewayError
from portal.host_address import HostAddress, SSHAddress, fingerprint
from portal.inventory import actions, discovery, release
from portal.inventory.models import GPU, Host, HostKind
from portal.machines import actions as machines
from portal.machines.models import MachineState
from tests import make
from tests.make import NOW, World, at


def host_key(letter: str) -> str:
    """A well-formed host key."""
    blob = b"".join(len(part).to_bytes(4, "big") + part for part in (b"ssh-ed25519", letter.encode() * 32))
    return f"ssh-ed25519 {base64.b64encode(blob).decode()}"


KEY, OTHER = host_key("a"), host_key("b")
PRINT, OTHER_PRINT = fingerprint(KEY), fingerprint(OTHER)
WHERE = "root@gpu1.example.org"


@dataclass
class Answering:
    """What answers over SSH; addresses in the order in which they were asked."""

    key: str = KEY
    report: dict[str, Any] = field(default_factory=dict)
    error: GatewayError | None = None
    asked: list[HostAddress] = field(default_factory=list)

    def host_key_of(self, address: SSHAddress) -> str:
        return self.key

    def observe(self, address: HostAddress) -> dict[str, Any]:
        self.asked.append(address)
        if self.error:
            raise self.error
        return {"host": address.name, "portal": None, "vmctl": "0.1.0", "gpus": [make.gpu_facts()]} | self.report


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> Answering:
    answering = Answering()
    monkeypatch.setattr(gateway, "host_key_of", answering.host_key_of)
    monkeypatch.setattr(gateway, "observe", answering.observe)
    return answering


def add(*words: str) -> Host:
    call_command("add_host", "gpu1", "--ssh", WHERE, "--fingerprint", PRINT, *words)
    return Host.objects.get(name="gpu1")


def refusal(*words: str) -> str:
    with pytest.raises(CommandError) as refused:
        call_command(*words)
    return str(refused.value)


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
    with pytest.raises(WrongInput):
        actions.save_host(changed(Host.objects.get(name="gpu1"), fields), by=None, now=NOW)


def changed(host: Host, fields: dict[str, Any]) -> Host:
    for name, value in fields.items():
        setattr(host, name, value)
    return host


@pytest.mark.parametrize("fields", [{"host_key": ""}, {"ssh_port": None}, {"kind": "local"}, {"ssh_user": ""}])
def test_the_database_keeps_address_and_kind_together(db: None, there: Answering, fields: dict[str, Any]) -> None:
    host = add()
    with pytest.raises(IntegrityError), transaction.atomic():
        Host.objects.filter(pk=host.pk).update(**fields)


def test_the_admin_keeps_the_key_only_where_the_address_stays(db: None, there: Answering, client: Any) -> None:
    host = add()
    client.force_login(make.user("olga", operator=True))
    page = f"/admin/inventory/host/{host.pk}/change/"
    assert PRINT in client.get(page).content.decode()
    form = {"ssh_user": "root", "ssh_host": "gpu1.example.org", "ssh_port": 22, "host_key": "", "enabled": ""}
    assert client.post(page, form).status_code == 302
    host.refresh_from_db()
    assert (host.enabled, host.host_key) == (False, KEY)
    moved = form | {"ssh_host": "gpu9.example.org"}
    assert b"Give the host key of this address" in client.post(page, moved).content
    assert client.post(page, moved | {"host_key": f"gpu9.example.org {OTHER}\n"}).status_code == 302
    host.refresh_from_db()
    assert (host.ssh_host, host.host_key) == ("gpu9.example.org", OTHER)
    assert client.post(page, form | {"host_key": "ssh-ed25519 AAAA"}).status_code == 200
    assert client.post(f"/admin/inventory/host/{host.pk}/delete/", {"post": "yes"}).status_code == 403


def test_another_address_of_the_same_machine_needs_no_question(db: None, there: Answering) -> None:
    add()
    call_command("change_host", "gpu1", "--ssh", "root@gpu1b.example.org:2222")
    assert str(Host.objects.get().address.ssh) == "root@gpu1b.example.org:2222"


def test_a_new_host_key_is_confirmed_by_its_fingerprint_alone(db: None, there: Answering) -> None:
    add()
    there.key = OTHER
    assert f"manage.py change_host gpu1 --ssh {WHERE} --fingerprint {OTHER_PRINT}" in refusal(
        "change_host", "gpu1", "--ssh", WHERE
    )
    call_command("change_host", "gpu1", "--fingerprint", OTHER_PRINT)
    assert Host.objects.get().host_key == OTHER


def test_changes_that_cannot_be_are_refused(world: World, there: Answering) -> None:
    assert "Nothing to change" in refusal("change_host", "sim-t4")
    assert "remove it and add it again" in refusal("change_host", "sim-t4", "--ssh", WHERE)
    assert refusal("change_host", "gpu1", "--enable") == "There is no host gpu1."
    host = add()
    there.error = GatewayError("unreachable", "No route.", "Look.", True)
    assert "gpu1 is not changed: No route. Look." in refusal("change_host", "gpu1", "--ssh", "root@gpu2.example.org")
    assert Host.objects.get(pk=host.pk).address == host.address
    call_command("change_host", "gpu1", "--disable")
    assert not Host.objects.get(pk=host.pk).enabled


def test_a_machine_that_never_worked_for_us_does_not_take_a_busy_hosts_place(db: None, there: Answering) -> None:
    """Its empty lists would be read as the end of all that runs on the real one."""
    host = add()
    people = make.cast()
    machines.make(
        owner=people.ada,
        project=people.project,
        flavor=make.flavor(),
        image=make.image(),
        disposable=False,
        host_id=host.pk,
        by=people.ada,
        now=NOW,
    )
    assert "never worked for this portal" in refusal("change_host", "gpu1", "--ssh", "root@gpu2.example.org")
    there.report = {"portal": settings.PORTAL_ID}
    call_command("change_host", "gpu1", "--ssh", "root@gpu2.example.org")


def test_a_host_is_removed_only_when_nothing_of_ours_is_left(world: World) -> None:
    reservation = world.book(1, 3)
    told = refusal("remove_host", "sim-t4")
    assert f"- booking of {reservation.machine.hostname} by ada, booked, from 2027-03-01 10:00 UTC" in told
    assert f"- machine {reservation.machine.hostname} of ada" in told
    bookings.move(reservation, Status.BOOKED, Status.CANCELLED, now=NOW)
    machines.observed(reservation.machine_id, state=MachineState.OFF, disk_mib=10, now=NOW)
    machines.delete(reservation.machine, by=None, now=NOW)
    assert "disk of the deleted machine" in refusal("remove_host", "sim-t4")
    call_command("remove_host", "sim-t4", "--lost")
    host = Host.objects.get()
    assert (host.enabled, host.removed is not None) == (False, True)
    assert refusal("remove_host", "sim-t4") == "There is no host sim-t4."


def test_a_removed_host_comes_back_as_itself(world: World, there: Answering) -> None:
    before = world.host.gpus.get()
    enforcement.remove_host(world.host, by=world.people.olga, now=NOW)
    with pytest.raises(Refused):
        world.book(1, 3)
    call_command("add_host", "sim-t4", "--ssh", WHERE, "--fingerprint", PRINT)
    host = Host.objects.get()
    assert (host.pk, host.kind, host.removed, host.layout) == (world.host.pk, HostKind.SSH, None, "")
    assert (host.gpus.get().pk, host.pools.count(), host.storage_pools.count()) == (before.pk, 1, 1)
    verbs = Entry.objects.filter(subject=f"host:{host.pk}").order_by("pk").values_list("verb", flat=True)
    assert list(verbs) == ["added", "removed", "added"]


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


def test_a_look_at_once_is_for_operators(world: World) -> None:
    with pytest.raises(Refused):
        enforcement.ask_look(world.host, by=world.people.ada, now=at(1))


def test_the_key_that_is_pinned_already_is_not_asked_about(there: Answering) -> None:
    address = SSHAddress.parse(WHERE)
    assert discovery.pinned(address, known=KEY).host_key == KEY
