"""What goes wrong while machines run, one in each way of sharing: in the end they run, or run again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.desired import ALL, CUT, ON_FUNCTION, VENDOR, WHOLE, Caller, clean, machine
from tests.lab.machine import Lab

pytestmark = pytest.mark.timeout(1200)
KILLS = 6
"""Within ten seconds; systemd starts a daemon no more then."""
FOLDER = "/var/lib/tessera"
FILLER = f"{FOLDER}/filler"
FILL = f"""n=0
for size in 1G 256M 64M 16M 4M 1M 256K 64K 16K 4K; do
    while fallocate -l $size {FILLER}.$n 2>/dev/null; do n=$((n + 1)); done
    rm -f {FILLER}.$n
done"""
"""To the last block, those that are kept for root among them."""
LITTER = "/var/lib/libvirt/qemu/domain-*"
"""What libvirt itself leaves of transient domains that a reset ended; nobody uses it again."""
QEMU = "^/usr/bin/qemu-system"


@pytest.fixture(scope="module")
def machines(lab_host: Lab) -> Iterator[Caller]:
    """A caller for whom a machine runs in each way of sharing; nothing is left of them in the end."""
    with clean(lab_host) as caller:
        caller.fault(slow_create_ms=2000)
        caller.until_running(*(machine(way) for way in ALL))
        caller.heal()
        yield caller


@pytest.fixture
def running(machines: Caller) -> Iterator[Caller]:
    """The same, all running before and after the test."""
    wishes = machines.wishes
    yield machines
    machines.heal()
    machines.until_running(*wishes)


def qemus(caller: Caller) -> set[str]:
    """The numbers of QEMU's processes."""
    return set(caller.lab.shell(f"pgrep -f {QEMU} || true").split())


def test_cards_that_are_lost(running: Caller) -> None:
    """Their machines go on as far as they can; nobody else gets a share, and each who asks is told why."""
    before, more = qemus(running), {way: machine(way, 1) for way in CUT}
    with running.lost(*(way.gpu for way in CUT)):
        told = {wish["machine"]: ["fallen off the bus", way.gpu, "Reboot the host"] for way, wish in more.items()}
        running.until_told(told, running.want(*running.wishes, *more.values()))
        found = running.findings()
        assert {found.status("card.on_bus", way.gpu) for way in CUT} == {"fail"}
        assert found.status("card.on_bus", WHOLE.gpu) == "pass"
    assert qemus(running) == before


def test_a_libvirtd_that_is_killed(running: Caller) -> None:
    before = qemus(running)
    running.lab.kill_libvirtd()
    running.until_back()
    assert qemus(running) == before


def test_a_libvirtd_that_is_killed_until_systemd_gives_up(running: Caller) -> None:
    """Its socket is gone, too. Who asks is told what brings it back, and that does; the machines ran on."""
    before = qemus(running)
    running.lab.shell(
        f"""for n in $(seq {3 * KILLS}); do
            systemctl start libvirtd || true
            pkill -KILL -x libvirtd || true
            systemctl -q is-failed libvirtd && exit
        done
        exit 1""",
        limit=60,
    )
    (error,) = running.again().errors
    assert (error["code"], error["retry"]) == ("unreachable", True), error
    found = running.findings()
    assert found.status("libvirt.version") == "fail", found.words("libvirt.version")
    told = found.words("libvirt.daemons")
    assert told.startswith("fail"), told
    running.lab.shell(told.partition("Run: ")[2])
    running.until_back()
    assert qemus(running) == before


def test_qemus_that_are_killed(running: Caller) -> None:
    """Their machines are started again, with the very shares that they had."""
    shares, before = running.again().shares, qemus(running)
    assert len(before) == len(ALL)
    running.lab.shell(f"pkill -KILL -f {QEMU}")
    assert running.until_back().shares == shares
    assert not before & qemus(running)


def test_a_full_disk(running: Caller) -> None:
    """No machine starts; the reason and what to do are told; whoever runs can still be ended."""
    first, *others = running.wishes
    running.lab.shell(FILL)
    try:
        more = machine(CUT[0], 1)
        answer = running.want(first | {"order": "stop", "force_at": first["start"]}, *others, more)
        answer = running.until("it has ended", lambda answer: first["machine"] not in answer.running, answer)
        assert "No space left on device" in answer.words, answer.words
        assert more["machine"] not in answer.running
        assert {wish["machine"] for wish in others} <= answer.running
        told = running.findings().words("disk")
        assert told.startswith("fail"), told
    finally:
        running.lab.shell(f"rm -f {FILLER}.*")


def test_a_host_that_is_reset(running: Caller) -> None:
    """Nothing of any share is left by it: functions are off, devices gone. The wish is the same, so all returns."""
    shares = running.again().shares
    running.lab.power_cycle()
    running.lab.shell(f"until virsh -q list; do sleep 1; done; rm -r {LITTER}", limit=120)
    seen = running.call("observe")
    assert (seen["machines"], seen["vgpus"]) == ([], []), seen
    assert running.lab.shell("ls /sys/bus/mdev/devices") == ""
    found = running.findings()
    assert {found.status("sriov.enabled", way.gpu) for way in (ON_FUNCTION, VENDOR)} == {"warn"}
    assert running.until_back().shares == shares
