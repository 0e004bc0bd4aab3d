"""Brings a host to the desired state: look, plan, do, look again. May be killed anywhere; the next run mends.

Never waits for a guest. A step that fails stops the later steps of its own machine and nobody else's.
"""

import time
from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import datetime

from vmctl import gpus, observe, state
from vmctl import mark as marks
from vmctl.answers.report import Outcome, planned, report_json
from vmctl.card import GPU, CardChange, Knob, ProvidedVGPU
from vmctl.documents import Json
from vmctl.errors import Code, VmctlError, refused_by_host
from vmctl.hypervisor import CONNECT_SECONDS, LATE_SECONDS, Hypervisor, connect
from vmctl.ledger import Ledger
from vmctl.machine import launch, stop, storage
from vmctl.model import DesiredState
from vmctl.observation import Observation
from vmctl.plan import cards, reconcile
from vmctl.plan.card_steps import ChangeCard, RefuseCard, WaitForBoot, WaitForDrain
from vmctl.plan.steps import (
    AskStop,
    Clear,
    ForceStop,
    KeepFilter,
    MakeDisk,
    Provide,
    Purge,
    Refuse,
    Release,
    Remark,
    Remember,
    Start,
    Step,
    usual_seconds,
)
from vmctl.site import Site

BUDGET_SECONDS = 30.0
"""For all steps together. One that would not be over by then is left to the next apply, and the caller is answered."""
SPARE_SECONDS = 5.0
"""For what a step undoes when its time is over, and for the process itself."""
UNCUT_SECONDS = 30.0
"""So much longer than the budget a tool of the driver may take that has begun: it is not ended half-way."""
LONGEST_SECONDS = (
    state.LOCK_SECONDS
    + CONNECT_SECONDS
    + LATE_SECONDS
    + 2 * observe.LOOK_SECONDS
    + BUDGET_SECONDS
    + UNCUT_SECONDS
    + SPARE_SECONDS
)
"""After so long an apply has answered; whoever calls it waits so long before he takes it for hung."""


NEEDS_NO_NOTE = AskStop | ForceStop | Clear | Purge | KeepFilter
"""What is done even where no word of ours can be kept, as on a full disk: a machine's end, and what makes room."""


def plan(site: Site, desired: DesiredState, now: datetime) -> Json:
    """What apply would do. Changes nothing and remembers nothing."""
    memory = state.recall(site.host.state_dir)
    state.check_call(memory, desired, site.host.name)
    with connect(site.libvirt_uri) as hypervisor:
        observed = _look(site, hypervisor, desired, now)
    found = reconcile.plan(desired, observed, now)
    return report_json(observed, memory, planned(found.steps), found.needs_confirmation)


def apply(site: Site, desired: DesiredState, now: datetime, budget: float = BUDGET_SECONDS) -> Json:
    """Bring the host to the desired state and report what was done and what is there now."""
    with state.locked(site.lock):
        memory = state.recall(site.host.state_dir)
        state.check_call(memory, desired, site.host.name)
        memory, forgotten = _remembered(site, memory, desired, now)
        with connect(site.libvirt_uri) as hypervisor:
            observed = _look(site, hypervisor, desired, now)
            found = reconcile.plan(desired, observed, now)
            deadline = time.monotonic() + budget
            worker = Worker(_by(site, deadline), hypervisor, desired, observed, now, deadline, forgotten=forgotten)
            with hypervisor.hurried(worker.site.host.left):
                outcomes = [] if forgotten is None else [Outcome(Remember(), error=forgotten)]
                outcomes += [worker.carry_out(step) for step in found.steps]
                outcomes += worker.keep_filter()
            for machine in observed.machines:
                storage.trim_serial(site.storage, machine.machine)
            after = _look(site, hypervisor, desired, now)
            worker.forget_vanished(after)
    return report_json(after, memory, outcomes, found.needs_confirmation)


def _remembered(
    site: Site, memory: state.Memory | None, desired: DesiredState, now: datetime
) -> tuple[state.Memory | None, VmctlError | None]:
    """What is remembered after this call, and why it is not what the portal said."""
    called = state.after_call(desired, now)
    try:
        state.remember(site.host.state_dir, called)
    except OSError as error:
        return memory, refused_by_host(error)
    return called, None


def _by(site: Site, deadline: float) -> Site:
    return replace(site, host=site.host.by(deadline))


def _look(site: Site, hypervisor: Hypervisor, desired: DesiredState, now: datetime) -> Observation:
    """The host as it is. A vGPU that the portal knows by name is ours, even if our own notes were lost."""
    observed = observe.observe(site, hypervisor, desired.portal, now)
    wanted = {vgpu.uuid for wish in desired.machines for vgpu in wish.vgpus}
    return replace(observed, ours=observed.ours | wanted)


@dataclass
class Worker:
    """Carries steps out, one after the other, and remembers which machines are in trouble."""

    site: Site
    hypervisor: Hypervisor
    desired: DesiredState
    observed: Observation
    now: datetime
    deadline: float  # on the monotonic clock
    provided: dict[str, list[ProvidedVGPU]] = field(default_factory=lambda: defaultdict(list))
    troubled: set[str] = field(default_factory=set)
    forgotten: VmctlError | None = None  # why the portal's word is not remembered
    unready: dict[str, str] = field(default_factory=dict)  # cards whose change did not come through, and why
    pending: dict[str, GPU] = field(default_factory=dict)  # cards that were set to a mode that holds after a reset

    def carry_out(self, step: Step) -> Outcome:
        """Do one step. Only a lost libvirt ends the whole run; every other error belongs to its machine."""
        if self.forgotten is not None and not isinstance(step, NEEDS_NO_NOTE):
            return self._failed(step, _later("what the portal said could not be remembered"))
        if step.machine in self.troubled:
            return Outcome(step, error=_later("an earlier step for this machine did not work"))
        usual = usual_seconds(step)
        if usual and time.monotonic() + usual > self.deadline:
            return self._failed(step, _later("it does not fit into what is left of this run"))
        if isinstance(step, WaitForDrain | WaitForBoot):
            return Outcome(step)
        card = _card_of(step)
        if card in self.pending:
            return self._waits(step, self.pending[card])
        if card in self.unready:
            return self._failed(step, _later(f"GPU {card} is not ready ({self.unready[card].rstrip('.')})"))
        try:
            step = self._do(step)
        except VmctlError as error:
            if error.code == Code.UNREACHABLE:
                raise
            return self._failed(step, error)
        except OSError as error:
            return self._failed(step, refused_by_host(error))
        return Outcome(step, done=True)

    def _failed(self, step: Step, error: VmctlError) -> Outcome:
        if step.machine is not None:
            self.troubled.add(step.machine)
        if isinstance(step, ChangeCard):
            self.unready.setdefault(step.change.gpu, error.what)
        return Outcome(step, error=error)

    def _waits(self, step: Step, gpu: GPU) -> Outcome:
        """What is left to be set on a card is part of the wait; a machine that was to have it starts another time."""
        if isinstance(step, ChangeCard):
            return Outcome(next(cards.pending(gpu)))
        return self._failed(step, cards.pending_error(gpu))

    def _do(self, step: Step) -> Step:
        """Do it; gives the step as it was done."""
        match step:
            case Remark(observed, mark):
                self.hypervisor.set_mark(observed.machine, marks.to_xml(mark))
            case AskStop(observed):
                stop.ask(self.hypervisor, observed, self.now)
            case ForceStop(observed):
                stop.force(self.hypervisor, observed)
            case Release(vgpu):
                gpus.release(self.site.host, vgpu)
            case Clear(machine):
                self._clear(machine)
            case Purge(machine):
                self._clear(machine)
                storage.purge(self.site.storage, machine)
            case ChangeCard(change):
                gpus.change(self.site.host, change)
                self._look_for_a_reset(change)
            case Provide(wish, vgpu):
                launch.refuse_unfit(self.site, self.hypervisor, wish, self.observed.gpus)
                made = gpus.provide(self.site.host, vgpu, wish.machine, self._claimed)
                self.provided[wish.machine].append(made)
                return replace(step, made=made)
            case MakeDisk(wish):
                storage.make_disk(self.site.host, self.site.storage, self.site.images, wish)
            case Start(wish):
                provided = self.provided[wish.machine]
                domain_type = self.observed.accelerator.domain_type
                launch.start(self.site, self.hypervisor, self.desired, wish, provided, domain_type)
            case Refuse(error=error) | RefuseCard(error=error):
                raise error
            case KeepFilter():
                launch.bring_up_filter(self.site.host, self.hypervisor)
        return step

    @property
    def _claimed(self) -> frozenset[str]:
        """What domains name that are not ours, even those that are off: no share is made there."""
        return frozenset().union(*(domain.claims for domain in self.observed.foreign))

    def _look_for_a_reset(self, change: CardChange) -> None:
        """A card that takes its new MIG mode only at a reset is neither changed further nor given to anybody."""
        if change.knob is not Knob.MIG:
            return
        for gpu in gpus.inventory(self.site.host):
            if gpu.address == change.gpu and gpu.mig is not None and gpu.mig.current != gpu.mig.pending:
                self.pending[gpu.address] = gpu

    def _clear(self, machine: str) -> None:
        storage.clear(self.site.storage, machine)
        self.site.console(machine).unlink(missing_ok=True)

    def keep_filter(self) -> tuple[Outcome, ...]:
        """The outcome of keeping the filter up to date, where there is something to tell."""
        outcome = self.carry_out(KeepFilter()) if self.observed.machines else Outcome(KeepFilter())
        return () if outcome.error is None else (outcome,)

    def forget_vanished(self, after: Observation) -> None:
        """Cross out vGPUs that went without us (a reboot of the host), where everything could be read."""
        if after.unknown or self.forgotten is not None:
            return
        present = {vgpu.uuid for vgpu in after.vgpus}
        wanted = {vgpu.uuid for wish in self.desired.machines for vgpu in wish.vgpus}
        ledger = Ledger(self.site.host.state_dir)
        for made in tuple(ledger):
            if made.uuid not in present | wanted:
                ledger.cross_out(made.uuid)


def _card_of(step: Step) -> str | None:
    """The card that a step is about, where it must be ready for it."""
    match step:
        case ChangeCard(change):
            return change.gpu
        case Provide(vgpu=vgpu):
            return vgpu.gpu
    return None


def _later(why: str) -> VmctlError:
    return VmctlError(Code.LATER, f"Left for the next apply: {why}.", "Nothing to do.", retry=True)
