"""What turns the host as it is into the host as it should be.  Pure; ends before starts; only what bears our mark."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from vmctl.card import ProvidedVGPU
from vmctl.errors import Code, VmctlError
from vmctl.model import DesiredMachine, DesiredState, Order
from vmctl.observation import (
    ForeignDomain,
    MachineState,
    Mark,
    MarkedVGPU,
    Observation,
    ObservedMachine,
    acceptance_machine,
)
from vmctl.plan import possible
from vmctl.plan.cards import Cards
from vmctl.plan.steps import (
    AskStop,
    Clear,
    ForceStop,
    MakeDisk,
    Plan,
    Provide,
    Purge,
    Refuse,
    Release,
    Remark,
    Start,
    Step,
)

FREE_STOPS = 3
"""So many machines may always be stopped ahead of their end; above it, so large a part of the running ones."""
FREE_PART = 0.1


CUT_OFF = "it is the guest of an acceptance that was cut off"


@dataclass(frozen=True)
class Stop:
    """A running machine that should not run, and since when patience is over (None: grace after it was asked)."""

    observed: ObservedMachine
    reason: str
    force_at: datetime | None


def plan(desired: DesiredState, observed: Observation, now: datetime) -> Plan:
    """The steps from one state to the other, in the order in which they are to be carried out."""
    stops = tuple(_stops(desired, observed))
    held = held_back(desired, observed, stops, now)
    allowed = [stop for stop in stops if stop.observed.machine not in held]
    ends = [step for stop in allowed for step in _end(stop, desired, observed, now)]
    off = {step.machine for step in ends if isinstance(step, ForceStop)}
    ends += _releases(desired, observed)
    starting = [wish for wish in _startable(desired, observed) if _refusal(wish, observed, now) is None]
    released = [step.vgpu for step in ends if isinstance(step, Release)]
    cards = Cards(desired.cards, observed, starting, released)
    steps: list[Step] = [
        *_remarks(desired, observed),
        *ends,
        *_clearings(desired, observed, off),
        *_purges(desired, observed, off),
        *cards.steps,
        *_starts(desired, observed, cards, now),
    ]
    return Plan(tuple(steps), tuple(sorted(held)))


# Ends ---------------------------------------------------------------------------------------------


def _stops(desired: DesiredState, observed: Observation) -> Iterator[Stop]:
    wishes = {wish.machine: wish for wish in desired.machines}
    for machine in observed.machines:
        wish = wishes.get(machine.machine)
        if machine.mark.by_acceptance:
            yield Stop(machine, CUT_OFF, observed.observed_at)
        elif wish is None:
            yield Stop(machine, "the portal does not list it any more", None)
        elif wish.order is Order.STOP:
            yield Stop(machine, "its period is over", wish.force_at)
        elif wish.reservation != machine.mark.reservation:
            yield Stop(machine, "it runs for an earlier reservation", None)


def held_back(desired: DesiredState, observed: Observation, stops: tuple[Stop, ...], now: datetime) -> frozenset[str]:
    """The mass-stop guard: who would lose a machine ahead of the end it was told, when that are too many at once.

    A portal that is wrong (a restored database, a lost table) must not be able to switch a host off. Stops that a
    person ordered or an operator confirmed do not count.
    """
    early = {
        stop.observed.machine
        for stop in stops
        if now < stop.observed.mark.end
        and stop.observed.machine not in desired.confirmed_stops
        and not stop.observed.mark.by_acceptance
    }
    limit = max(FREE_STOPS, FREE_PART * len(observed.machines))
    return frozenset(early) if len(early) > limit else frozenset()


def _end(stop: Stop, desired: DesiredState, observed: Observation, now: datetime) -> Iterator[Step]:
    machine = stop.observed
    asked = machine.mark.asked or now
    force_at = stop.force_at or asked + timedelta(seconds=desired.stop_grace_seconds)
    if now < force_at:
        yield AskStop(machine, stop.reason)
        return
    yield ForceStop(machine, f"{stop.reason}, and it did not shut down by itself")
    for vgpu in observed.vgpus:
        if vgpu.uuid in observed.ours and vgpu.holder == machine.machine:
            yield Release(vgpu, machine.machine)


def _remarks(desired: DesiredState, observed: Observation) -> Iterator[Step]:
    """A later end is told at once; an earlier one only where the stop needs no question (mass-stop guard)."""
    wishes = {wish.machine: wish for wish in desired.machines if wish.order is Order.RUN}
    for machine in observed.machines:
        wish = wishes.get(machine.machine)
        if wish is None or wish.reservation != machine.mark.reservation:
            continue
        may_shorten = machine.machine in desired.confirmed_stops
        end = wish.end if may_shorten else max(wish.end, machine.mark.end)
        mark = replace(machine.mark, end=end, promised=wish.promised, asked=None)
        if mark != machine.mark:
            yield Remark(machine, mark)


def _releases(desired: DesiredState, observed: Observation) -> Iterator[Step]:
    """Our vGPUs that no domain of ours has and no machine is about to get.

    What a foreign domain names is not touched while that may run; while it is off, ours is ours.
    """
    kept = {
        (place.uuid, place.gpu, place.type, place.regime)
        for wish in desired.machines
        if wish.order is Order.RUN
        for vgpu in wish.vgpus
        for place in vgpu.places
    }
    owners = {vgpu.uuid: wish.machine for wish in desired.machines for vgpu in wish.vgpus}
    for vgpu in observed.vgpus:
        key = (vgpu.uuid, vgpu.gpu, vgpu.type, vgpu.regime)
        if vgpu.uuid in observed.ours and (
            _in_the_way(vgpu, observed) if key in kept else vgpu.holder is None or _sleeper(vgpu, observed) is not None
        ):
            yield Release(vgpu, owners.get(vgpu.uuid))


def _sleeper(vgpu: ProvidedVGPU, observed: Observation) -> ForeignDomain | None:
    """The foreign domain that names a share and is off."""
    named = (domain for domain in observed.foreign if domain.uuid == vgpu.holder and domain.state is MachineState.OFF)
    return next(named, None)


def _in_the_way(vgpu: ProvidedVGPU, observed: Observation) -> bool:
    """Whether a wanted share lies on a function that such a domain names: elsewhere its machine can start.

    One that is named by its uuid is named wherever it lies.
    """
    sleeper = _sleeper(vgpu, observed)
    return sleeper is not None and vgpu.parent in sleeper.claims and vgpu.uuid not in sleeper.claims


def _clearings(desired: DesiredState, observed: Observation, off: set[str]) -> Iterator[Step]:
    untidy = {disk.machine for disk in observed.disks if disk.leftovers} | observed.sockets | off
    busy = _domains(observed) - off
    about_to_start = {wish.machine for wish in desired.machines if wish.order is Order.RUN}
    for machine in sorted(untidy - busy - about_to_start - _purged(desired, observed)):
        yield Clear(machine)


def _purges(desired: DesiredState, observed: Observation, off: set[str]) -> Iterator[Step]:
    there = {disk.machine for disk in observed.disks}
    busy = _domains(observed) - off
    wanted = {wish.machine for wish in desired.machines if wish.order is Order.RUN}
    for machine in sorted((there & _purged(desired, observed)) - busy - wanted):
        yield Purge(machine)


def _purged(desired: DesiredState, observed: Observation) -> frozenset[str]:
    """Whose disks go for good: by the portal's word, and those of acceptances that were cut off."""
    return desired.purge | {acceptance_machine(observed.host, gpu.address) for gpu in observed.gpus}


def _domains(observed: Observation) -> set[str]:
    return {machine.machine for machine in observed.machines} | {domain.uuid for domain in observed.foreign}


# Starts -------------------------------------------------------------------------------------------


def _startable(desired: DesiredState, observed: Observation) -> Iterator[DesiredMachine]:
    """The machines that should run and have no domain."""
    running = {machine.machine for machine in observed.machines}
    return (wish for wish in desired.machines if wish.order is Order.RUN and wish.machine not in running)


def _starts(desired: DesiredState, observed: Observation, cards: Cards, now: datetime) -> Iterator[Step]:
    clashes = possible.clashes(desired.machines, (each.machine for each in observed.machines))
    for wish in _in_turn(list(_startable(desired, observed)), desired.generation):
        refusals = (
            _refusal(wish, observed, now),
            clashes.get(wish.machine),
            *(cards.refusal(vgpu) for vgpu in wish.vgpus),
        )
        refusal = next((each for each in refusals if each is not None), None)
        if refusal is not None:
            yield Refuse(wish, refusal)
            continue
        for vgpu in wish.vgpus:
            yield Provide(wish, cards.places(vgpu))
        yield MakeDisk(wish)
        yield Start(wish)


def _in_turn(wishes: list[DesiredMachine], generation: int) -> list[DesiredMachine]:
    """Each call begins with another machine: a start that hangs takes a whole run, and must not take every one."""
    first = generation % len(wishes) if wishes else 0
    return wishes[first:] + wishes[:first]


def _refusal(wish: DesiredMachine, observed: Observation, now: datetime) -> VmctlError | None:
    """Why this machine may not start, if it may not."""
    if now >= wish.end:
        what = f"The period of {wish.name} ended at {wish.end.isoformat()}; this host's clock shows {now.isoformat()}."
        return VmctlError(Code.FAILED, what, "Nothing to do; if the clock is wrong, set it.", retry=True)
    for domain in observed.foreign:
        if domain.uuid == wish.machine or domain.name == wish.name:
            return VmctlError(
                Code.NOT_OURS,
                f"A domain {domain.name} ({domain.uuid}) that is not this host's own stands in the way of {wish.name}.",
                "Rename or remove that domain; vmctl does not touch it.",
                retry=True,
            )
    return possible.too_large(wish)


def mark(desired: DesiredState, wish: DesiredMachine) -> Mark:
    """The mark that a machine starts with."""
    return Mark(
        portal=desired.portal,
        host=desired.host,
        machine=wish.machine,
        reservation=wish.reservation,
        end=wish.end,
        promised=wish.promised,
        vgpus=tuple(MarkedVGPU(vgpu.uuid, vgpu.gpu, vgpu.type) for vgpu in wish.vgpus),
    )
