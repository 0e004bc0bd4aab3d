"""Making shares and taking them away: idempotent, read back, nothing half made, nobody else's touched."""

from __future__ import annotations

import errno
import os
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.vmctl.gpus.trees import function, kind, plant
from vmctl import gpus
from vmctl.card import Framework, ProvidedVGPU, Regime
from vmctl.errors import Code, VmctlError
from vmctl.host import Host
from vmctl.ledger import Ledger
from vmctl.model import MediatedDevice, Place, StandInVideo, WantedVGPU
from vmctl.simulate import SimulatedHost

T4 = "0000:3b:00.0"
A40 = "0000:41:00.0"


def wanted(gpu: str, name: str, handle: int | None = 0) -> WantedVGPU:
    return WantedVGPU(str(uuid.uuid4()), gpu, name, Regime.EQUAL, (0, 1), handle)


def free(host: Host, gpu: str, name: str) -> int:
    card = next(each for each in gpus.inventory(host) if each.address == gpu)
    return len(next(each for each in card.types if each.name == name).free_cells)


@dataclass(frozen=True)
class RefusingHost(SimulatedHost):
    """A driver that refuses although its counter says there is room, with an error number of its choice."""

    number: int = errno.ENOSPC

    def _store(self, path: Path, value: str) -> None:
        if path.name == "create":
            raise OSError(self.number, os.strerror(self.number), str(path))
        super()._store(path, value)


@dataclass(frozen=True)
class StickyHost(SimulatedHost):
    """A driver that does not let go."""

    def _store(self, path: Path, value: str) -> None:
        if path.name == "remove":
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(path))
        super()._store(path, value)


@dataclass(frozen=True)
class LyingHost(SimulatedHost):
    """A driver that takes every write and does nothing."""

    def _store(self, path: Path, value: str) -> None:
        return None


def other(cls: type[SimulatedHost], host: SimulatedHost, **more: int) -> SimulatedHost:
    return cls(host.name, root=host.root, state_dir=host.state_dir, **more)  # type: ignore[arg-type]


def test_a_share_is_made_once_however_often_it_is_asked_for(t4: SimulatedHost) -> None:
    wish = wanted(T4, "T4-4Q")
    first = gpus.provide(t4, wish)
    assert gpus.provide(t4, wish) == first == gpus.provided(t4)[0]
    assert (first.uuid, first.gpu, first.type, first.size_group) == (wish.uuid, T4, "T4-4Q", "4G")
    assert len(gpus.provided(t4)) == 1
    assert (free(t4, T4, "T4-4Q"), free(t4, T4, "T4-4C"), free(t4, T4, "T4-8Q")) == (3, 3, 0)


def test_a_release_twice_is_as_good_as_once(t4: SimulatedHost) -> None:
    made = gpus.provide(t4, wanted(T4, "T4-4Q"))
    gpus.release(t4, made)
    gpus.release(t4, made)
    assert gpus.provided(t4) == []
    assert free(t4, T4, "T4-16Q") == 1


def test_the_handle_chooses_the_virtual_function(a40: SimulatedHost) -> None:
    made = gpus.provide(a40, wanted(A40, "A40-8Q", 10))
    assert (made.parent, made.handle, made.gpu) == ("0000:41:01.6", 10, A40)
    other = gpus.provide(a40, wanted(A40, "A40-8Q", 32))  # a function that is not there (any more)
    assert other.handle == 0


def test_another_series_of_the_same_size_is_welcome_beside_it(t4: SimulatedHost) -> None:
    for name in ("T4-4Q", "T4-4C", "T4-4A"):
        gpus.provide(t4, wanted(T4, name))
    assert sorted(share.type for share in gpus.provided(t4)) == ["T4-4A", "T4-4C", "T4-4Q"]


@pytest.mark.field("A09")
def test_another_size_is_refused_until_the_gpu_is_empty_again(t4: SimulatedHost) -> None:
    small = gpus.provide(t4, wanted(T4, "T4-1Q"))
    with pytest.raises(VmctlError, match="no room for T4-8Q") as refusal:
        gpus.provide(t4, wanted(T4, "T4-8Q"))
    assert (refusal.value.code, refusal.value.retry) == (Code.NO_CAPACITY, True)
    gpus.release(t4, small)
    assert gpus.provide(t4, wanted(T4, "T4-8Q")).type == "T4-8Q"


def test_a_function_takes_one_share_and_another_one_serves_as_well(a40: SimulatedHost) -> None:
    """Handles are interchangeable: a machine must start although somebody took its function meanwhile."""
    wish = wanted(A40, "A40-8Q", 0)
    made = [gpus.provide(a40, wish), gpus.provide(a40, wanted(A40, "A40-8Q", 0))]
    assert [share.handle for share in made] == [0, 1]
    assert gpus.provide(a40, wish) == made[0]
    assert free(a40, A40, "A40-8Q") == 4


@pytest.mark.field("A07")
def test_a_type_that_vanished_is_refused_and_never_another_size(t4: SimulatedHost) -> None:
    with pytest.raises(VmctlError, match=r"does not offer T4-3Q on 0000:3b:00\.0; it offers T4-1B") as refusal:
        gpus.provide(t4, wanted(T4, "T4-3Q"))
    assert not refusal.value.retry
    assert gpus.provided(t4) == []


@pytest.mark.field("A08")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EUSERS, errno.EINVAL, errno.EIO])
def test_a_refusal_against_the_counter_leaves_nothing_half_made(t4: SimulatedHost, number: int) -> None:
    host = other(RefusingHost, t4, number=number)
    with pytest.raises(VmctlError) as refusal:
        gpus.provide(host, wanted(T4, "T4-4Q"))
    assert (refusal.value.code, refusal.value.retry) == (Code.NO_CAPACITY, True)
    assert os.strerror(number) in refusal.value.what
    assert gpus.provided(host) == []
    assert list(Ledger(host.state_dir)) == []
    assert gpus.provide(t4, wanted(T4, "T4-4Q"))


@pytest.mark.field("A08")
def test_after_a_refusal_the_next_place_is_tried(t4: SimulatedHost) -> None:
    gpus.provide(t4, wanted(T4, "T4-16Q"))
    wish = replace(wanted(T4, "T4-4Q"), alternatives=(Place("0000:af:00.0", (0, 1), 0),))
    made = gpus.provide(t4, wish)
    assert made.gpu == "0000:af:00.0"
    journal = (t4.state_dir / "journal.jsonl").read_text()
    assert gpus.provide(t4, wish) == made
    assert (t4.state_dir / "journal.jsonl").read_text() == journal  # it stays where it is
    gpus.provide(t4, wanted("0000:af:00.0", "T4-4Q"))
    full = replace(wanted(T4, "T4-8Q"), alternatives=(Place("0000:af:00.0", (0, 1), 0),))
    with pytest.raises(VmctlError, match=rf"no room for T4-8Q on GPU {T4}"):
        gpus.provide(t4, full)


@pytest.mark.field("A20")
def test_a_write_that_made_nothing_is_a_failure(t4: SimulatedHost) -> None:
    with pytest.raises(VmctlError, match="made nothing"):
        gpus.provide(other(LyingHost, t4), wanted(T4, "T4-4Q"))


@pytest.mark.field("A21")
@pytest.mark.parametrize(("gpu", "name"), [(T4, "T4-8Q"), ("0000:af:00.0", "T4-4Q")])
def test_a_left_over_of_the_same_uuid_is_replaced_and_not_used(t4: SimulatedHost, gpu: str, name: str) -> None:
    wish = wanted(T4, "T4-4Q")
    gpus.provide(t4, replace(wish, gpu=gpu, type=name))
    made = gpus.provide(t4, wish)
    assert [(share.gpu, share.type) for share in gpus.provided(t4)] == [(T4, "T4-4Q")]
    assert made == gpus.provided(t4)[0]


@pytest.mark.field("A21")
def test_a_left_over_in_use_is_neither_used_nor_removed(t4: SimulatedHost) -> None:
    wish = wanted(T4, "T4-4Q")
    gpus.provide(t4, replace(wish, type="T4-8Q"))
    open_group(t4, wish.uuid)
    with pytest.raises(VmctlError, match="in use by process 4711"):
        gpus.provide(t4, wish)
    assert [share.type for share in gpus.provided(t4)] == ["T4-8Q"]


def open_group(host: Host, share: str | None) -> None:
    """A QEMU with process id 4711 that has the share's VFIO group open."""
    group = host.link(host.path(f"/sys/bus/mdev/devices/{share}/iommu_group"))
    handle = host.path("/proc/4711/fd/23")
    handle.parent.mkdir(parents=True)
    handle.symlink_to(f"/dev/vfio/{group}")


def test_a_share_in_use_is_not_released_because_the_kernel_would_sleep(t4: SimulatedHost) -> None:
    made = gpus.provide(t4, wanted(T4, "T4-4Q"))
    open_group(t4, made.uuid)
    with pytest.raises(VmctlError, match="in use by process 4711") as refusal:
        gpus.release(t4, made)
    assert refusal.value.retry
    assert gpus.provided(t4) == [made]


def test_a_share_that_is_open_by_iommufd_is_in_use_too(t4: SimulatedHost) -> None:
    made = gpus.provide(t4, wanted(T4, "T4-4Q"))
    plant(t4.root, f"/sys/bus/mdev/devices/{made.uuid}/vfio-dev/vfio3/ = <dir>")
    plant(t4.root, "/proc/4711/fd/9 -> /elsewhere")
    t4.path("/proc/4711/fd/23").symlink_to("/dev/vfio/devices/vfio3")
    with pytest.raises(VmctlError, match="in use by process 4711"):
        gpus.release(t4, made)


@pytest.mark.field("A13")
def test_a_failed_release_keeps_the_handle_and_a_later_one_frees_it(t4: SimulatedHost) -> None:
    made = gpus.provide(t4, wanted(T4, "T4-4Q"))
    for host in (other(StickyHost, t4), other(LyingHost, t4)):
        with pytest.raises(VmctlError) as refusal:
            gpus.release(host, made)
        assert refusal.value.retry
        assert gpus.provided(host) == [made]
    gpus.release(t4, made)
    assert free(t4, T4, "T4-4Q") == 4


@pytest.mark.field("A14")
def test_a_late_release_leaves_the_next_owner_of_the_function_alone(a40: SimulatedHost) -> None:
    first = gpus.provide(a40, wanted(A40, "A40-8Q", 0))
    gpus.release(a40, first)
    second = gpus.provide(a40, wanted(A40, "A40-8Q", 0))
    gpus.release(a40, first)
    assert gpus.provided(a40) == [second]


@pytest.mark.field("A14")
def test_a_release_of_something_else_under_the_same_uuid_is_refused(t4: SimulatedHost) -> None:
    made = gpus.provide(t4, wanted(T4, "T4-4Q"))
    with pytest.raises(VmctlError) as refusal:
        gpus.release(t4, replace(made, type="T4-8Q"))
    assert (refusal.value.code, refusal.value.retry) == (Code.NOT_OURS, False)
    assert gpus.provided(t4) == [made]


@pytest.mark.field("A05")
@pytest.mark.field("A10")
def test_a_card_that_is_not_ready_yet_says_so_and_is_worth_another_try(bare: Host) -> None:
    plant(bare.root, function(A40, device="0x2235"))
    plant(bare.root, f"/sys/bus/pci/devices/{A40}/sriov_totalvfs = 32\n/sys/bus/pci/devices/{A40}/sriov_numvfs = 0")
    with pytest.raises(VmctlError, match="virtual functions are off") as refusal:
        gpus.provide(bare, wanted(A40, "A40-8Q"))
    assert refusal.value.retry
    plant(bare.root, function(T4) + kind(T4, "pci-232", available="0"))
    with pytest.raises(VmctlError, match="not ready") as refusal:
        gpus.provide(bare, wanted(T4, "T4-4Q"))
    assert refusal.value.retry


def test_a_gpu_that_is_not_there_is_a_sentence(t4: SimulatedHost) -> None:
    with pytest.raises(VmctlError, match=r"no GPU 0000:99:00\.0 on t4"):
        gpus.provide(t4, wanted("0000:99:00.0", "T4-4Q"))


def test_machines_get_the_device_or_what_stands_in_for_it(t4: SimulatedHost, bare: Host) -> None:
    made = gpus.provide(t4, wanted(T4, "T4-4Q"))
    device = gpus.device(made)
    assert device == bare.attachment(device) == MediatedDevice(str(made.uuid))
    assert isinstance(t4.attachment(device), StandInVideo)


def test_provided_and_inventory_say_the_same(a40: SimulatedHost) -> None:
    made: list[ProvidedVGPU] = [gpus.provide(a40, wanted(A40, "A40-8Q", n)) for n in (3, 1)]
    assert {share.uuid for share in gpus.inventory(a40)[0].holders} == {share.uuid for share in made}
    assert set(gpus.provided(a40)) == set(made)


def test_a_share_on_a_card_that_changed_its_interface_is_a_sentence(t4: SimulatedHost) -> None:
    """It must stop its own machine only, never the whole run."""
    lost = replace(gpus.provide(t4, wanted("0000:3b:00.0", "T4-4Q")), framework=Framework.NONE)
    with pytest.raises(VmctlError, match="whose interface"):
        gpus.device(lost)


def test_functions_that_foreign_machines_name_are_left_to_them(a40: SimulatedHost) -> None:
    first, second = (a40.link(a40.pci(A40) / f"virtfn{number}") for number in (0, 1))
    made = gpus.provide(a40, wanted(A40, "A40-8Q"), "machine", frozenset({str(first)}))
    assert (made.parent, made.handle) == (second, 1)
