"""The desired state: from the portal's JSON to values that the rest of vmctl can trust."""

from collections.abc import Iterable

from vmctl.card import ADDRESS, CardSettings, Cell, Policy, Regime, Scheduler, Slot
from vmctl.documents import SCHEMA, Fields, load
from vmctl.errors import bad_input
from vmctl.model import DesiredMachine, DesiredState, Firmware, Order, Place, Seed, WantedVGPU

# As wide as the portal's own fields: a name that passes there and not here would stop a whole host.
HOST = r"[a-z0-9][a-z0-9.-]{0,62}"
IMAGE = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
LOGIN = r"[a-z_][a-z0-9_-]{0,31}"
CRYPT = r"\$[0-9a-z]{1,8}\$[./=,$A-Za-z0-9-]{1,200}"
TYPE = r"[A-Za-z0-9][A-Za-z0-9 ._+-]{0,63}"
TYPE_REMEDY = "Send a vGPU type's name, like T4-4Q."
DAY = 24 * 3600
LICENCES = (0, 1, 2, 4)
"""FeatureType of gridd.conf: unlicensed, vGPU, vWS, compute (dossier 8)."""
SLICES = (1_000, 30_000)
"""Microseconds of a scheduler's time slice that the driver takes (dossier 4.1)."""


def parse(text: str) -> DesiredState:
    """Read a desired state.  Raises VmctlError (bad_input) that names the first wrong field."""
    fields = Fields(load(text), "")
    if fields.take("schema") is True or fields.take("schema") != SCHEMA:
        raise fields.wrong("schema", f"Send a document of schema {SCHEMA}, or update vmctl.")
    state = DesiredState(
        portal=fields.uuid("portal"),
        host=fields.text("host", HOST, "Send the host's name: small letters, digits, dots and dashes."),
        generation=fields.whole("generation", 0, 2**63 - 1),
        stop_grace_seconds=fields.whole("stop_grace_seconds", 0, DAY),
        expire_allowance_seconds=fields.whole("expire_allowance_seconds", 0, 30 * DAY),
        confirmed_stops=fields.uuids("confirmed_stops"),
        purge=fields.uuids("purge"),
        machines=tuple(_machine(item) for item in fields.objects("machines")),
        cards=tuple(_card(item) for item in fields.objects("cards")),
    )
    fields.done()
    _only_once("machine", (machine.machine for machine in state.machines))
    _only_once("vGPU", (vgpu.uuid for machine in state.machines for vgpu in machine.vgpus))
    _only_once("card", (card.gpu for card in state.cards))
    return state


def _card(fields: Fields) -> CardSettings:
    card = CardSettings(
        gpu=_gpu(fields),
        regime=fields.maybe("regime", lambda key: fields.word(key, Regime)),
        vfs=fields.maybe("vfs", lambda key: fields.whole(key, 0, 65535)),
        scheduler=_scheduler(fields),
        ecc=fields.maybe("ecc", fields.flag),
        types=fields.maybe("types", lambda key: fields.texts(key, TYPE, TYPE_REMEDY)),
    )
    fields.done()
    _refuse_contradictions(fields, card)
    return card


def _refuse_contradictions(fields: Fields, card: CardSettings) -> None:
    """What no driver takes together would leave the card unready for ever."""
    if card.vfs is not None and card.regime not in (None, Regime.VF):
        raise fields.wrong("vfs", f"Send null: in the regime {card.regime} the driver decides how many there are.")
    if card.scheduler is None:
        return
    if card.scheduler.policy is Policy.FIXED_SHARE and card.regime is Regime.MIXED:
        raise fields.wrong("scheduler", "Send another policy: with shares of several sizes none is fixed.")
    if card.scheduler.time_slice_us is not None and card.regime in (Regime.MIG, Regime.WHOLE, Regime.VF):
        raise fields.wrong("scheduler", f"Send no time slice: in the regime {card.regime} no time is shared.")


def _scheduler(fields: Fields) -> Scheduler | None:
    if fields.take("scheduler") is None:
        return None
    inner = fields.object("scheduler")
    scheduler = Scheduler(
        inner.word("policy", Policy), inner.maybe("time_slice_us", lambda key: inner.whole(key, *SLICES))
    )
    if scheduler.policy is Policy.BEST_EFFORT and scheduler.time_slice_us is not None:
        raise inner.wrong("time_slice_us", "Send null: best effort has no time slice.")
    inner.done()
    return scheduler


def _machine(fields: Fields) -> DesiredMachine:
    machine = DesiredMachine(
        machine=fields.uuid("machine"),
        reservation=fields.uuid("reservation"),
        order=fields.word("order", Order),
        start=fields.time("start"),
        end=fields.time("end"),
        promised=fields.maybe("promised", fields.time),
        force_at=fields.maybe("force_at", fields.time),
        hostname=fields.text("hostname", LABEL, "Send a host name: small letters, digits and dashes, at most 63."),
        vcpus=fields.whole("vcpus", 1, 512),
        memory_mib=fields.whole("memory_mib", 16, 2**24),
        disk_gib=fields.whole("disk_gib", 1, 65536),
        image=fields.text("image", IMAGE, "Send an image's name: letters, digits, dots, dashes, underscores."),
        vgpus=tuple(_vgpu(item) for item in fields.objects("vgpus")),
        seed=_seed(fields.object("seed")),
        firmware=fields.word("firmware", Firmware),
        tpm=fields.flag("tpm"),
    )
    if machine.end <= machine.start:
        raise fields.wrong("end", "Send an end after the start.")
    fields.done()
    return machine


def _vgpu(fields: Fields) -> WantedVGPU:
    regime = fields.word("regime", Regime)
    place = _place(fields, regime)
    vgpu = WantedVGPU(
        uuid=fields.uuid("uuid"),
        gpu=place.gpu,
        type=fields.text("type", TYPE, TYPE_REMEDY),
        regime=regime,
        cell=place.cell,
        handle=place.handle,
        slot=place.slot,
        alternatives=tuple(_alternative(item, regime) for item in fields.objects("alternatives")),
    )
    fields.done()
    return vgpu


def _alternative(fields: Fields, regime: Regime) -> Place:
    place = _place(fields, regime)
    fields.done()
    return place


def _place(fields: Fields, regime: Regime) -> Place:
    """Where on which card; only a whole GPU has no cell."""
    place = Place(
        gpu=_gpu(fields),
        cell=fields.maybe("cell", lambda key: _range(fields, key)),
        handle=fields.maybe("handle", lambda key: fields.whole(key, 0, 65535)),
        slot=_range(fields, "slot"),
    )
    if (place.cell is None) != (regime is Regime.WHOLE):
        raise fields.wrong("cell", "Send null for the whole GPU, and [first, end] in every other regime.")
    return place


def _gpu(fields: Fields) -> str:
    return fields.text("gpu", ADDRESS, "Send a PCI address as sysfs writes it, like 0000:3b:00.0.")


def _range(fields: Fields, key: str) -> Cell | Slot:
    """`[first, end)`."""
    match fields.take(key):
        case [int(first), int(end)] if not isinstance(first, bool) and not isinstance(end, bool) and 0 <= first < end:
            return first, end
    raise fields.wrong(key, "Send two whole numbers [first, end] with first < end.")


def _seed(fields: Fields) -> Seed:
    seed = Seed(
        owner=fields.line("owner", 200),
        user=fields.text("user", LOGIN, "Send a log-in name: small letters, digits, _ and -, at most 32."),
        password_hash=fields.text("password_hash", CRYPT, "Send a crypt hash like $6$salt$…, never a password."),
        ssh_keys=fields.lines("ssh_keys", 16384),
        period=fields.line("period", 200),
        vgpu=fields.line("vgpu", 200),
        licence=fields.maybe("licence", lambda key: _licence(fields, key)),
    )
    fields.done()
    return seed


def _licence(fields: Fields, key: str) -> int:
    number = fields.whole(key, min(LICENCES), max(LICENCES))
    if number not in LICENCES:
        raise fields.wrong(key, f"Send one of {', '.join(map(str, LICENCES))}, or null.")
    return number


def _only_once(what: str, uuids: Iterable[str]) -> None:
    seen: set[str] = set()
    for uuid in uuids:
        if uuid in seen:
            raise bad_input(f"The {what} {uuid} is listed twice.", f"List each {what} once.")
        seen.add(uuid)
