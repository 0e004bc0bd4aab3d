"""A host in a folder: collected by the script that administrators run, unpacked, and seen as the host itself is."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jsonschema
import pytest

from vmctl import gpus
from vmctl.answers import catalogue
from vmctl.card import GPU
from vmctl.checks import look
from vmctl.commands import Answer, Missing, TooSlow
from vmctl.copied import CopiedHost, copied, file_name, recorded
from vmctl.errors import VmctlError
from vmctl.host import Host
from vmctl.simulate import SimulatedHost, prepare
from vmctl.simulate.layouts import LAYOUTS

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts/collect_host"
COLLECTED = re.search(r"<<'COMMANDS'\n(.*?)\nCOMMANDS", SCRIPT.read_text(), re.DOTALL)
assert COLLECTED
LINES = COLLECTED[1].splitlines()
SECRET = "fourty-two"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory: the trees have thousands of files."""
    with TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as name:
        yield Path(name)


def simulated(folder: Path, layout: str) -> SimulatedHost:
    prepare(folder / "host", layout)
    return SimulatedHost("sim", root=folder / "host", state_dir=folder / "host/var/lib/tessera/state")


def collect(host: Host, folder: Path) -> Path:
    """Run the script for a host in a folder, with its driver's tool in the path; unpack what it packs."""
    (folder / "bin").mkdir()
    (folder / "said").mkdir()
    for line in LINES:
        if line.startswith("nvidia-smi"):
            say(host, line.split(), folder / "said")
    tool = folder / "bin/nvidia-smi"
    tool.write_text(
        f'#!/bin/sh\ncd {folder}/said || exit 1\n[ -f "./$*" ] || exit 127\ncat "./$*"\nexit $(cat "./$*.status")\n'
    )
    tool.chmod(0o755)
    environment = os.environ | {"ROOT": str(host.root), "PATH": f"{folder}/bin:{os.environ['PATH']}"}
    with (folder / "host.tar.gz").open("wb") as packed:
        subprocess.run(["sh", SCRIPT], stdout=packed, env=environment, check=True, timeout=120)
    (folder / "copy").mkdir()
    subprocess.run(["tar", "-xzf", folder / "host.tar.gz", "-C", folder / "copy"], check=True)
    return folder / "copy"


def say(host: Host, command: list[str], folder: Path) -> None:
    """Keep what a simulated machine's tool says for the stand-in; a machine without the tool has no stand-in either."""
    try:
        answer = host.run(command)
    except Missing:
        return
    (folder / " ".join(command[1:])).write_text(answer.output)
    (folder / f"{' '.join(command[1:])}.status").write_text(str(answer.status))


def vmctl(root: Path, *words: str, uri: str = "test:///default") -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-m", "vmctl", "--host", "sim", "--root", str(root), "--libvirt-uri", uri, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout)


def snapshot(root: Path) -> dict[str, str]:
    return {
        str(path): os.readlink(path) if path.is_symlink() else f"{path.lstat().st_mtime_ns} {path.lstat().st_size}"
        for path in root.rglob("*")
    }


@pytest.mark.parametrize("layout", ["t4", "a40", "l40s", "a100-mig", "flex"])
def test_a_copy_is_seen_as_the_host_itself(folder: Path, layout: str) -> None:
    host = simulated(folder, layout)
    there = copied("sim", collect(host, folder), Path("/var/lib/tessera/state"))
    assert [asdict(gpu) for gpu in gpus.inventory(there)] == [asdict(gpu) for gpu in gpus.inventory(host)]


def test_a_copy_tells_the_shares_of_its_host(folder: Path) -> None:
    host = simulated(folder, "t4")
    (gpu, *_) = gpus.inventory(host)
    wanted = share_of(gpu)
    gpus.provide(host, wanted)
    there = copied("sim", collect(host, folder), Path("/var/lib/tessera/state"))
    assert gpus.provided(there) == gpus.provided(host)
    assert [share.uuid for share in gpus.provided(there)] == [wanted.uuid]


def share_of(gpu: GPU) -> Any:
    from vmctl.model import WantedVGPU

    kind = gpu.types[0]
    return WantedVGPU("00000000-0000-4000-8000-00000000aaaa", gpu.address, kind.name, kind.regime, kind.cells[0], 0)


def test_every_verb_works_on_a_copy_and_changes_nothing(folder: Path) -> None:
    host = simulated(folder, "l40s")
    root = collect(host, folder)
    before = snapshot(root)
    status, told = vmctl(root, "gpus", "--json")
    assert (status, len(told["gpus"]), told["simulated"]) == (0, len(LAYOUTS["l40s"]), False)
    assert any("copy" in gap["reason"] for gap in told["unknown"])  # who claims what, libvirt was not asked
    status, told = vmctl(root, "types", "--json")
    assert status == 0
    assert "L40S-24Q" in {kind["name"] for kind in told["types"]}
    status, told = vmctl(root, "check", "--json", uri="qemu+unix:///system?socket=/nowhere")
    found = {finding["id"]: finding for finding in told["findings"]}
    assert status in (1, 3)
    assert found["iommu.enabled"]["status"] == "pass"
    for name in ("kvm.works", "libvirt.version", "disk", "clock"):
        assert found[name]["status"] == "unknown", name
    for words in (("observe", "--json"), ("plan", "--json", "--file", "/nowhere")):
        status, told = vmctl(root, *words)  # its machines and its size are not this machine's
        assert (status, told["error"]["code"]) == (3, "could_not_tell"), words
    assert "copy" in told["error"]["what"]
    assert snapshot(root) == before


@pytest.mark.parametrize("verb", ["apply", "expire"])
def test_a_copy_is_never_changed(folder: Path, verb: str) -> None:
    (folder / "copy").mkdir()
    status, told = vmctl(folder / "copy", verb, "--json")
    assert status == 3
    assert "is a copy of a host's files" in told["error"]["what"]
    assert list((folder / "copy").iterdir()) == []


def test_writes_into_a_copy_are_refused(folder: Path) -> None:
    host = copied("sim", folder, Path("/state"))
    with pytest.raises(VmctlError, match="nothing is changed there"):
        host.write(folder / "x", "1", reading=folder / "x")
    with pytest.raises(VmctlError, match="nothing is changed there"):
        host.driver_tool(["nvidia-smi", "-mig", "1"], limit=1, changes=True)
    assert list(folder.iterdir()) == []
    assert isinstance(host, CopiedHost)


def test_an_empty_folder_is_a_host_of_which_nothing_is_known(folder: Path) -> None:
    status, told = vmctl(folder, "check", "--json")
    assert status in (1, 3)
    found = {finding["id"]: finding["status"] for finding in told["findings"]}
    assert found["gpus.present"] == "unknown"
    for verb in ("gpus", "types", "observe"):
        status, told = vmctl(folder, verb, "--json")
        assert (status, told["error"]["code"]) == (3, "could_not_tell"), verb


def test_secrets_stay_on_the_host(folder: Path) -> None:
    host = simulated(folder, "t4")
    for name in (
        "etc/shadow", "etc/ssh/ssh_host_ed25519_key", "etc/libvirt/qemu.conf", "root/.ssh/id_rsa",
        "etc/tessera/client_configuration_token.tok", "var/lib/tessera/state/memory.json", "etc/libvirt/qemu/vm.xml",
        "proc/1/environ",
    ):  # fmt: skip
        path = host.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SECRET)
    root = collect(host, folder)
    kept = [path for path in root.rglob("*") if path.is_file() and SECRET in path.read_text(errors="replace")]
    assert kept == []


def test_what_cannot_be_read_is_left_out(folder: Path) -> None:
    host = simulated(folder, "t4")
    device = next(iter(LAYOUTS["t4"])).address
    (host.pci(device) / "numa_node").unlink()
    (host.pci(device) / "numa_node").mkdir()
    root = collect(host, folder)
    assert not (root / f"sys/bus/pci/devices/{device}/numa_node").exists()
    assert (root / f"sys/bus/pci/devices/{device}/vendor").read_text() == "0x10de\n"


def test_the_doctors_questions_and_the_drivers_are_collected() -> None:
    assert {*look.COMMANDS, look.SMI} <= set(LINES)
    asked = set(re.findall(r'"(-[Lq]|(?:vgpu|mig)(?: -\w+)+)"', (ROOT / "vmctl/gpus/driver/smi.py").read_text()))
    assert {f"nvidia-smi {words}" for words in asked} <= set(LINES)


def test_the_script_refuses_a_terminal_and_make_tells_how_to_run_it() -> None:
    told = subprocess.run(["make", "-s", "collect-host"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "sh -s" in told
    assert "scripts/collect_host" in told
    assert "--root" in told


def test_commands_are_answered_from_their_files(tmp_path: Path) -> None:
    name = file_name(["/usr/sbin/sshd", "-T", "50% of"])
    assert name == "%2Fusr%2Fsbin%2Fsshd -T 50%25%20of"
    command = ["/usr/sbin/sshd", "-T", "50% of"]
    with pytest.raises(VmctlError, match="was not collected"):
        recorded(tmp_path, command)
    (tmp_path / name).write_text("maxsessions 10\n")
    assert recorded(tmp_path, command) == Answer(0, "maxsessions 10\n", "")
    (tmp_path / f"{name}.errors").write_text("late\n")
    (tmp_path / f"{name}.status").write_text("5\n")
    assert recorded(tmp_path, command) == Answer(5, "maxsessions 10\n", "late\n")
    (tmp_path / f"{name}.status").write_text("127\n")
    with pytest.raises(Missing):
        recorded(tmp_path, command)
    (tmp_path / f"{name}.status").write_text("124\n")
    with pytest.raises(TooSlow):
        recorded(tmp_path, command)


@pytest.mark.parametrize("layout", ["t4", "a100-mig"])
def test_types_keep_the_schema(folder: Path, layout: str) -> None:
    host = simulated(folder, layout)
    schema = json.loads((ROOT / "docs/schemas/types.schema.json").read_text())
    cards = gpus.inventory(host)
    document = catalogue.types_json("sim", host.now(), True, cards)
    jsonschema.validate(document, schema)
    jsonschema.validate(json.loads((ROOT / "docs/schemas/types.example.json").read_text()), schema)
    offered = {(name["name"], each["address"]) for name in document["types"] for each in name["gpus"]}  # type: ignore[attr-defined]
    assert offered == {(kind.name, gpu.address) for gpu in cards for kind in gpu.types}
    assert offered


def test_a_card_whose_types_could_not_be_read_is_named(folder: Path) -> None:
    host = simulated(folder, "t4")
    address = next(iter(LAYOUTS["t4"])).address
    (host.pci(address) / "driver").unlink()
    (host.pci(address) / "driver").symlink_to("/sys/bus/pci/drivers/nouveau")
    document = catalogue.types_json("sim", host.now(), True, gpus.inventory(host))
    assert document["unknown"] or document["types"]
