"""Every question of the doctor: its id, what it asks, who answers. docs/ and `vmctl check` go by this list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vmctl.card import GPU
from vmctl.checks import access, cards, driver, iommu, leftovers, libvirt, machine, modules
from vmctl.checks.finding import Verdict
from vmctl.checks.look import Look


@dataclass(frozen=True)
class Check:
    """A question about the host as a whole."""

    id: str
    question: str
    ask: Callable[[Look], Verdict]


@dataclass(frozen=True)
class CardCheck:
    """A question about each GPU."""

    id: str
    question: str
    ask: Callable[[Look, GPU], Verdict]


CHECKS: Sequence[Check | CardCheck] = (
    Check("gpus.present", "Is there a GPU?", cards.present),
    CardCheck("card.on_bus", "Does the card answer on its bus?", cards.on_bus),
    Check("iommu.enabled", "Does the kernel use an IOMMU?", iommu.enabled),
    Check("iommu.remapping", "Are interrupts of devices remapped?", iommu.remapping),
    CardCheck("iommu.group_viable", "Can the card's group go to one machine?", iommu.group_viable),
    Check("vfio.available", "Has the kernel VFIO, as a module or built in?", modules.vfio),
    Check("kvm.works", "Does a test machine run on KVM?", machine.works),
    Check("nouveau.absent", "Are nouveau and nova_core kept away?", modules.nouveau),
    Check("secureboot.modules", "Does a signed boot take the driver's modules?", modules.secure_boot),
    CardCheck("driver.bound", "Is the card on its driver?", driver.bound),
    Check("driver.versions", "Are kernel module, library and nvidia-smi of one release?", driver.versions),
    Check("driver.package", "Is it the vGPU host driver, not the plain one?", driver.package),
    Check("vgpu.manager", "Do the vGPU manager's services run?", driver.manager),
    CardCheck("display.mode", "Are the card's screen outputs off?", cards.display),
    CardCheck("sriov.firmware", "Has the firmware left room for virtual functions?", cards.firmware),
    CardCheck("sriov.enabled", "Are the virtual functions on?", cards.functions),
    CardCheck("mig.pending", "Is no change of MIG waiting for a reset?", cards.mig),
    CardCheck("ecc.pending", "Is no change of ECC waiting for a reboot?", cards.ecc),
    CardCheck("vgpu.types", "Does the card offer sizes?", driver.types),
    Check("memory.lock_limit", "May libvirt lock a machine's memory?", machine.lock_limit),
    Check("memory.hugepages", "Is enough memory left beside huge pages?", machine.hugepages),
    Check("confinement", "Have AppArmor and SELinux refused QEMU nothing?", access.confinement),
    Check("tools.present", "Are all tools there that the cards need?", access.tools),
    Check("libvirt.version", "Does libvirt answer, and is it new enough for the cards?", libvirt.version),
    Check("libvirt.daemons", "Does one set of libvirt's daemons run?", libvirt.daemons),
    Check("libvirt.shutdown", "Are machines shut down with the host?", libvirt.shutdown),
    Check("sshd.limits", "Can a class open its consoles at once?", access.sshd),
    Check("clock", "Is the clock set by the network?", machine.clock),
    Check("disk", "Is there room for machines' disks?", machine.disk),
    Check("storage.thin_pools", "Are thin pools far from full?", machine.thin_pools),
    Check("leftovers.vgpus", "Has every share its machine?", leftovers.vgpus),
    Check("leftovers.gpu_instances", "Has every GPU instance its vGPU?", leftovers.instances),
    Check("leftovers.functions", "Is no function kept from its driver for nobody?", leftovers.functions),
)
