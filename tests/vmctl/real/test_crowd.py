"""Many at once: starts side by side, thousands of folders, and one that is stuck among others."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from tests.vmctl.real.place import Answer, Place, libvirt_uri
from vmctl.hypervisor import connect

STARTS = 10
FOLDERS = 5000
LOOK_SECONDS = 10.0
"""A look must fit well into a tick and the portal's 30 s for it."""


@pytest.mark.field("C10")
def test_ten_starts_side_by_side_in_one_pool_all_work(place: Place) -> None:
    """Ten hosts share this libvirt and one folder of disks; each is told to start a machine at the same moment."""
    pool = place.folder / "pool"
    pool.mkdir(mode=0o755)
    hosts = [replace(place, host=f"sim-{number}") for number in range(STARTS)]
    for number, host in enumerate(hosts):
        host.know_kvm()
        (place.folder / host.host / "machines").symlink_to(pool)
        assert host.storage.resolve() == pool, number

    def start(number: int) -> Answer:
        host = hosts[number]
        return host.settle(host.machine(str(number)))

    with ThreadPoolExecutor(STARTS) as workers:
        answers = list(workers.map(start, range(STARTS)))
    assert [answer.errors for answer in answers] == [{}] * STARTS, [answer.document["steps"] for answer in answers]
    assert set(place.domains().values()) == {place.uuid(str(number)) for number in range(STARTS)}
    for number in range(STARTS):
        seed = (pool / place.uuid(str(number)) / "seed.iso").read_bytes()
        others = [str(place.machine(str(other))["reservation"]) for other in range(STARTS) if other != number]
        assert str(place.machine(str(number))["reservation"]).encode() in seed
        assert not [other for other in others if other.encode() in seed]


@pytest.mark.field("C15")
def test_five_thousand_folders_do_not_hold_a_look_up(place: Place) -> None:
    place.apply(place.machine("a"))
    for _ in range(FOLDERS):
        folder = place.storage / str(uuid4())
        folder.mkdir()
        (folder / "disk.qcow2").touch()
    seen = place.observe()
    assert (seen.status, len(seen.document["disks"])) == (0, FOLDERS + 1)
    assert seen.seconds < LOOK_SECONDS


@pytest.mark.field("C11")
def test_a_disk_removed_by_hand_is_told_and_purging_still_works(place: Place) -> None:
    wanted = place.machine("a")
    place.apply(wanted)
    place.apply(wanted | {"order": "stop", "force_at": wanted["start"]}, confirmed_stops=[place.uuid("a")])
    (place.storage / place.uuid("a") / "disk.qcow2").unlink()
    (seen,) = place.observe().document["disks"]
    assert (seen["machine"], seen["present"]) == (place.uuid("a"), False)
    for kinds in (["purge"], []):
        purged = place.apply(purge=[place.uuid("a")])
        assert (purged.status, purged.kinds, purged.document["disks"]) == (0, kinds, [])


@pytest.mark.field("C08")
def test_figures_of_a_stuck_machine_hold_nobody_elses_up(place: Place) -> None:
    place.settle(place.machine("stuck"), place.machine("fine"))
    os.kill(place.qemu("stuck"), signal.SIGSTOP)
    try:
        with connect(libvirt_uri()) as hypervisor:
            for limit in (8.0, 2.0):  # the first look finds it stuck, the next ones pass it by
                began = time.monotonic()
                found = {each.uuid: each for each in hypervisor.statistics(asked=[place.uuid("fine")])}
                assert time.monotonic() - began < limit
                fine, stuck = found[place.uuid("fine")], found[place.uuid("stuck")]
                assert None not in (fine.cpu_ns, fine.vcpus, fine.memory_mib, fine.read_bytes, fine.received_bytes)
                assert (stuck.read_bytes, fine.users) == (None, None)
    finally:
        os.kill(place.qemu("stuck"), signal.SIGCONT)
    assert Path(f"/proc/{place.qemu('fine')}").exists()
