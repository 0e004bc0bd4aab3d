"""What turns a card as it is set into the card as it should be set, and what has to wait for that. Pure.

The order is the one that works (dossier 1.5): MIG changes only without virtual functions, virtual functions come up
without GPU instances, mixed size and scheduler are lost when they come up. All of it needs a card that nothing uses.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from vmctl.card import GPU, HOLDERS, CardChange, CardSettings, Framework, Knob, Mode, ProvidedVGPU, Regime, Unknown
from vmctl.errors import Code, VmctlError
from vmctl.model import DesiredMachine, Place, WantedVGPU
from vmctl.observation import Observation, Whose
from vmctl.plan import possible
from vmctl.plan.card_steps import REBOOT, ChangeCard, RefuseCard, WaitForBoot, WaitForDrain

SHARED = (Regime.EQUAL, Regime.MIXED, Regime.MIG)
"""Regimes whose shares lie on virtual functions, where the card makes them there."""
PART = re.compile(r"VF-1of(\d+)")
"""A type of plain SR-IOV: so many virtual functions make its size."""


# One card -----------------------------------------------------------------------------------------


def changes(gpu: GPU, settings: CardSettings, functions: bool = False) -> tuple[CardChange, ...]:
    """The changes from a card's state to its settings, in their order; none when it is as it should be.

    `functions`: somebody wants a share of it, so virtual functions that are off are turned on without any setting.
    A card without a driver that could be asked, or one that waits for a reset or a reboot, is left as it is.
    """
    if gpu.driver in (None, "vfio-pci"):
        return ()
    wanted = settings.regime
    mig = _mig(gpu, wanted)
    if not mig and gpu.mig is not None and gpu.mig.current != gpu.mig.pending:
        return _ecc(gpu, settings)
    off, on = _functions(gpu, settings, functions, again=bool(mig))
    found = (*_ecc(gpu, settings), *off, *mig, *on)
    if not on and (off or _needs_functions(gpu)):
        return found  # what is lost when virtual functions come up is set then
    return (*found, *_mixed(gpu, wanted, fresh=bool(on)), *_scheduler(gpu, settings, fresh=bool(on)))


def _ecc(gpu: GPU, settings: CardSettings) -> tuple[CardChange, ...]:
    """ECC holds after the next reset or reboot; asked for once, it only waits for that."""
    if settings.ecc is None or gpu.ecc is None or gpu.ecc.pending == settings.ecc:
        return ()
    return (CardChange(gpu.address, Knob.ECC, settings.ecc),)


def _mig(gpu: GPU, wanted: Regime | None) -> tuple[CardChange, ...]:
    """A card that is given away whole has no GPU instances either."""
    needed = wanted is Regime.MIG
    if wanted in (None, Regime.VF) or gpu.mig is None or gpu.mig.pending == needed:
        return ()
    return (CardChange(gpu.address, Knob.MIG, needed),)


def _functions(
    gpu: GPU, settings: CardSettings, functions: bool, again: bool
) -> tuple[tuple[CardChange, ...], tuple[CardChange, ...]]:
    """What takes virtual functions away before MIG changes (`again`), and what brings them up after it."""
    if gpu.vfs is None or not gpu.vfs.total or gpu.framework is Framework.MDEV_PF:
        return (), ()
    parts = settings.regime is Regime.VF or (settings.regime is None and gpu.framework is Framework.SRIOV)
    enabled, count = gpu.vfs.enabled, settings.vfs if parts else None
    other = count is not None and count != enabled
    off = (CardChange(gpu.address, Knob.VFS, 0),) if enabled and (again or other) else ()
    needed = settings.regime in (*SHARED, Regime.VF) or functions or count is not None
    down = off or not enabled
    on = (CardChange(gpu.address, Knob.VFS, count),) if needed and down and count != 0 else ()
    return off, on


def _needs_functions(gpu: GPU) -> bool:
    """Whether a card makes its shares on virtual functions, which are off now."""
    return bool(gpu.vfs and gpu.vfs.total and not gpu.vfs.enabled) and gpu.framework is not Framework.MDEV_PF


def _mixed(gpu: GPU, wanted: Regime | None, fresh: bool) -> tuple[CardChange, ...]:
    """Equal size is what a card has when its virtual functions have just come up (`fresh`)."""
    if wanted is Regime.MIXED and (fresh or gpu.mixed is False):
        return (CardChange(gpu.address, Knob.MIXED, True),)
    if wanted is Regime.EQUAL and gpu.mixed and not fresh:
        return (CardChange(gpu.address, Knob.MIXED, False),)
    return ()


def _scheduler(gpu: GPU, settings: CardSettings, fresh: bool) -> tuple[CardChange, ...]:
    wanted = settings.scheduler
    if wanted is None or settings.regime is Regime.WHOLE:
        return ()
    if fresh or (gpu.scheduler is not None and not gpu.scheduler.serves(wanted)):
        return (CardChange(gpu.address, Knob.SCHEDULER, wanted),)
    return ()


# The host -----------------------------------------------------------------------------------------


class Cards:
    """The cards of a host in one plan: what is changed on each, what waits, and what may start on it."""

    def __init__(
        self,
        settings: Iterable[CardSettings],
        observed: Observation,
        starting: Collection[DesiredMachine],
        released: Collection[ProvidedVGPU],
    ) -> None:
        """`starting`: machines that would start now; `released`: shares that are gone before."""
        self._gpus = {gpu.address: gpu for gpu in observed.gpus}
        self._observed = observed
        self._released = released
        told = {card.gpu: card for card in settings}
        self._unfit = dict(_unfit(told, self._gpus, observed.unknown))
        told = {
            address: CardSettings(address, types=card.types) if address in self._unfit else card
            for address, card in told.items()
        }
        self._settings = {
            address: _settings(told.get(address) or CardSettings(address), gpu, starting)
            for address, gpu in self._gpus.items()
        }
        self._changes = {
            address: changes(gpu, self._settings[address], _wants_functions(address, starting))
            for address, gpu in self._gpus.items()
        }
        whose = observed.whose
        self._holders = {address: tuple(users(gpu, whose, released)) for address, gpu in self._gpus.items()}

    @property
    def steps(self) -> Iterator[ChangeCard | WaitForDrain | WaitForBoot | RefuseCard]:
        """What cannot be, what is done to the cards, and what waits until nothing uses them or for the next boot."""
        yield from (RefuseCard(address, error) for address, error in self._unfit.items())
        for address, wanted in self._changes.items():
            if not _stays(wanted):
                continue
            yield from pending(self._gpus[address])
            error = possible.not_offered(self._settings[address].types, self._gpus[address])
            if error is not None and address not in self._unfit:
                yield RefuseCard(address, error)
        for address, wanted in self._changes.items():
            if wanted and self._holders[address]:
                yield WaitForDrain(wanted, self._holders[address])
            else:
                yield from (ChangeCard(change) for change in wanted)

    def refusal(self, vgpu: WantedVGPU) -> VmctlError | None:
        """Why a share may not be made at its (first) place now, if it may not."""
        gpu = self._gpus.get(vgpu.gpu)
        if gpu is None:
            return possible.missing(vgpu.gpu, self._observed.unknown)
        if vgpu.regime is Regime.WHOLE and (claimed := self._claimed(gpu)) is not None:
            return claimed
        offered = self._settings[vgpu.gpu].types
        if vgpu.regime is not Regime.WHOLE and offered is not None and vgpu.type not in offered:
            what = f"GPU {gpu.address} is not set to offer {vgpu.type}; it offers {', '.join(offered) or 'none'}."
            return VmctlError(Code.FAILED, what, "Choose one of these, or have the type offered on that card.")
        if gpu.mig is not None and gpu.mig.current != gpu.mig.pending and not self._changes[vgpu.gpu]:
            return pending_error(gpu)
        if _stays(self._changes[vgpu.gpu]) and (error := possible.impossible(vgpu, gpu)) is not None:
            return error
        after = self._after(gpu)
        if after is None or vgpu.regime is after or (vgpu.regime is Regime.WHOLE and Regime.WHOLE in gpu.regimes):
            return None
        return _not_whole(gpu) if vgpu.regime is Regime.WHOLE else self._wrong_regime(gpu, vgpu.regime, after)

    def _claimed(self, gpu: GPU) -> VmctlError | None:
        """Why a card is not given away whole: a domain that is not ours names a part of it, even if it is off."""
        parts = {gpu.address, *gpu.iommu_members, *(share.parent for share in gpu.holders)}
        for domain in self._observed.foreign:
            if parts & domain.claims:
                what = f"GPU {gpu.address} is named by the domain {domain.name} ({domain.state}) in part or whole."
                return VmctlError(Code.NO_CAPACITY, what, "Take the device out of that domain.", retry=True)
        return None

    def places(self, vgpu: WantedVGPU) -> WantedVGPU:
        """The share with the places that it may have now; one where it was begun already comes first."""
        begun = {share.gpu for share in self._observed.vgpus if share.uuid == vgpu.uuid}
        allowed = [place for place in vgpu.places if self.refusal(place) is None]
        first, *others = sorted(allowed, key=lambda place: place.gpu not in begun)
        places = (Place(place.gpu, place.cell, place.handle, place.slot) for place in others)
        return replace(first, alternatives=tuple(places))

    def _after(self, gpu: GPU) -> Regime | None:
        """The regime that a card has when this plan is done; None: that shows then."""
        if gpu.regime is Regime.WHOLE and any(share.gpu == gpu.address for share in self._released):
            return None
        if self._changes[gpu.address] and not self._holders[gpu.address]:
            return self._settings[gpu.address].regime or gpu.regime
        return gpu.regime

    def _wrong_regime(self, gpu: GPU, wanted: Regime, after: Regime) -> VmctlError:
        what = f"GPU {gpu.address} is in regime {after}, not {wanted}"
        if self._changes[gpu.address] and self._holders[gpu.address]:
            who = ", ".join(self._holders[gpu.address])
            return VmctlError(Code.LATER, f"{what}, and cannot change while it is held by {who}.", DRAIN, retry=True)
        return VmctlError(Code.LATER, f"{what}.", "Set the card to that regime at the portal.", retry=True)


def _not_whole(gpu: GPU) -> VmctlError:
    """Why a card is given to nobody as it is: a matter of the host, whatever regime it is in."""
    why = "something in its IOMMU group stays with the host" if gpu.iommu_group else "the host gives it no IOMMU group"
    what = f"GPU {gpu.address} cannot be given away whole: {why}."
    return VmctlError(Code.FAILED, what, "Run vmctl check on the host: it tells what to do.")


def pending(gpu: GPU) -> Iterator[WaitForBoot]:
    """The modes of a card that are set and do not hold yet."""
    for knob, mode in ((Knob.MIG, gpu.mig), (Knob.ECC, gpu.ecc)):
        if isinstance(mode, Mode) and mode.current != mode.pending:
            yield WaitForBoot(gpu.address, knob, mode.pending)


def pending_error(gpu: GPU) -> VmctlError:
    """Why a card whose MIG mode is pending takes no machine."""
    what = f"MIG on GPU {gpu.address} changes only at a reset of the card or a reboot of the host."
    return VmctlError(Code.LATER, what, f"{REBOOT[0].upper()}{REBOOT[1:]}.", retry=True)


def _stays(wanted: Collection[CardChange]) -> bool:
    """Whether a card stays cut as it is."""
    return all(change.knob in (Knob.ECC, Knob.SCHEDULER) for change in wanted)


def _unfit(
    told: Mapping[str, CardSettings], found: Mapping[str, GPU], unknown: Collection[Unknown]
) -> Iterator[tuple[str, VmctlError]]:
    """The cards whose settings cannot be. One for which nothing is wished may be gone."""
    for address, settings in told.items():
        if address in found:
            error = possible.unfit(settings, found[address])
        else:
            error = possible.missing(address, unknown) if settings != CardSettings(address) else None
        if error is not None:
            yield address, error


def users(gpu: GPU, whose: Whose, released: Collection[ProvidedVGPU] = ()) -> Iterator[str]:
    """Who keeps a card from being changed, by name: whatever has a share, or may have one, and is not just released."""
    for share in gpu.holders:
        if share not in released:
            yield f"{_user(share, whose)}: {share.type or 'claim on'} {share.device}"
    for gap in gpu.unknown:
        if gap.what == HOLDERS:
            yield f"what could not be seen: {gap.reason}"


def _user(share: ProvidedVGPU, whose: Whose) -> str:
    claimant = whose.claimant(share)
    if claimant is not None:
        return f"{claimant.name} ({claimant.state})"
    return "a machine that has not started" if whose.ours(share) else "nobody known"


DRAIN = "Wait until these machines have ended, or end them."


def _wants_functions(address: str, starting: Iterable[DesiredMachine]) -> bool:
    return any(vgpu.gpu == address and vgpu.regime in SHARED for wish in starting for vgpu in wish.vgpus)


def _settings(told: CardSettings, gpu: GPU, starting: Iterable[DesiredMachine]) -> CardSettings:
    """The settings; for a card without any that was cut into parts before a reboot, as its machine wants them."""
    if told.regime is not None or gpu.regime is Regime.WHOLE:
        return told
    wanted = (vgpu for wish in starting for vgpu in wish.vgpus if vgpu.gpu == gpu.address and vgpu.regime is Regime.VF)
    for vgpu in wanted:
        found = PART.fullmatch(vgpu.type)
        if found and gpu.vfs is not None and not gpu.vfs.enabled:
            return replace(told, regime=Regime.VF, vfs=int(found[1]))
    return told
