"""What nvidia-smi says of cards and of the vGPUs on them, from its indented lists. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

from vmctl.card import Mode, Policy, Scheduler
from vmctl.gpus.driver.answers import Active, GPUFigures, Load, TypeFacts, Untold, VGPUFigures
from vmctl.gpus.driver.smi_labels import Section, absent, amount, bare, number, numbers
from vmctl.gpus.type_names import plain

HOST_VGPU = "Host VGPU"
MIXED_SINCE = 550
"""The driver release that brought vGPUs of several sizes on one GPU (dossier 3.1); older ones have no line for it."""

ROUNDED_MIB = 4
"""Each of the four numbers of a memory is rounded for itself."""

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SWITCH = {"enabled": True, "disabled": False}
POLICIES = {
    "best effort": Policy.BEST_EFFORT,
    "equal share": Policy.EQUAL_SHARE,
    "fixed share": Policy.FIXED_SHARE,
}
LICENCE = re.compile(r"(Licensed|Unlicensed)(?: \((?P<more>[^()]*)\))?", re.IGNORECASE)


# Of a card: `nvidia-smi -q` -----------------------------------------------------------------------


def mode(card: Section, label: str) -> Mode | Untold | None:
    """A switch with what holds now and what after a reset; None: the card has no such switch."""
    said = [card.get(label, part) for part in ("Current", "Pending")]
    if all(absent(each) for each in said):
        return None
    current, pending = (SWITCH.get((bare(each) or "").casefold()) for each in said)
    if current is None or pending is None:
        return Untold(f"nvidia-smi -q says {said[0]!r}, pending {said[1]!r}, of {label}.")
    return Mode(current, pending)


def vgpu_host(card: Section) -> bool | Untold:
    """Whether the driver makes vGPUs on this card."""
    said = card.get("GPU Virtualization Mode", "Virtualization Mode")
    if said is None:
        return Untold("nvidia-smi -q does not say how the card is virtualised.")
    return said == HOST_VGPU


def mixed(card: Section, driver: str | None) -> bool | Untold | None:
    """Whether vGPUs of several sizes may stand on the card; None: its driver or its generation has no such mode."""
    said = card.get("GPU Virtualization Mode", "vGPU Heterogeneous Mode")
    known = SWITCH.get((said or "").casefold())
    if known is not None or absent(said):
        return known
    release = re.match(r"(\d+)\.", driver or "")
    if said is None and release and int(release[1]) < MIXED_SINCE:
        return None
    return Untold(f"nvidia-smi -q says {said!r} of vGPU Heterogeneous Mode.")


def figures(card: Section) -> GPUFigures:
    """How the card is now."""
    power = card.get("GPU Power Readings", "Power Draw") or card.get("Power Readings", "Power Draw")
    return GPUFigures(
        load=_load(card),
        memory_used_mib=_memory_used(card),
        temperature_c=number(card.get("Temperature", "GPU Current Temp"), "C"),
        power_w=amount(power, "W"),
    )


def _load(section: Section) -> Load:
    gpu, memory, encoder, decoder = (
        number(section.get("Utilization", label), "%") for label in ("GPU", "Memory", "Encoder", "Decoder")
    )
    return Load(gpu, memory, encoder, decoder)


def _memory_used(section: Section) -> int | None:
    """MiB; nothing where the sum is wrong, for then a line of another memory stands among them."""
    total, used, free = (number(section.get("FB Memory Usage", label), "MiB") for label in ("Total", "Used", "Free"))
    reserved = number(section.get("FB Memory Usage", "Reserved"), "MiB") or 0
    if total is None or used is None or free is None or abs(total - reserved - used - free) > ROUNDED_MIB:
        return None
    return used


# Of what runs on it: `nvidia-smi vgpu -q` ---------------------------------------------------------


def vgpus(card: Section) -> tuple[VGPUFigures, ...] | Untold:
    """Every vGPU whose machine runs; nothing where the list is not as long as it says itself."""
    found = card.all("vGPU ID")
    told = number(card.get("Active vGPUs"))
    if told is None or told != len(found):
        return Untold(f"nvidia-smi vgpu -q lists {len(found)} vGPUs and says that {told} run.")
    figures = [_running(section) for section in found]
    whole = tuple(each for each in figures if each is not None)
    if len(whole) != len(found):
        return Untold("nvidia-smi vgpu -q lists a vGPU without its number.")
    return whole


def _running(section: Section) -> VGPUFigures | None:
    own = number(section.value)
    if own is None:
        return None
    vm = next((said for said in (section.get("VM UUID"), section.get("VM ID")) if said and UUID.fullmatch(said)), None)
    guest = section.get("Guest Driver Version")
    active = Active(
        number=own,
        vm=vm,
        vm_name=machine_name(section.get("VM Name")),
        mdev=next((said for said in (section.get("MDEV UUID"),) if said and UUID.fullmatch(said)), None),
        type=plain(section.get("vGPU Name") or ""),
        placement=number(section.get("Placement ID")),
        instance=number(section.get("GPU Instance ID")),
        licence=licence(section.get("License Status")),
        guest_driver=None if absent(guest) else guest,
        frame_buffer_used_mib=_memory_used(section),
    )
    return VGPUFigures(active, _load(section), number(section.get("FB Memory Usage", "Total"), "MiB"))


def machine_name(said: str | None) -> str | None:
    """A machine's name without the rest of QEMU's -name option, which some drivers print with it."""
    name = (said or "").partition(",debug-threads=")[0].removeprefix("guest=")
    return None if not name or absent(name) else name


def licence(said: str | None) -> str | None:
    """A licence's state in few words, its end in GMT with all its noughts; None where the guest says nothing."""
    found = LICENCE.fullmatch(said or "")
    if found is None:
        return None
    state, more = found[1].lower(), found["more"] or ""
    if state == "unlicensed":
        return f"unlicensed ({more.lower()})" if more.lower() in ("restricted", "unrestricted") else state
    try:
        end = datetime.strptime(more, "Expiry: %Y-%m-%d %H:%M:%S GMT")
    except ValueError:
        return state
    return f"licensed until {end:%Y-%m-%d %H:%M:%S} GMT"


# Of the types it offers: `nvidia-smi vgpu -s -v`, `-c -v` -----------------------------------------


def types(section: Section) -> Mapping[str, TypeFacts] | Untold:
    """Every type by name; nothing where one of them has no name or no number, for then lines are missing."""
    found = {}
    blocks = section.all("vGPU Type ID")
    untold = Untold("nvidia-smi vgpu -v lists a vGPU type without a name or number of its own.")
    if sum(line.label == "Name" for line in section.walk()) != len(blocks):
        return untold
    for block in blocks:
        name, own = block.get("Name"), number(block.value)
        if name is None or own is None or plain(name) in found:
            return untold
        found[plain(name)] = _type(plain(name), own, block)
    return found


def _type(name: str, own: int, block: Section) -> TypeFacts:
    return TypeFacts(
        name=name,
        number=own,
        memory_mib=number(block.get("FB Memory"), "MiB"),
        most=number(block.get("Max Instances")),
        per_instance=number(block.get("Max Instances Per GI")),
        profile_id=number(block.get("GPU Instance Profile ID")),
        placement_size=number(block.get("Placement Size")),
        placements=numbers(block.get("Supported Placement IDs")),
        creatable=numbers(block.get("Creatable Placement IDs")),
    )


# How its vGPUs share it: `nvidia-smi vgpu -ss` ----------------------------------------------------


def scheduler(section: Section) -> Scheduler | Untold:
    """The policy and, where vGPUs run, the time slice."""
    said = section.get("Scheduler Policy")
    policy = POLICIES.get((said or "").casefold())
    if policy is None:
        return Untold(f"nvidia-smi vgpu -ss says {said!r} of the scheduler policy.")
    slice_ns = number(section.get("Time Slice(ns)")) or number(section.get("Time Slice (ns)"))
    return Scheduler(policy, slice_ns // 1000 if slice_ns else None)
