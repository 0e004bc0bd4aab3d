"""What a machine with a real GPU says of itself: NVML, nvidia-smi, sysfs, and what vmctl makes of it.

Prints one JSON document that can become a fixture: UUIDs, serial numbers, host name and addresses are taken out.
Nothing here fails: what is missing, refuses or hangs is said in its place. Only reads.
"""

from __future__ import annotations

import ctypes
import json
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from vmctl import gpus
from vmctl.errors import VmctlError
from vmctl.host import Host
from vmctl.redact import Redactor

SMI = (
    "-L",
    "-q",
    "vgpu",
    "vgpu -q",
    "vgpu -s -v",
    "vgpu -c -v",
    "mig -lgip",
    "mig -lgipp",
    "mig -lgi",
    "mig -lci",
    "topo -m",
)
SMI_LIMIT = 20.0  # seconds; it can hang on a lost GPU
VMCTL_LIMIT = 90.0

SYSTEM_FILES = (
    "/proc/cmdline",
    "/proc/driver/nvidia/version",
    "/sys/module/nvidia/version",
    "/sys/module/nvidia/parameters/NVreg_RegistryDwords",
)
FUNCTION_FILES = (
    "vendor",
    "device",
    "class",
    "subsystem_vendor",
    "subsystem_device",
    "revision",
    "numa_node",
    "power_state",
    "reset_method",
    "driver_override",
    "sriov_totalvfs",
    "sriov_numvfs",
    "sriov_drivers_autoprobe",
    "nvidia/creatable_vgpu_types",
    "nvidia/current_vgpu_type",
    "nvidia/gpu_instance_id",
    "nvidia/placement_id",
    "nvidia/vgpu_params",
)
TYPE_FILES = ("name", "description", "available_instances", "device_api")
FUNCTION_LINKS = ("driver", "iommu_group", "physfn")

DEVICE_QUESTIONS = (
    "nvmlDeviceGetName",
    "nvmlDeviceGetBrand",
    "nvmlDeviceGetArchitecture",
    "nvmlDeviceGetPciInfo",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetVirtualizationMode",
    "nvmlDeviceGetHostVgpuMode",
    "nvmlDeviceGetVgpuHeterogeneousMode",
    "nvmlDeviceGetVgpuSchedulerState",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetSupportedVgpus",
    "nvmlDeviceGetCreatableVgpus",
    "nvmlDeviceGetActiveVgpus",
    "nvmlDeviceGetEccMode",
    "nvmlDeviceGetPersistenceMode",
)

Json = dict[str, Any]


def main() -> None:
    host = Host("here")
    document = {
        "schema": 1,
        "taken_at": host.now().isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "nvml": nvml(),
        "nvidia_smi": {
            f"nvidia-smi {words}": command(host, ["nvidia-smi", *words.split()], SMI_LIMIT) for words in SMI
        },
        "sysfs": sysfs(host),
        "inventory": [asdict(gpu) for gpu in gpus.inventory(host)],
        "vmctl": {verb: vmctl(host, verb) for verb in ("gpus", "check")},
    }
    print(json.dumps(Redactor().clean(document), indent=2, default=str))


def command(host: Host, words: list[str], limit: float) -> Json:
    """A command's exit status and output, or why there is none."""
    try:
        answer = host.run(words, limit=limit)
    except VmctlError as error:
        return {"error": error.what}
    return {"status": answer.status, "output": answer.output, "errors": answer.errors}


def vmctl(host: Host, verb: str) -> Json:
    """One of vmctl's own documents; where vmctl cannot run here (no libvirt-python), why."""
    with tempfile.TemporaryDirectory() as state:
        said = command(
            host,
            [sys.executable, "-m", "vmctl", "--host", host.name, "--state-dir", state, verb, "--json"],
            VMCTL_LIMIT,
        )
    try:
        return {"status": said["status"], "document": json.loads(said["output"])}
    except (KeyError, ValueError):
        return said


def nvml() -> Json:
    """Every question to every device; an answer that does not come is the error's own name."""
    try:
        import pynvml
    except ImportError as error:
        return {"error": f"{error}. Install nvidia-ml-py."}
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return {"error": f"nvmlInit: {error}"}

    def ask(name: str, *arguments: Any) -> Any:
        question: Callable[..., Any] | None = getattr(pynvml, name, None)
        if question is None:
            return {"error": "not in this binding"}
        try:
            return plain(question(*arguments))
        except pynvml.NVMLError as error:
            return {"error": str(error)}

    try:
        count = ask("nvmlDeviceGetCount")
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)] if isinstance(count, int) else []
        return {
            "driver": ask("nvmlSystemGetDriverVersion"),
            "nvml": ask("nvmlSystemGetNVMLVersion"),
            "devices": [{name: ask(name, handle) for name in DEVICE_QUESTIONS} for handle in handles],
        }
    finally:
        pynvml.nvmlShutdown()


def plain(value: Any) -> Any:
    """NVML's structures as JSON."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, (list, tuple, ctypes.Array)):
        return [plain(each) for each in value]
    if isinstance(value, (ctypes.Structure, ctypes.Union)):
        return {field[0]: plain(getattr(value, field[0])) for field in value._fields_}
    return value


def sysfs(host: Host) -> Json:
    """The files vmctl reads, as they are: path to text, `-> target`, or the error."""
    found = {name: text(host.path(name)) for name in SYSTEM_FILES}
    found |= {str(path): text(path) for path in sorted(host.path("/proc/driver/nvidia/gpus").glob("*/information"))}
    found["/sys/kernel/iommu_groups"] = f"{len(host.names(host.path('/sys/kernel/iommu_groups')))} groups"
    found["/sys/class/mdev_bus"] = " ".join(host.names(host.path("/sys/class/mdev_bus"))) or "absent or empty"
    for path in functions(host):
        found |= {str(file): text(file) for name in FUNCTION_FILES if (file := path / name).exists()}
        found |= {str(link): f"-> {host.link(link)}" for name in FUNCTION_LINKS if (link := path / name).is_symlink()}
        for kind in sorted(path.glob("mdev_supported_types/*")):
            found |= {f"{kind}/{name}": text(kind / name) for name in TYPE_FILES}
        if (path / "vfio-dev").is_dir():
            found[f"{path}/vfio-dev"] = " ".join(host.names(path / "vfio-dev"))
    return found


def functions(host: Host) -> Iterator[Path]:
    """NVIDIA's functions of every kind: GPUs, their VFs, audio and the rest of the card."""
    devices = host.path("/sys/bus/pci/devices")
    for name in host.names(devices):
        if host.read_or_none(devices / name / "vendor") == "0x10de":
            yield devices / name


def text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").rstrip("\n")
    except OSError as error:
        return f"<{error.strerror}>"


if __name__ == "__main__":
    main()
