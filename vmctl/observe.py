"""Looks at a host: domains, GPUs, disks. Changes nothing; what cannot be told is said, never left out."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from xml.etree.ElementTree import ParseError

from vmctl import gpus, kvm
from vmctl import mark as marks
from vmctl.card import GPU, Unknown
from vmctl.errors import VmctlError
from vmctl.gpus.driver import facts, lock
from vmctl.holding import held
from vmctl.host import Host
from vmctl.hypervisor import Domain, Hypervisor, Node, connect
from vmctl.ledger import Ledger
from vmctl.machine import board, domain, storage
from vmctl.observation import (
    Capacity,
    Claimant,
    ForeignDomain,
    MachineState,
    Mark,
    Observation,
    ObservedMachine,
    Whose,
    claimants,
)
from vmctl.site import Site

LOOK_SECONDS = lock.LOOK_SECONDS + facts.TOTAL_SECONDS
"""What one look takes at most when the GPU's driver hangs; late answers of libvirt come on top (LATE_SECONDS)."""


def observe(site: Site, hypervisor: Hypervisor, portal: str | None, now: datetime) -> Observation:
    """The host as it is. `portal`: whose mark counts as ours; None takes any portal's mark for this host.

    Disks and sockets are looked at first: what is seen there and has no domain afterwards has none.
    """
    disks = storage.disks(site.storage)
    sockets = frozenset(disk.machine for disk in disks if site.console(disk.machine).exists())
    node = hypervisor.node()
    listed = hypervisor.domains()
    machines, foreign, unknown = _sorted(listed, site, portal, sockets)
    cards = gpus.inventory(site.host)
    made = {item.uuid for item in Ledger(site.host.state_dir)}
    marked = {vgpu.uuid for machine in machines for vgpu in machine.mark.vgpus}
    return Observation(
        host=site.host.name,
        observed_at=now,
        simulated=site.host.simulated,
        accelerator=kvm.accelerator(site.host),
        capacity=_capacity(site, node, listed),
        machines=tuple(machines),
        foreign=tuple(foreign),
        gpus=held(site.host, cards, claimants(machines, foreign)),
        disks=disks,
        sockets=sockets,
        ours=frozenset(made | marked),
        unknown=(*unknown, *gpus.doubtful(site.host), *_hidden(cards)),
    )


def _hidden(cards: Iterable[GPU]) -> Iterator[Unknown]:
    """The cards on which shares may be that no list shows."""
    for card in cards:
        reasons = [gap.reason for gap in card.unknown if gap.what == gpus.HOLDERS]
        if reasons:
            yield Unknown(f"{gpus.HOLDERS} of {card.address}", " ".join(reasons))


def cards_and_claims(site: Site) -> tuple[tuple[GPU, ...], Whose, tuple[Unknown, ...]]:
    """The GPUs, who has their shares, and what of that could not be told. Works without libvirt, and says so then."""
    cards = gpus.inventory(site.host)
    domains, unknown = _claimants(site)
    unknown += gpus.doubtful(site.host)
    try:
        made = frozenset(item.uuid for item in Ledger(site.host.state_dir))
    except VmctlError as error:
        made, unknown = frozenset(), [*unknown, Unknown("ours", error.what)]
    whose = Whose({domain.uuid: domain for domain in domains}, made)
    return held(site.host, cards, domains), whose, tuple(unknown)


def _claimants(site: Site) -> tuple[tuple[Claimant, ...], list[Unknown]]:
    """What domains claim, by libvirt; none where it does not answer."""
    try:
        site.host.ensure_live()
        with connect(site.libvirt_uri) as hypervisor:
            machines, foreign, unknown = _sorted(hypervisor.domains(), site, None, frozenset())
    except VmctlError as error:
        return (), [Unknown("claims", error.what)]
    return claimants(machines, foreign), unknown


def _capacity(site: Site, node: Node, listed: Iterable[Domain]) -> Capacity:
    memory = _memory_mib(site.host) or node.memory_mib
    kept = board.kept_on_nodes(each.xml for each in listed if each.state is not MachineState.OFF)
    nodes = tuple(replace(each, used_mib=kept.get(each.node, 0)) for each in site.host.numa_nodes())
    return Capacity(node.vcpus, memory, storage.free_mib(site.storage), nodes)


def _memory_mib(host: Host) -> int | None:
    """The host's memory by the kernel's word; libvirt's sum of NUMA nodes can be wrong in a virtual machine."""
    found = re.search(r"^MemTotal:\s*(\d+) kB$", host.read_or_none(host.path("/proc/meminfo")) or "", re.MULTILINE)
    return int(found[1]) // 1024 if found else None


def _sorted(
    listed: Iterable[Domain], site: Site, portal: str | None, sockets: frozenset[str]
) -> tuple[list[ObservedMachine], list[ForeignDomain], list[Unknown]]:
    """Ours, the others, and what could not be told about either."""
    machines: list[ObservedMachine] = []
    foreign: list[ForeignDomain] = []
    unknown: list[Unknown] = []
    for found in listed:
        mark, claims = None, frozenset[str]()
        try:
            mark, claims = marks.read(found.xml), domain.read_claims(found.xml)
        except (ValueError, ParseError) as error:
            reason = found.trouble or f"Its XML makes no sense: {error}."
            unknown.append(Unknown(f"whose {found.name} is, and what it holds", reason))
        if mark is not None and _ours(mark, found, site, portal):
            machines.append(_machine(found, mark, claims, sockets))
        else:
            foreign.append(ForeignDomain(found.name, found.uuid, found.state, claims, found.trouble))
    return machines, foreign, unknown


def _ours(mark: Mark, found: Domain, site: Site, portal: str | None) -> bool:
    """Whether a mark counts here, for this portal or for any."""
    return mark.belongs_to(site.host.name, found.uuid) and (
        portal is None or mark.portal == portal or mark.by_acceptance
    )


def _machine(found: Domain, mark: Mark, claims: frozenset[str], sockets: frozenset[str]) -> ObservedMachine:
    state = found.state
    if state is MachineState.RUNNING and mark.asked is not None:
        state = MachineState.STOPPING
    return ObservedMachine(
        machine=found.uuid,
        name=found.name,
        state=state,
        mark=mark,
        address=domain.read_address(found.xml),
        console=found.uuid in sockets,
        claims=claims,
        trouble=found.trouble,
        screen=domain.read_screen(found.xml),
    )
