"""Fakes with a character: a class says by its name how it misbehaves. They stand where vmctl's answers come in."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from portal.gateway import GatewayError, HostAddress
from tests import make


@dataclass
class Guest:
    """A machine on a fake host."""

    order: dict[str, Any]
    state: str = "running"
    console: bool = True
    asked: datetime | None = None


@dataclass
class FakeHost:
    """Does at once what it is told, like a good host. Times are its own clock's."""

    name: str
    gpus: list[dict[str, Any]] = field(default_factory=lambda: [make.gpu_facts()])
    guests: dict[str, Guest] = field(default_factory=dict)
    vgpus: dict[str, dict[str, Any]] = field(default_factory=dict)
    disks: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)  # machines whose disk somebody removed by hand
    screen: str = "vgpu"
    always: list[dict[str, Any]] = field(default_factory=list)  # steps that each report has
    foreign: list[dict[str, Any]] = field(default_factory=list)
    unknown: list[dict[str, str]] = field(default_factory=list)
    generation: int = 0
    calls: list[Mapping[str, Any]] = field(default_factory=list)
    started: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    door: threading.Lock = field(default_factory=threading.Lock)

    def apply(self, desired: Mapping[str, Any]) -> dict[str, Any]:
        """vmctl apply: fenced, then brought to the desired state."""
        self.calls.append(desired)
        if not self.door.acquire(blocking=False):
            raise GatewayError("busy", "Another call is under way.", "Wait.", True)
        try:
            if desired["generation"] <= self.generation:
                raise GatewayError("stale_generation", "This generation is old.", "Look who calls.", False)
            self.generation = desired["generation"]
            steps = self.work(desired)
            return self.report(desired, steps)
        finally:
            self.door.release()

    def work(self, desired: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Starts, stops, releases and purges."""
        steps: list[dict[str, Any]] = []
        for order in desired["machines"]:
            steps += self.start(order) if order["order"] == "run" else self.stop(order)
        for machine in set(desired["purge"]) & self.disks:
            if machine not in self.guests:
                self.disks.discard(machine)
                steps.append(step("purge", machine))
        return steps

    def start(self, order: dict[str, Any]) -> list[dict[str, Any]]:
        """Give the vGPUs and start the machine, unless it is there."""
        machine = order["machine"]
        if machine in self.guests:
            self.guests[machine].order = order
            return []
        for vgpu in order["vgpus"]:
            self.vgpus[vgpu["uuid"]] = vgpu | {"machine": machine}
        self.guests[machine] = Guest(order)
        self.disks.add(machine)
        self.started.append(machine)
        return [step("start", machine)]

    def stop(self, order: dict[str, Any]) -> list[dict[str, Any]]:
        """The machine obeys at once; its vGPUs are released."""
        machine = order["machine"]
        if self.guests.pop(machine, None):
            self.stopped.append(machine)
        return [step("ask_stop", machine), *self.release(machine)]

    def release(self, machine: str) -> list[dict[str, Any]]:
        """Give back what a machine that is gone held."""
        for uuid in [uuid for uuid, vgpu in self.vgpus.items() if vgpu["machine"] == machine]:
            del self.vgpus[uuid]
        return [step("release", machine)]

    def report(self, desired: Mapping[str, Any], steps: list[dict[str, Any]]) -> dict[str, Any]:
        """What is there now."""
        return {
            "schema": 1,
            "vmctl": "0.1.0",
            "host": self.name,
            "portal": desired["portal"],
            "generation": desired["generation"],
            "observed_at": self.clock().isoformat(),
            "simulated": True,
            "accelerator": {"kvm": False, "domain_type": "qemu", "reason": "a fake"},
            "capacity": {"vcpus": 8, "memory_mib": 32000, "disk_free_mib": 80000, "nodes": []},
            "machines": [self.seen(machine, guest) for machine, guest in self.guests.items()],
            "foreign": self.foreign,
            "vgpus": [self.seen_vgpu(uuid, vgpu) for uuid, vgpu in self.vgpus.items()],
            "disks": [self.seen_disk(machine) for machine in sorted(self.disks)],
            "gpus": self.gpus,
            "unknown": self.unknown,
            "steps": steps + self.always,
            "needs_confirmation": [],
        }

    def seen(self, machine: str, guest: Guest) -> dict[str, Any]:
        """One machine as the report lists it."""
        return {
            "machine": machine,
            "reservation": guest.order["reservation"],
            "name": f"{guest.order['hostname']}-{machine[:8]}",
            "state": guest.state,
            "end": guest.order["end"],
            "promised": guest.order["promised"],
            "asked": guest.asked.isoformat() if guest.asked else None,
            "console": guest.console,
            "address": None,
            "vgpus": [vgpu["uuid"] for vgpu in guest.order["vgpus"]],
            "trouble": None,
            "screen": self.screen,
        }

    def seen_disk(self, machine: str) -> dict[str, Any]:
        """One disk as the report lists it."""
        return {"machine": machine, "mib": 200, "seed": False, "present": machine not in self.lost}

    def seen_vgpu(self, uuid: str, vgpu: dict[str, Any]) -> dict[str, Any]:
        """One vGPU as the report lists it."""
        usual = {"size_group": "4G", "regime": "equal", "handle": None, "ours": True, "licence": None}
        told = {key: vgpu.get(key, value) for key, value in usual.items()}
        place = {"gpu": vgpu["gpu"], "type": vgpu["type"], "uuid": uuid, "device": uuid, "cell": None, "slot": None}
        return place | told | {"machine": vgpu["machine"], "domain": None, "state": None}


def step(kind: str, machine: str | None, error: dict[str, Any] | None = None) -> dict[str, Any]:
    """One line of a report's steps."""
    return {"kind": kind, "machine": machine, "subject": kind, "done": error is None, "error": error}


class SlowHost(FakeHost):
    """Does everything, but takes its time."""

    seconds = 1.0

    def work(self, desired: Mapping[str, Any]) -> list[dict[str, Any]]:
        time.sleep(self.seconds)
        return super().work(desired)


class FullHost(FakeHost):
    """Has no free share, whatever the portal believes."""

    def start(self, order: dict[str, Any]) -> list[dict[str, Any]]:
        error = {"code": "failed", "what": "The GPU gives no more.", "remedy": "Look at the host.", "retry": True}
        return [step("provide", order["machine"], error)]


class RefusingHost(FakeHost):
    """The driver refuses every share on the first GPU, whatever its counters say; the host takes the next place."""

    meanwhile: Callable[[], object] = staticmethod(lambda: None)  # what happens while it works

    def start(self, order: dict[str, Any]) -> list[dict[str, Any]]:
        if order["machine"] in self.guests:
            return super().start(order)
        self.meanwhile()
        vgpus = []
        for vgpu in order["vgpus"]:
            places = [place for place in (vgpu, *vgpu["alternatives"]) if place["gpu"] != self.gpus[0]["address"]]
            if not places:
                error = {"code": "no_capacity", "what": "No GPU gives a share.", "remedy": "Look.", "retry": True}
                return [step("provide", order["machine"], error)]
            vgpus.append(vgpu | places[0])
        return super().start(order | {"vgpus": vgpus})


class DeafHost(FakeHost):
    """Takes the call and never answers; only the caller's limit ends it."""

    seconds = 1.0

    def apply(self, desired: Mapping[str, Any]) -> dict[str, Any]:
        self.calls.append(desired)
        time.sleep(self.seconds)
        raise GatewayError("timeout", "vmctl apply took longer than 60 s and was ended.", "Look at the host.", True)


class BlindHost(FakeHost):
    """Cannot tell what runs: its lists are empty, and it says so."""

    def report(self, desired: Mapping[str, Any], steps: list[dict[str, Any]]) -> dict[str, Any]:
        self.unknown = [{"what": "machines", "reason": "libvirtd does not answer"}]
        return super().report(desired, steps) | {"machines": [], "vgpus": [], "disks": []}


class LyingHost(FakeHost):
    """Answers in another host's name."""

    def report(self, desired: Mapping[str, Any], steps: list[dict[str, Any]]) -> dict[str, Any]:
        return super().report(desired, steps) | {"host": "somebody-else", "machines": [], "vgpus": []}


class GarbledHost(FakeHost):
    """Answers with half a document."""

    def report(self, desired: Mapping[str, Any], steps: list[dict[str, Any]]) -> dict[str, Any]:
        return {"schema": 1, "host": self.name, "machines": "none"}


class StubbornHost(FakeHost):
    """Its guests ignore the power button until they are forced off."""

    def stop(self, order: dict[str, Any]) -> list[dict[str, Any]]:
        guest = self.guests.get(order["machine"])
        force_at = datetime.fromisoformat(order["force_at"])
        if guest is None or self.clock() >= force_at:
            return super().stop(order)
        guest.state, guest.asked = "stopping", guest.asked or self.clock()
        return [step("ask_stop", order["machine"])]


class ClingingHost(FakeHost):
    """Stops machines, but a vGPU stays behind until `lets_go`."""

    lets_go = False

    def release(self, machine: str) -> list[dict[str, Any]]:
        if self.lets_go:
            return super().release(machine)
        for vgpu in self.vgpus.values():
            if vgpu["machine"] == machine:
                vgpu["machine"] = None
        error = {"code": "failed", "what": "The vGPU is busy.", "remedy": "It is tried again.", "retry": True}
        return [step("release", machine, error)]


class DriftingHost(FakeHost):
    """Its clock is ten minutes ahead."""

    def report(self, desired: Mapping[str, Any], steps: list[dict[str, Any]]) -> dict[str, Any]:
        ahead = (self.clock() + timedelta(minutes=10)).isoformat()
        return super().report(desired, steps) | {"observed_at": ahead}


class TimidHost(FakeHost):
    """Stops nothing until every stop is confirmed by name."""

    def stop(self, order: dict[str, Any]) -> list[dict[str, Any]]:
        return super().stop(order) if order["machine"] in self.calls[-1]["confirmed_stops"] else []

    def report(self, desired: Mapping[str, Any], steps: list[dict[str, Any]]) -> dict[str, Any]:
        stops = {order["machine"] for order in desired["machines"] if order["order"] == "stop"}
        asks = sorted(stops & set(self.guests) - set(desired["confirmed_stops"]))
        return super().report(desired, steps) | {"needs_confirmation": asks}


@dataclass
class FakeGateway:
    """Stands in for portal.gateway: every host by its name."""

    hosts: dict[str, FakeHost] = field(default_factory=dict)

    def add(self, host: FakeHost) -> FakeHost:
        """From now on this is what answers under the name."""
        self.hosts[host.name] = host
        return host

    def apply(self, address: HostAddress, desired: Mapping[str, Any]) -> dict[str, Any]:
        return self.hosts[address.name].apply(desired)
