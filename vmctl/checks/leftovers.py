"""What somebody made on the cards and nobody has: named, with the exact command that takes it away. Removes nothing.

One may be seen for a moment while a machine starts, so they are warnings.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from vmctl.card import Framework, ProvidedVGPU, Regime
from vmctl.checks.finding import Evidence, Verdict, not_applicable, passed, unknown, warned
from vmctl.checks.look import AS_ROOT, Look
from vmctl.gpus import HOLDERS, processes
from vmctl.gpus.driver.answers import Instance
from vmctl.gpus.layers.places import is_instance

BUS = "/sys/bus/pci/devices"
MDEVS = "/sys/bus/mdev/devices"


def vgpus(look: Look) -> Verdict:
    """Shares that no domain names, running or off."""
    hidden = [Evidence(gpu.address, gap.reason) for gpu in look.gpus for gap in gpu.unknown if gap.what == HOLDERS]
    if hidden:
        return unknown("Let vmctl read the lists of shares.", *hidden)
    shares = [share for gpu in look.gpus for share in gpu.holders if not is_instance(share)]
    alone = [share for share in shares if not _is_named(look, share)]
    if not alone and (left := [share for share in shares if _by_acceptance(look, share)]):
        evidence = [
            Evidence(share.device, f"{share.type} on {share.gpu}, the guest of an acceptance") for share in left
        ]
        return warned("If no vmctl accept runs, it was cut off: the next vmctl apply or accept ends it.", *evidence)
    if not alone:
        return passed(("shares", f"{len(shares)}, each with its machine"))
    users = processes.everyone(look.host)
    held = {share: users.of(_nodes(look, share)) for share in alone}
    evidence = [Evidence(share.device, _state(share, held[share])) for share in alone]
    if look.libvirt.unread:
        return _unread(look, *evidence)
    if not users.whole:
        return warned(f"{AS_ROOT} It names who has them open, or how they are removed.", *evidence)
    return warned(_remedy(look, held), *evidence)


def _state(share: ProvidedVGPU, holders: Collection[processes.Holder]) -> str:
    who = f"held by {processes.named(holders)}" if holders else "no machine"
    return f"{share.type} on {share.gpu}, {who}"


def _remedy(look: Look, held: Mapping[ProvidedVGPU, Collection[processes.Holder]]) -> str:
    """What a process has open is not removed: the command would sleep in the kernel until that has ended (B10)."""
    open_now = [holder for holders in held.values() for holder in holders]
    free = [share for share, holders in held.items() if not holders]
    parts = []
    if open_now:
        parts.append(f"Find out whose machine it is, and end it there: {processes.named(open_now)}.")
    if free:
        parts.append(f"If they stay, remove them: {'; '.join(_removal(look, share) for share in free)}")
    return " ".join(parts)


def _nodes(look: Look, share: ProvidedVGPU) -> set[str]:
    if share.framework in (Framework.MDEV_PF, Framework.MDEV_VF):
        return processes.vfio_nodes(look.host, f"{MDEVS}/{share.device}")
    return processes.function_nodes(look.host, share.parent)


def _unread(look: Look, *evidence: Evidence) -> Verdict:
    """A domain whose XML makes no sense may name what seems to be nobody's."""
    names = ", ".join(look.libvirt.unread)
    return unknown(f"Look what these domains name: {names}.", ("libvirt", f"cannot be read: {names}"), *evidence)


def _is_named(look: Look, share: ProvidedVGPU) -> bool:
    claims = look.libvirt.claims
    return share.device in claims or share.uuid in claims or (share.handle is not None and share.parent in claims)


def _by_acceptance(look: Look, share: ProvidedVGPU) -> bool:
    names = (look.libvirt.claims.get(claim) for claim in (share.device, share.uuid or "", share.parent))
    return any(name in look.libvirt.by_acceptance for name in names)


def _removal(look: Look, share: ProvidedVGPU) -> str:
    if share.framework in (Framework.MDEV_PF, Framework.MDEV_VF):
        return f"echo 1 > {MDEVS}/{share.uuid}/remove"
    if share.framework is Framework.VENDOR_VFIO:
        return f"echo 0 > {BUS}/{share.parent}/nvidia/current_vgpu_type"
    return _give_back(look, share.parent)


def _give_back(look: Look, address: str) -> str:
    """How a function goes back to the driver that the kernel would choose (dossier 1.4)."""
    bound = look.host.link(look.host.pci(address) / "driver") is not None
    unbind = f"echo {address} > {BUS}/{address}/driver/unbind; " if bound else ""
    return f"{unbind}echo > {BUS}/{address}/driver_override; echo {address} > /sys/bus/pci/drivers_probe"


def instances(look: Look) -> Verdict:
    """MIG GPU instances without a vGPU on them; somebody may have made them for programs of the host itself."""
    cards = [gpu for gpu in look.gpus if gpu.mig is not None and gpu.mig.current]
    if not cards:
        return not_applicable(("mig", "no card is in MIG mode"))
    evidence, commands, gaps = [], [], []
    for gpu in cards:
        found = look.facts[gpu.address].instances if gpu.address in look.facts else None
        if found is None or any(share.regime is Regime.MIG and share.cell is None for share in gpu.holders):
            gaps.append(Evidence(gpu.address, "which GPU instance each vGPU lies in could not be seen"))
            continue
        for instance in found:
            if not _is_used(instance, [share for share in gpu.holders if not is_instance(share)]):
                evidence.append(Evidence(gpu.address, f"GPU instance {instance.id}, {instance.profile}, no vGPU"))
                chosen = f"nvidia-smi mig -i {gpu.address} -gi {instance.id}"
                commands.append(f"{chosen} -dci; {chosen} -dgi")
    if gaps:
        return unknown("Look at: nvidia-smi mig -lgi", *gaps, *evidence)
    if not evidence:
        return passed(("nvidia-smi mig -lgi", "each GPU instance has its vGPU"))
    return warned(f"If they stay, remove them: {'; '.join(commands)}", *evidence)


def _is_used(instance: Instance, shares: Collection[ProvidedVGPU]) -> bool:
    end = instance.start + instance.size
    cells = [share.cell for share in shares if share.cell is not None]
    return any(first < end and instance.start < last for first, last in cells)


def functions(look: Look) -> Verdict:
    """Functions of GPUs that are kept from their driver by an override, though no domain names them."""
    noted = {share.parent for gpu in look.gpus for share in gpu.holders}
    kept = [name for name in _overridden(look) if name not in noted]
    stale = [name for name in kept if name not in look.libvirt.claims]
    if not stale:
        return passed((BUS, "no function of a GPU is kept on vfio-pci without a machine"))
    evidence = [
        Evidence(f"{BUS}/{name}", f"driver_override vfio-pci, driver {look.host.link(look.host.pci(name) / 'driver')}")
        for name in stale
    ]
    if look.libvirt.unread:
        return _unread(look, *evidence)
    commands = "; ".join(_give_back(look, name) for name in stale)
    return warned(f"If no machine will get them: {commands}", *evidence)


def _overridden(look: Look) -> Iterator[str]:
    """The functions of the cards here that an override sends to vfio-pci."""
    slots = {gpu.address.rpartition(".")[0] for gpu in look.gpus}
    virtual = {target for gpu in look.gpus for target in _virtual(look, gpu.address)}
    for name in look.entries(BUS):
        ours = name.rpartition(".")[0] in slots or name in virtual
        if ours and (look.text(f"{BUS}/{name}/driver_override") or "").strip() == "vfio-pci":
            yield name


def _virtual(look: Look, address: str) -> Iterator[str]:
    folder = look.host.pci(address)
    for name in look.host.names(folder):
        target = look.host.link(folder / name) if re.fullmatch(r"virtfn\d+", name) else None
        if target is not None:
            yield target
