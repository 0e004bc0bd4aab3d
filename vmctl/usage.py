"""What machines use of a host, and how busy its GPUs are: the document of `vmctl usage`, cheap enough for every 10 s.

Counters are running totals since a machine started: who wants a rate asks twice. null: nobody tells, and `unknown` says
why; guests that are not ours are not asked who is logged in.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from vmctl import mark as marks
from vmctl.answers.cards import gaps_json
from vmctl.card import Unknown
from vmctl.documents import SCHEMA, Json
from vmctl.errors import VmctlError
from vmctl.gpus.driver import figures
from vmctl.gpus.driver.answers import GPUFigures, Load, VGPUFigures
from vmctl.gpus.driver.figures import CardFigures
from vmctl.host import Host
from vmctl.hypervisor import Hypervisor, connect
from vmctl.ledger import Ledger
from vmctl.machine import domain
from vmctl.node import Domain
from vmctl.observation import MachineState, MarkedVGPU
from vmctl.site import Site
from vmctl.statistics import DomainStatistics

OFF = (MachineState.OFF, MachineState.CRASHED)


@dataclass(frozen=True)
class Running:
    """A domain that runs: whose it is, and which devices it has."""

    domain: Domain
    marked: tuple[MarkedVGPU, ...] | None  # None: a foreign one
    claims: frozenset[str]


@dataclass(frozen=True)
class Part:
    """A share of a GPU that a running domain has, with its figures where the driver tells them."""

    device: str | None
    gpu: str
    type: str
    figures: VGPUFigures | None


def look(site: Site) -> Json:
    """The document of this moment; without libvirt it tells of GPUs alone, and why."""
    try:
        site.host.ensure_live()
        with connect(site.libvirt_uri) as hypervisor:
            return usage(site, hypervisor, site.host.now())
    except VmctlError as error:
        return usage(site, None, site.host.now(), error.what)


def usage(site: Site, hypervisor: Hypervisor | None, now: datetime, why: str = "libvirt was not asked.") -> Json:
    """The document. `hypervisor` None: nothing is told of machines, and `why`."""
    cards, unknown = _cards(site.host)
    machines: list[Json] | None = None
    if hypervisor is None:
        unknown.append(Unknown("machines", why))
    else:
        machines, gaps = _machines(site.host, hypervisor, cards)
        unknown += gaps
    return {
        "schema": SCHEMA,
        "host": site.host.name,
        "observed_at": now.isoformat(),
        "machines": machines,
        "gpus": [_gpu(card) for card in cards],
        "unknown": gaps_json(unknown),
    }


def _cards(host: Host) -> tuple[tuple[CardFigures, ...], list[Unknown]]:
    try:
        cards = figures.read(host)
    except VmctlError as error:
        return (), [Unknown("gpus", error.what)]
    return cards, [gap for card in cards for gap in (*card.unknown, *_unsaid(card))]


def _unsaid(card: CardFigures) -> Iterator[Unknown]:
    """What the driver's answer about a card leaves out."""
    missing = [name.rpartition("_")[0] for name, value in _gpu(card).items() if value is None]
    if missing and f"figures of {card.address}" not in {gap.what for gap in card.unknown}:
        yield Unknown(f"{', '.join(missing)} of {card.address}", "The driver does not tell.")


def _machines(
    host: Host, hypervisor: Hypervisor, cards: Sequence[CardFigures]
) -> tuple[list[Json], tuple[Unknown, ...]]:
    """What each running domain uses, and what could not be told of them."""
    running = [_seen(host, each) for each in hypervisor.domains() if each.state not in OFF]
    functions, unknown = _functions(host)
    counted: Mapping[str, DomainStatistics] = {}
    try:
        ours = [each.domain.uuid for each in running if each.marked is not None]
        counted = {each.uuid: each for each in hypervisor.statistics(ours)}
    except VmctlError as error:
        unknown = (*unknown, Unknown("what machines use", error.what))
    parts = {each.domain.uuid: _parts(each, cards, functions) for each in running}
    known = {gap.what for card in cards for gap in card.unknown}
    unknown = (*unknown, *_silent(running, counted), *_untold(running, parts, known))
    return [_machine(each, counted.get(each.domain.uuid), parts[each.domain.uuid]) for each in running], unknown


def _silent(running: Iterable[Running], counted: Mapping[str, DomainStatistics]) -> Iterator[Unknown]:
    """The guests of ours that did not say who is logged in; others' are never asked."""
    ours = [each.domain for each in running if each.marked is not None and each.domain.uuid in counted]
    names = [each.name for each in ours if counted[each.uuid].users is None]
    if names:
        yield Unknown("users", f"No guest agent answers in {', '.join(names)}.")


def _untold(
    running: Iterable[Running], parts: Mapping[str, Sequence[Part]], known: Collection[str]
) -> Iterator[Unknown]:
    """The shares without figures on cards whose driver told of others, or of none."""
    for each in running:
        for part in parts[each.domain.uuid]:
            what = f"figures of {part.device or part.type} on {part.gpu} for {each.domain.name}"
            if part.figures is None and f"vgpus of {part.gpu}" not in known:
                yield Unknown(what, "The driver tells of no such vGPU that runs: its guest may have no driver yet.")
            elif part.figures is not None and (missing := _missing(part.figures.load)):
                yield Unknown(what, f"The driver does not tell {', '.join(missing)}.")


def _missing(load: Load) -> list[str]:
    told = {
        "utilisation": load.gpu,
        "memory utilisation": load.memory,
        "encoder": load.encoder,
        "decoder": load.decoder,
    }
    return [name for name, value in told.items() if value is None]


def _seen(host: Host, found: Domain) -> Running:
    """A domain with its mark and its devices; one whose XML makes no sense is foreign and has none."""
    try:
        mark, claims = marks.read(found.xml), domain.read_claims(found.xml)
    except (ValueError, ET.ParseError):
        return Running(found, None, frozenset())
    ours = mark is not None and mark.belongs_to(host.name, found.uuid)
    return Running(found, mark.vgpus if mark is not None and ours else None, claims)


def _functions(host: Host) -> tuple[Mapping[str, str | None], tuple[Unknown, ...]]:
    """On which function vmctl made each share, by uuid."""
    try:
        return {made.uuid: made.device for made in Ledger(host.state_dir)}, ()
    except VmctlError as error:
        return {}, (Unknown("devices of vgpus", error.what),)


# Which vGPU is whose ------------------------------------------------------------------------------


def _parts(running: Running, cards: Sequence[CardFigures], functions: Mapping[str, str | None]) -> list[Part]:
    """The shares of a domain: of ours by its mark, of another by what the driver says runs for it."""
    own = [(card, each) for card in cards for each in card.vgpus or () if _runs_for(each, running)]
    if running.marked is None:
        return [Part(_device(running, card, each), card.address, each.active.type, each) for card, each in own]
    return list(_ours(running, own, functions))


def _runs_for(vgpu: VGPUFigures, running: Running) -> bool:
    """By the surest that the driver tells: the device, the machine, else only its name."""
    active = vgpu.active
    if active.mdev is not None:
        return active.mdev in running.claims
    return active.vm == running.domain.uuid if active.vm is not None else active.vm_name == running.domain.name


def _ours(
    running: Running, own: Iterable[tuple[CardFigures, VGPUFigures]], functions: Mapping[str, str | None]
) -> Iterator[Part]:
    left = list(own)
    for marked in running.marked or ():
        here = [pair for pair in left if pair[0].address == marked.gpu and pair[1].active.type in (marked.type, "")]
        mine = next((pair for pair in here if pair[1].active.mdev in (marked.uuid, None)), None)
        if mine is not None:
            left.remove(mine)
        device = marked.uuid if marked.uuid in running.claims else functions.get(marked.uuid)
        yield Part(device, marked.gpu, marked.type, None if mine is None else mine[1])


def _device(running: Running, card: CardFigures, vgpu: VGPUFigures) -> str | None:
    """What a foreign domain's XML names for it; None where that may be one of several."""
    if vgpu.active.mdev is not None:
        return vgpu.active.mdev
    named = running.claims & card.functions
    return next(iter(named)) if len(named) == 1 else None


# The document -------------------------------------------------------------------------------------


def _machine(running: Running, counted: DomainStatistics | None, parts: Iterable[Part]) -> Json:
    found = counted or DomainStatistics(running.domain.name, running.domain.uuid)
    return {
        "machine": running.domain.uuid,
        "name": running.domain.name,
        "ours": running.marked is not None,
        "cpu_ns": found.cpu_ns,
        "vcpus": found.vcpus,
        "memory_mib": found.memory_mib,
        "disk": {"read_bytes": found.read_bytes, "written_bytes": found.written_bytes},
        "network": {"received_bytes": found.received_bytes, "sent_bytes": found.sent_bytes},
        "users": None if found.users is None else list(found.users),
        "vgpus": [_vgpu(part) for part in parts],
    }


def _vgpu(part: Part) -> Json:
    figures = part.figures
    load, active = (Load(), None) if figures is None else (figures.load, figures.active)
    return {
        "device": part.device,
        "gpu": part.gpu,
        "type": part.type,
        "utilisation_percent": load.gpu,
        "memory_utilisation_percent": load.memory,
        "encoder_percent": load.encoder,
        "decoder_percent": load.decoder,
        "frame_buffer_mib": None if figures is None else figures.frame_buffer_mib,
        "frame_buffer_used_mib": None if active is None else active.frame_buffer_used_mib,
        "licence": None if active is None else active.licence,
    }


def _gpu(card: CardFigures) -> Json:
    gpu = card.gpu or GPUFigures()
    return {
        "address": card.address,
        "utilisation_percent": gpu.load.gpu,
        "memory_used_mib": gpu.memory_used_mib,
        "temperature_c": gpu.temperature_c,
        "power_w": gpu.power_w,
    }
