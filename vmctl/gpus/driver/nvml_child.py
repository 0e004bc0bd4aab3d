"""Asks NVML and prints one JSON document. Stand-alone: Host.nvml runs it in a process of its own.

NVML may hang on a card that fell off the bus, and some calls of its Python binding let the library write past their
buffer (dossier 5.2). Both then end this process, and no other. Each answer is {"said": ...} or {"error": NVML's number,
"text": ...}. Exit status 3: there is no library, or no driver behind it; standard error says which.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
NO_LIBRARY = 3
FRAME_BUFFER_USED = "nvmlVgpuInstanceGetFbUsage"
PROFILES = 64
"""How many MIG profiles NVML may number; asking for one that it does not know is answered with an error."""

Json = dict[str, Any]


def main(question: str) -> int:
    """Print what NVML says of all GPUs; `question`: "facts" (modes, types, instances) or "usage" (how busy)."""
    try:
        library = ctypes.CDLL(LIBRARY)
        import pynvml
    except (OSError, ImportError) as error:
        return _without(error)
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return _without(error)
    try:
        print(json.dumps(Questions(pynvml, library).all(question)))
    finally:
        pynvml.nvmlShutdown()
    return 0


def _without(error: Exception) -> int:
    print(f"NVML cannot be used: {error}", file=sys.stderr)
    return NO_LIBRARY


class Questions:
    """NVML's questions in our words."""

    def __init__(self, nvml: Any, library: Any) -> None:
        self.nvml = nvml
        self.library = library

    def ask(self, call: Callable[[], Any]) -> Json:
        """The answer, or NVML's own error; text that is no UTF-8 and structures of another release are errors, too."""
        try:
            return {"said": call()}
        except self.nvml.NVMLError as error:
            return {"error": int(error.value), "text": str(error)}
        except (self.nvml.NVMLLibraryMismatchError, UnicodeDecodeError, ctypes.ArgumentError) as error:
            return {"error": -1, "text": str(error)}

    def all(self, question: str) -> Json:
        nvml = self.nvml
        of_card = self.usage if question == "usage" else self.facts
        cards = []
        for index in range(nvml.nvmlDeviceGetCount()):
            handle = self.ask(partial(nvml.nvmlDeviceGetHandleByIndex, index))
            if "said" in handle:  # one that is lost has no handle; it is missing in the list then
                cards.append(self.card(handle["said"]) | of_card(handle["said"]))
        return {"driver": self.ask(nvml.nvmlSystemGetDriverVersion), "gpus": cards}

    def card(self, handle: Any) -> Json:
        nvml = self.nvml
        return {
            "address": self.ask(lambda: text(nvml.nvmlDeviceGetPciInfo(handle).busId)),
            "virtualization": self.ask(lambda: nvml.nvmlDeviceGetVirtualizationMode(handle)),
            "active": self.ask(lambda: [self.active(each) for each in nvml.nvmlDeviceGetActiveVgpus(handle)]),
        }

    def active(self, vgpu: int) -> Json:
        """A vGPU whose machine runs."""
        nvml = self.nvml
        return {
            "number": vgpu,
            "vm": self.ask(lambda: identity(nvml.nvmlVgpuInstanceGetVmID(vgpu))),
            "mdev": self.ask(lambda: text(nvml.nvmlVgpuInstanceGetMdevUUID(vgpu))),
            "type": self.ask(lambda: text(nvml.nvmlVgpuTypeGetName(nvml.nvmlVgpuInstanceGetType(vgpu)))),
            "memory": self.ask(lambda: nvml.nvmlVgpuTypeGetFramebufferSize(nvml.nvmlVgpuInstanceGetType(vgpu))),
            "placement": self.ask(lambda: nvml.nvmlVgpuInstanceGetPlacementId(vgpu)),
            "instance": self.ask(lambda: nvml.nvmlVgpuInstanceGetGpuInstanceId(vgpu)),
            "licence": self.ask(lambda: licence(nvml.nvmlVgpuInstanceGetLicenseInfo_v2(vgpu))),
            "guest_driver": self.ask(lambda: text(nvml.nvmlVgpuInstanceGetVmDriverVersion(vgpu))),
            "memory_used": self.ask(lambda: self.frame_buffer_used(vgpu)),
        }

    def frame_buffer_used(self, vgpu: int) -> int:
        """Bytes. The binding's own call hands over 32 bits for the library's 64: wrong from 4 GiB up."""
        used = ctypes.c_ulonglong()
        call = getattr(self.library, FRAME_BUFFER_USED, None)
        if call is None:
            raise self.nvml.NVMLError(self.nvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        status = call(ctypes.c_uint(vgpu), ctypes.byref(used))
        if status:
            raise self.nvml.NVMLError(status)
        return used.value

    # -- facts

    def facts(self, handle: Any) -> Json:
        nvml = self.nvml
        mig = self.ask(lambda: nvml.nvmlDeviceGetMigMode(handle))
        return {
            "uuid": self.ask(lambda: text(nvml.nvmlDeviceGetUUID(handle))),
            "model": self.ask(lambda: text(nvml.nvmlDeviceGetName(handle))),
            "mig": mig,
            "ecc": self.ask(lambda: nvml.nvmlDeviceGetEccMode(handle)),
            "mixed": self.ask(lambda: nvml.nvmlDeviceGetVgpuHeterogeneousMode(handle)),
            "scheduler": self.ask(lambda: scheduler(nvml.nvmlDeviceGetVgpuSchedulerState(handle))),
            "types": self.ask(lambda: [self.kind(handle, each) for each in nvml.nvmlDeviceGetSupportedVgpus(handle)]),
            "profiles": self.profiles(handle) if mig.get("said", [0])[0] else [],
        }

    def kind(self, handle: Any, number: int) -> Json:
        """A vGPU type on this card."""
        nvml = self.nvml
        return {
            "number": number,
            "name": self.ask(lambda: text(nvml.nvmlVgpuTypeGetName(number))),
            "memory": self.ask(lambda: nvml.nvmlVgpuTypeGetFramebufferSize(number)),
            "most": self.ask(lambda: nvml.nvmlVgpuTypeGetMaxInstances(handle, number)),
            "per_instance": self.ask(lambda: nvml.nvmlVgpuTypeGetMaxInstancesPerGpuInstance(number)),
            "profile": self.ask(lambda: nvml.nvmlVgpuTypeGetGpuInstanceProfileId(number)),
            "placements": self.ask(
                lambda: places(nvml.nvmlDeviceGetVgpuTypeSupportedPlacements(handle, number, version=2))
            ),
            "creatable": self.ask(lambda: places(nvml.nvmlDeviceGetVgpuTypeCreatablePlacements(handle, number, 2))),
        }

    def profiles(self, handle: Any) -> list[Json]:
        """The MIG profiles of a card, and the GPU instances of each; an error among them stays among them."""
        nvml = self.nvml
        none_such = (nvml.NVML_ERROR_INVALID_ARGUMENT, nvml.NVML_ERROR_NOT_SUPPORTED)
        found = (self.ask(partial(nvml.nvmlDeviceGetGpuInstanceProfileInfo, handle, each)) for each in range(PROFILES))
        return [
            self.profile(handle, each["said"]) if "said" in each else each
            for each in found
            if each.get("error") not in none_such
        ]

    def profile(self, handle: Any, info: Any) -> Json:
        nvml = self.nvml
        return {
            "id": info.id,
            "name": text(info.name),
            "total": info.instanceCount,
            "free": self.ask(lambda: nvml.nvmlDeviceGetGpuInstanceRemainingCapacity(handle, info.id)),
            "places": self.ask(lambda: self.possible(handle, info.id)),
            "instances": self.ask(lambda: self.instances(handle, info)),
        }

    def possible(self, handle: Any, profile: int) -> list[tuple[int, int]]:
        """The places where an instance of a profile may lie: start and size."""
        nvml, count = self.nvml, ctypes.c_uint()
        nvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, profile, None, ctypes.byref(count))
        found = (nvml.c_nvmlGpuInstancePlacement_t * max(1, count.value))()
        nvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, profile, found, ctypes.byref(count))
        return [(place.start, place.size) for place in found[: count.value]]

    def instances(self, handle: Any, profile: Any) -> list[Json]:
        nvml, count = self.nvml, ctypes.c_uint()
        found = (nvml.c_nvmlGpuInstance_t * max(1, profile.instanceCount))()
        nvml.nvmlDeviceGetGpuInstances(handle, profile.id, found, ctypes.byref(count))
        infos = (nvml.nvmlGpuInstanceGetInfo(each) for each in found[: count.value])
        return [{"id": info.id, "start": info.placement.start, "size": info.placement.size} for info in infos]

    # -- usage

    def usage(self, handle: Any) -> Json:
        nvml = self.nvml
        return {
            "busy": self.ask(lambda: busy(nvml.nvmlDeviceGetUtilizationRates(handle))),
            "encoder": self.ask(lambda: nvml.nvmlDeviceGetEncoderUtilization(handle)[0]),
            "decoder": self.ask(lambda: nvml.nvmlDeviceGetDecoderUtilization(handle)[0]),
            "memory_used": self.ask(lambda: nvml.nvmlDeviceGetMemoryInfo(handle, nvml.nvmlMemory_v2).used),
            "temperature": self.ask(lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
            "power": self.ask(lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000),
            "samples": self.ask(lambda: samples(nvml.nvmlDeviceGetVgpuUtilization(handle, 0))),
        }


def text(value: Any) -> str:
    """Bytes or str, as the binding's release gives it."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def identity(told: tuple[Any, int]) -> str | None:
    """A machine's UUID; the other kind of id is of no use."""
    return text(told[0]) if told[1] == 1 else None


def licence(info: Any) -> Json:
    end = info.licenseExpiry
    parts = [end.year, end.month, end.day, end.hour, end.min, end.sec]
    return {"state": info.currentState, "expiry": parts, "valid": end.status}


def scheduler(state: Any) -> Json:
    """The policy, and its time slice in nanoseconds; which part of the union holds it depends on the round robin."""
    adaptive, plain = state.schedulerParams.vgpuSchedDataWithARR, state.schedulerParams.vgpuSchedData
    return {"policy": state.schedulerPolicy, "slice_ns": adaptive.timeslice if adaptive.avgFactor else plain.timeslice}


def places(found: Any) -> Json:
    return {"size": found.placementSize, "starts": [found.placementIds[number] for number in range(found.count)]}


def busy(rates: Any) -> list[int]:
    return [rates.gpu, rates.memory]


def samples(found: Iterable[Any]) -> dict[int, list[int]]:
    """The newest sample of each vGPU, in percent: its GPU, memory, encoder, decoder."""
    newest = {each.vgpuInstance: each for each in sorted(found, key=lambda each: int(each.timeStamp))}
    return {
        number: [value.uiVal for value in (each.smUtil, each.memUtil, each.encUtil, each.decUtil)]
        for number, each in newest.items()
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "facts"))
