"""What vmctl answers: the JSON documents of docs/schemas/. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from vmctl import __version__
from vmctl.answers.cards import gaps_json, gpu_json, holder_json
from vmctl.documents import SCHEMA, Json
from vmctl.errors import VmctlError
from vmctl.observation import Disk, Observation, ObservedMachine
from vmctl.plan.card_steps import RefuseCard
from vmctl.plan.steps import Refuse, Step
from vmctl.state import Memory


@dataclass(frozen=True)
class Outcome:
    """A step, and how it went; a step of a mere plan is not done and has no error."""

    step: Step
    done: bool = False
    error: VmctlError | None = None

    def to_json(self) -> Json:
        return {
            "kind": self.step.kind,
            "machine": self.step.machine,
            "subject": self.step.subject,
            "done": self.done,
            "error": None if self.error is None else self.error.to_json(),
        }


def planned(steps: Iterable[Step]) -> tuple[Outcome, ...]:
    """Steps that nobody carried out."""
    return tuple(Outcome(step, error=step.error if isinstance(step, Refuse | RefuseCard) else None) for step in steps)


def error_json(error: VmctlError) -> Json:
    """The document that stands alone when there is nothing else to say."""
    return {"schema": SCHEMA, "vmctl": __version__, "error": error.to_json()}


def report_json(
    observed: Observation,
    memory: Memory | None,
    outcomes: Iterable[Outcome] = (),
    needs_confirmation: Iterable[str] = (),
) -> Json:
    """The report of observe, plan and apply."""
    accelerator, capacity, whose = observed.accelerator, observed.capacity, observed.whose
    return {
        "schema": SCHEMA,
        "vmctl": __version__,
        "host": observed.host,
        "portal": None if memory is None else memory.portal,
        "generation": None if memory is None else memory.generation,
        "observed_at": observed.observed_at.isoformat(),
        "simulated": observed.simulated,
        "accelerator": {
            "kvm": accelerator.kvm,
            "domain_type": accelerator.domain_type,
            "reason": accelerator.reason,
        },
        "capacity": {
            "vcpus": capacity.vcpus,
            "memory_mib": capacity.memory_mib,
            "disk_free_mib": capacity.disk_free_mib,
            "nodes": [
                {
                    "node": node.node,
                    "vcpus": node.vcpus,
                    "memory_mib": node.memory_mib,
                    "used_memory_mib": node.used_mib,
                }
                for node in capacity.nodes
            ],
        },
        "machines": [_machine(machine) for machine in observed.machines],
        "foreign": [
            {
                "name": other.name,
                "uuid": other.uuid,
                "state": other.state.value,
                "claims": sorted(other.claims),
                "trouble": other.trouble,
            }
            for other in observed.foreign
        ],
        "vgpus": [{"gpu": vgpu.gpu} | holder_json(vgpu, whose) for vgpu in observed.vgpus],
        "disks": [_disk(disk) for disk in observed.disks],
        "gpus": [gpu_json(gpu, whose) for gpu in observed.gpus],
        "unknown": gaps_json(observed.unknown),
        "steps": [outcome.to_json() for outcome in outcomes],
        "needs_confirmation": sorted(needs_confirmation),
    }


def _machine(machine: ObservedMachine) -> Json:
    mark = machine.mark
    return {
        "machine": machine.machine,
        "reservation": mark.reservation,
        "name": machine.name,
        "state": machine.state.value,
        "end": mark.end.isoformat(),
        "promised": None if mark.promised is None else mark.promised.isoformat(),
        "asked": None if mark.asked is None else mark.asked.isoformat(),
        "console": machine.console,
        "address": machine.address,
        "vgpus": [vgpu.uuid for vgpu in mark.vgpus],
        "trouble": machine.trouble,
        "screen": machine.screen.value,
    }


def _disk(disk: Disk) -> Json:
    return {"machine": disk.machine, "mib": disk.mib, "seed": disk.seed, "present": disk.present}
