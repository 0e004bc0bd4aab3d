"""GPU instances under vGPUs: made where the plan says before the vGPU, taken away after it (dossier 3.3).

vmctl destroys only instances of its own: those at the place of a share in the ledger, which is noted before anything
is made. Whoever else makes instances keeps them, and is named where one is in the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from vmctl.card import Cell, Regime, span
from vmctl.errors import Code, VmctlError
from vmctl.gpus import mdev_bus, vf_type
from vmctl.gpus.cards import Card
from vmctl.gpus.driver import lock, smi_tables
from vmctl.gpus.driver.answers import DriverFacts, Instance, Profile
from vmctl.gpus.layers.cells import overlap
from vmctl.gpus.layers.mig_cells import cell, cells, profile_of
from vmctl.gpus.shares import Making
from vmctl.host import Answer, Host
from vmctl.ledger import Ledger, Made
from vmctl.model import WantedVGPU

READ_SECONDS, CHANGE_SECONDS = 10.0, 30.0
"""How long nvidia-smi may take to list, and to make or destroy an instance."""

Home = tuple[Cell | None, int]
"""Where a GPU instance lies, and the number of its profile."""


@dataclass(frozen=True)
class Ground:
    """A GPU in MIG mode: what is on it now, and what of it is ours."""

    host: Host
    card: Card
    told: DriverFacts
    ledger: Ledger

    @property
    def made(self) -> list[Made]:
        """The shares of ours that lie in GPU instances of this card, or are to."""
        return [each for each in self.ledger if each.gpu == self.card.address and each.regime == Regime.MIG]

    def at(self, instance: Instance) -> list[Made]:
        """Those of one instance."""
        return [each for each in self.made if self._home(each) == (cell(instance), instance.profile_id)]

    def is_busy(self, instance: Instance) -> bool:
        """Whether a vGPU exists in it: one of ours, or one that runs. Raises VmctlError where that is not told."""
        if any(exists(self.host, each, self.ledger) for each in self.at(instance)):
            return True
        if self.told.active is None:
            what = f"Which vGPUs run on GPU {self.card.address} cannot be told."
            raise VmctlError(Code.COULD_NOT_TELL, what, "Run nvidia-smi vgpu -q on the host.", retry=True)
        return any(vgpu.instance == instance.id for vgpu in self.told.active)

    def _home(self, made: Made) -> Home:
        return home(made, self.told)


def home(made: Made, told: DriverFacts) -> Home:
    """Where the GPU instance of a share of ours lies, and of which profile it is.

    By our notes, else by what the driver lists for its type. Raises VmctlError where that cannot be told.
    """
    if made.profile_id is not None:
        return made.cell, made.profile_id
    profile = profile_of(made.type, told)
    if profile is None:
        what = f"Which GPU instance on GPU {made.gpu} belongs to the {made.type} {made.uuid} cannot be told."
        raise VmctlError(Code.COULD_NOT_TELL, what, "Run nvidia-smi mig -lgip on the host.", retry=True)
    return made.cell, profile.id


def foreign(gpu: str, told: DriverFacts, made: Iterable[Made]) -> list[Instance]:
    """The GPU instances that none of our notes owns. Raises VmctlError where there may be some that cannot be seen."""
    if told.mig is None or not told.mig.current:
        return []
    if told.instances is None:
        raise _unseen(gpu, "the driver does not list them.")
    ours = [each for each in made if each.gpu == gpu and each.regime == Regime.MIG]
    homes = {home(each, told) for each in ours} if told.instances else set()
    return [each for each in told.instances if (cell(each), each.profile_id) not in homes]


def refuse_untold(gpu: str, told: DriverFacts) -> None:
    """Raise VmctlError where nobody tells whether a card is in MIG mode: somebody's GPU instances may be on it."""
    why = [gap.reason for gap in told.unknown if gap.what == "mig"]
    if told.mig is None and why:
        raise _unseen(gpu, " ".join(why))


def _unseen(gpu: str, why: str) -> VmctlError:
    what = f"Which GPU instances GPU {gpu} has cannot be told: {why}"
    return VmctlError(Code.COULD_NOT_TELL, what, "Run nvidia-smi mig -lgi as root on the host.", retry=True)


def make_room(host: Host, card: Card, making: Making, told: DriverFacts) -> Making:
    """See to it that the GPU instance of a wanted cell exists. What stands in its way and is ours and idle goes.

    Gives the making with the instance's profile, which belongs into its note. Raises VmctlError (no capacity where
    somebody else's is in the way), and then nothing of it is there.
    """
    wanted, profile = making.wanted, _profile(making.wanted, told)
    making = replace(making, profile_id=profile.id)
    ground = Ground(host, card, told, making.ledger)
    for instance in _in_the_way(ground, wanted, profile):
        _destroy(ground, instance)
        for each in ground.at(instance):
            making.ledger.cross_out(each.uuid)  # its vGPU is gone, and so is this
    if any(_is(each, wanted.cell, profile) for each in instances(host, card)):
        return making
    noted = making.ledger.get(wanted.uuid)
    if noted is None or _moved(noted, wanted):
        making.note(card.address)
    refusal = _create(ground, wanted, profile)
    if refusal is not None:
        making.ledger.cross_out(wanted.uuid)
        raise refusal
    return making


def after_release(host: Host, card: Card, uuid: str, told: DriverFacts) -> None:
    """The GPU instance of a share that is gone goes as well, unless another vGPU is in it. Raises VmctlError."""
    ground = Ground(host, card, told, Ledger(host.state_dir))
    if all(each.uuid != uuid for each in ground.made):
        return
    for instance in instances(host, card):
        owners = ground.at(instance)
        if any(each.uuid == uuid for each in owners) and not any(exists(host, each, ground.ledger) for each in owners):
            _destroy(ground, instance)


def elsewhere(host: Host, card: Card, device: str, wanted: WantedVGPU) -> VmctlError | None:
    """What to say of a vGPU that came into another GPU instance than the planned one; None where it did not.

    Where a function shows no instance before the machine runs, nothing can be said. Raises VmctlError as `instances`.
    """
    number = instance_of(host, device)
    if number is None:
        return None
    landed = next((each for each in instances(host, card) if each.id == number), None)
    if landed is not None and cell(landed) == wanted.cell:
        return None
    where = f"GPU instance {number}, which is not listed" if landed is None else _named(landed)
    return VmctlError(
        Code.NO_CAPACITY,
        f"The driver put {wanted.type} on GPU {wanted.gpu} into {where}, not at {span(wanted.cell)}.",
        "Destroy GPU instances of that profile that nobody needs (nvidia-smi mig -dgi).",
        retry=True,
    )


def exists(host: Host, made: Made, ledger: Ledger) -> bool:
    """Whether the vGPU of a share is there: its mediated device, or a type on its virtual function.

    Raises VmctlError where that cannot be told.
    """
    if mdev_bus.device(host, made.uuid) is not None:
        return True
    if made.device is None or ledger.on(made.device) != made:
        return False
    number = vf_type.current(host, made.device)
    return number is not None and made.driver_id in (None, number)


def instance_of(host: Host, device: str) -> int | None:
    """The number of the GPU instance that a virtual function's vGPU lies in; None: it shows none (ENXIO)."""
    text = (host.read_or_none(host.pci(device) / "nvidia/gpu_instance_id") or "").strip()
    return int(text) if text.isdecimal() else None


def instances(host: Host, card: Card) -> list[Instance]:
    """The GPU instances that exist on a card now. Raises VmctlError where that cannot be told."""
    answer = _smi(host, card, ["-lgi"], changes=False)
    found = smi_tables.instances(answer.output + answer.errors)
    if found is None:
        raise VmctlError(
            Code.COULD_NOT_TELL,
            f"The GPU instances of {card.address} cannot be listed: {_said(answer)}",
            "Run nvidia-smi mig -lgi as root on the host.",
            retry=True,
        )
    return [each for group in found.values() for each in group]


def _profile(wanted: WantedVGPU, told: DriverFacts) -> Profile:
    """The profile of a wanted vGPU at a place that is legal for it, on a card that is in MIG mode and stays so."""
    if told.mig is None or not told.mig.current or not told.mig.pending:
        raise VmctlError(
            Code.FAILED,
            f"GPU {wanted.gpu} is not in MIG mode, or will leave it with its next reset.",
            "Set its regime, and reset the card or reboot the host while nothing uses it (vmctl plan).",
            retry=True,
        )
    profile = profile_of(wanted.type, told)
    if profile is None:
        what = f"The driver does not tell which GPU instance {wanted.type} on GPU {wanted.gpu} needs."
        raise VmctlError(Code.COULD_NOT_TELL, what, "Run nvidia-smi mig -lgip on the host.", retry=True)
    if wanted.cell not in cells(profile):
        legal = ", ".join(map(span, cells(profile)))
        what = f"{profile.name} on GPU {wanted.gpu} cannot lie at {span(wanted.cell)}; the driver allows {legal}."
        raise VmctlError(Code.FAILED, what, "Plan it at one of these places.")
    return profile


def _moved(made: Made, wanted: WantedVGPU) -> bool:
    return (made.gpu, made.regime, made.cell) != (wanted.gpu, wanted.regime, wanted.cell)


def _in_the_way(ground: Ground, wanted: WantedVGPU, profile: Profile) -> list[Instance]:
    """Idle instances of ours that must go: where the new one will lie, and others that the vGPU might land in.

    Raises VmctlError when one overlaps that is not ours, or has a vGPU in it.
    """
    going, staying = [], []
    for instance in instances(ground.host, ground.card):
        owners, over = ground.at(instance), overlap(cell(instance), wanted.cell or (0, 0))
        if _is(instance, wanted.cell, profile) and owners:
            continue
        once_its_own = any(each.uuid == wanted.uuid for each in owners)
        concerned = over or once_its_own or instance.profile_id == profile.id
        if owners and concerned and not ground.is_busy(instance):
            going.append(instance)
        elif over:
            staying.append(f"{_named(instance)} ({'has a vGPU' if owners else 'not made by vmctl'})")
    if staying:
        raise VmctlError(
            Code.NO_CAPACITY,
            f"GPU {wanted.gpu} has no room for {profile.name} at {span(wanted.cell)}: {'; '.join(staying)}.",
            "Take away what lies there, if nobody needs it (nvidia-smi mig -dci, -dgi).",
            retry=True,
        )
    return going


def _create(ground: Ground, wanted: WantedVGPU, profile: Profile) -> VmctlError | None:
    """Make the instance and look whether it is there: an exit status of 0 proves nothing (field log A20).

    Gives the refusal when it is not, and raises where that cannot be told.
    """
    start = (wanted.cell or (0, 0))[0]
    answer = _smi(ground.host, ground.card, ["-cgi", f"{profile.id}:{start}", "-C"], changes=True)
    found = [each for each in instances(ground.host, ground.card) if _is(each, wanted.cell, profile)]
    if found and not answer.status:
        return None
    for instance in found:
        _destroy(ground, instance)
    return _refusal(answer, f"GPU {wanted.gpu} makes no GPU instance {profile.name} at {span(wanted.cell)}")


def _destroy(ground: Ground, instance: Instance) -> None:
    """Its compute instances first; what counts is whether it is gone. Raises VmctlError (busy where it is in use)."""
    number = str(instance.id)
    parts = _smi(ground.host, ground.card, ["-dci", "-gi", number], changes=True)
    whole = _smi(ground.host, ground.card, ["-dgi", "-gi", number], changes=True)
    if any(each.id == instance.id for each in instances(ground.host, ground.card)):
        answer = Answer(whole.status, f"{parts.output}\n{whole.output}", f"{parts.errors}\n{whole.errors}")
        raise _refusal(answer, f"GPU {ground.card.address} keeps {_named(instance)}")


def _is(instance: Instance, place: Cell | None, profile: Profile) -> bool:
    return (cell(instance), instance.profile_id) == (place, profile.id)


def _named(instance: Instance) -> str:
    return f"GPU instance {instance.id} ({instance.profile} at {span(cell(instance))})"


def _smi(host: Host, card: Card, words: Sequence[str], *, changes: bool) -> Answer:
    """Ask or command nvidia-smi. Nobody looks at the cards during a change: a look holds them, and it is refused."""
    command = ["nvidia-smi", "mig", "-i", card.address, *words]
    if not changes:
        with lock.looking(host, host.left(lock.CHANGE_SECONDS)):
            return host.driver_tool(command, limit=READ_SECONDS, changes=False)
    with lock.alone(host):
        return host.driver_tool(command, limit=CHANGE_SECONDS, changes=True)


def _said(answer: Answer) -> str:
    """What nvidia-smi said, in one line; it uses both outputs."""
    return " ".join(f"{answer.output} {answer.errors}".split()) or f"nothing (exit status {answer.status})."


def _refusal(answer: Answer, what: str) -> VmctlError:
    """The driver's refusals in words (dossier 3.3 and 9); a text that is not known stands as it is."""
    said = _said(answer)
    if "Insufficient Resources" in said:
        return VmctlError(Code.NO_CAPACITY, f"{what}: {said}", "Look at what lies there (vmctl gpus).", retry=True)
    if "In use by another client" in said:
        remedy = "End what uses the card: an exporter, a monitor, a program (fuser -v /dev/nvidia*)."
        return VmctlError(Code.BUSY, f"{what}: {said}", remedy, retry=True)
    if "Insufficient Permissions" in said:
        return VmctlError(Code.FAILED, f"{what}: {said}", "Run vmctl as root.")
    return VmctlError(Code.FAILED, f"{what}: {said}", "Look at the kernel's log of this minute (dmesg).", retry=True)
