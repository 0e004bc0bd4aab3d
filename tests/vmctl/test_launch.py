"""What is refused before anything is made, what the console shows, and on which NUMA node a machine runs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.vmctl.build import GPU_ADDRESS, card, machine, name_uuid, share, vgpu, wish
from tests.vmctl.test_domain import blueprint
from vmctl.card import GPU, Framework, ProvidedVGPU
from vmctl.errors import VmctlError
from vmctl.host import Host
from vmctl.hypervisor import Domain
from vmctl.machine import domain, launch, picture
from vmctl.machine.board import Pinning
from vmctl.model import Attachment, MediatedDevice, PCIFunction, StandInVideo
from vmctl.observation import MachineState
from vmctl.site import Site


@dataclass
class OldLibvirt:
    """Tells its version, and what it was asked to start."""

    number: tuple[int, int, int] = (9, 6, 0)
    refusal: str = ""
    started: list[str] = field(default_factory=list)

    def version(self) -> tuple[int, int, int]:
        return self.number

    def start(self, xml: str) -> None:
        self.started.append(xml)
        if self.refusal and "ramfb" in xml:
            raise VmctlError("failed", self.refusal, "", retry=True)


class StandIn(Host):
    """A host whose GPUs are played."""

    def attachment(self, device: MediatedDevice | PCIFunction) -> Attachment:
        return StandInVideo(device.uuid, "played")


def site(host: Host, tmp_path: Path) -> Site:
    return Site(host, "qemu:///system", tmp_path, tmp_path, tmp_path, "tessera", tmp_path / "token")


OTHER = "0000:af:00.0"
VENDOR = replace(card(), framework=Framework.VENDOR_VFIO)


def refuse(tmp_path: Path, libvirt: Any, gpu: GPU = VENDOR, host: Host | None = None, **seed: Any) -> None:
    wanted = wish("a", vgpus=[vgpu("a")], seed=machine()["seed"] | seed)
    other = replace(VENDOR, address=OTHER)
    launch.refuse_unfit(site(host or Host("here", state_dir=tmp_path), tmp_path), libvirt, wanted, (other, gpu))


def test_a_libvirt_that_cannot_take_the_vendors_function_refuses_in_words(tmp_path: Path) -> None:
    with pytest.raises(VmctlError, match=r"libvirt 9\.7\.0 takes it, 9\.6\.0 of this host does not"):
        refuse(tmp_path, OldLibvirt())
    refuse(tmp_path, OldLibvirt((9, 7, 0)))
    refuse(tmp_path, OldLibvirt(), gpu=card())
    refuse(tmp_path, OldLibvirt(), host=StandIn("here", state_dir=tmp_path))


def test_a_missing_licence_token_refuses_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(VmctlError, match="licence token"):
        refuse(tmp_path, OldLibvirt(), gpu=card(), licence=1)
    (tmp_path / "token").write_text("x")
    (tmp_path / "token").chmod(0o600)
    refuse(tmp_path, OldLibvirt(), gpu=card(), licence=1)


# The picture ---------------------------------------------------------------------------------------

MDEV, FUNCTION = MediatedDevice(name_uuid("vgpu a")), PCIFunction(name_uuid("vgpu a"), "0000:41:00.4")


@pytest.mark.parametrize(
    ("kind", "device", "libvirt", "shows"),
    [
        ("T4-4Q", MDEV, (9, 0, 0), True),
        ("T4-2B4", MDEV, (9, 0, 0), True),
        ("RTX PRO 6000 DC-1-24Q", FUNCTION, (10, 3, 0), True),
        ("L40S-8Q", FUNCTION, (10, 2, 0), False),
        ("T4-4C", MDEV, (11, 0, 0), False),
        ("A100-3-20C", MDEV, (11, 0, 0), False),
        ("i915-GVTg_V5_4", MDEV, (11, 0, 0), False),
        ("NVIDIA L40S", FUNCTION, (11, 0, 0), False),
        ("T4-4Q", StandInVideo(MDEV.uuid, "played"), (11, 0, 0), False),
    ],
)
def test_which_vgpu_shows_its_picture(kind: str, device: Attachment, libvirt: tuple[int, ...], shows: bool) -> None:
    assert picture.shown([share("a", type=kind)], [device], libvirt) == (device if shows else None)


def test_of_several_one_shows() -> None:
    both = (MDEV, MediatedDevice(name_uuid("vgpu b")))
    assert picture.shown([share("a"), share("b")], both, (9, 0, 0)) is both[0]


NO_PICTURE = "libvirt refused: vfio 0000:41:00.4: device doesn't support any (known) display method."


def test_a_vgpu_that_has_no_picture_after_all_leaves_the_boot_console(tmp_path: Path) -> None:
    plan = replace(blueprint((MDEV,)), shows=MDEV)
    libvirt: Any = OldLibvirt(refusal=NO_PICTURE)
    launch.boot(Host("here", state_dir=tmp_path), libvirt, plan)
    assert [domain.read_screen(xml) for xml in libvirt.started] == ["vgpu", "boot"]


def test_another_refusal_is_told_and_not_tried_again(tmp_path: Path) -> None:
    plan = replace(blueprint((MDEV,)), shows=MDEV)
    libvirt: Any = OldLibvirt(refusal="libvirt refused: cannot set up guest memory 'pc.ram': Cannot allocate memory.")
    with pytest.raises(VmctlError, match="guest memory"):
        launch.boot(Host("here", state_dir=tmp_path), libvirt, plan)
    assert len(libvirt.started) == 1


# The node ------------------------------------------------------------------------------------------


def two_nodes(tmp_path: Path) -> Host:
    """GPUs on two nodes of 4 processors and 8 GiB each."""
    for number, address in enumerate((GPU_ADDRESS, OTHER)):
        node = tmp_path / f"sys/devices/system/node/node{number}"
        node.mkdir(parents=True)
        (node / "cpulist").write_text(f"{4 * number}-{4 * number + 3}\n")
        (node / "meminfo").write_text(f"Node {number} MemTotal:        8388608 kB\n")
        device = tmp_path / "sys/bus/pci/devices" / address
        device.mkdir(parents=True)
        (device / "numa_node").write_text(f"{number}\n")
    return Host("here", root=tmp_path, state_dir=tmp_path / "state")


def pinned(host: Host, *provided: ProvidedVGPU, neighbours: tuple[Domain, ...] = (), **other: Any) -> Pinning | None:
    return launch.pinning(host, wish("a", **other), provided, neighbours)


def test_a_machine_runs_on_its_gpus_node(tmp_path: Path) -> None:
    host = two_nodes(tmp_path)
    assert pinned(host, share("a")) == Pinning(0, "0-3")
    assert pinned(host, share("a", gpu=OTHER), share("b", gpu=OTHER)) == Pinning(1, "4-7")


def test_no_node_where_there_is_no_one_node_or_too_little_on_it(tmp_path: Path) -> None:
    host = two_nodes(tmp_path)
    assert pinned(host) is None
    assert pinned(host, share("a"), share("b", gpu=OTHER)) is None
    assert pinned(host, share("a"), vcpus=5) is None
    assert pinned(host, share("a"), memory_mib=8193) is None
    (host.pci(GPU_ADDRESS) / "numa_node").write_text("-1\n")
    assert pinned(host, share("a")) is None
    (host.pci(GPU_ADDRESS) / "numa_node").unlink()
    assert pinned(host, share("a")) is None


def neighbour(state: MachineState = MachineState.RUNNING, *, mode: str = "strict", nodes: str = "0") -> Domain:
    """A domain, ours or not, with 3 GiB that it takes on these nodes."""
    tuned = f"<numatune><memory mode='{mode}' nodeset='{nodes}'/></numatune>"
    xml = f"<domain><name>x</name><memory unit='KiB'>{3 * 2**20}</memory>{tuned}</domain>"
    return Domain("x", name_uuid("x"), state, xml)


def test_a_node_is_not_promised_to_more_machines_than_it_holds(tmp_path: Path) -> None:
    """Three machines of 3 GiB, each kept on a node of 8 GiB, would fail the third start or end one of them later."""
    host, big = two_nodes(tmp_path), {"memory_mib": 3072}
    assert pinned(host, share("a"), neighbours=(neighbour(),), **big) == Pinning(0, "0-3")
    assert pinned(host, share("a"), neighbours=(neighbour(), neighbour()), **big) is None
    assert pinned(host, share("a"), neighbours=(neighbour(), neighbour(nodes="0-1")), **big) is None
    off = (neighbour(MachineState.OFF), neighbour(mode="preferred"), neighbour(nodes="0-1,^0"))
    assert pinned(host, share("a"), neighbours=(neighbour(), *off), **big) == Pinning(0, "0-3")
    strange = (neighbour(nodes="nonsense"), Domain("y", "", MachineState.UNKNOWN, ""))
    assert pinned(host, share("a"), neighbours=strange) == Pinning(0, "0-3")
