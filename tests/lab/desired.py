"""What a portal may want of the lab host: machines with a share made in each way, and how vmctl there answers."""

from __future__ import annotations

import json
import shlex
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.lab import board, leaks
from tests.lab.findings import Findings
from tests.lab.machine import Lab

PORTAL = "11111111-1111-4111-8111-111111111111"
HOST = "lab"
APPLY_SECONDS = 240.0  # of an apply, seen from here; its own limits end it earlier
LOOK_SECONDS = 120.0
PATIENCE = 600.0
"""Seconds until something is so that takes a few applies; a twentieth of it on an idle machine."""

IMAGE = "halts"
"""A disk from which a machine boots to a halt for good: it leaves the processors to the tests."""
IMAGES = "/var/lib/tessera/images"
CARDS, PARAMETERS = "/sys/bus/pci/devices", "/sys/module/nvidia/parameters"

Json = dict[str, Any]


@dataclass(frozen=True)
class Way:
    """How a share is made: on which card, of which type, and where on the card the n-th one lies."""

    name: str
    gpu: str
    type: str
    regime: str = "equal"

    def __str__(self) -> str:
        return self.name

    def share(self, number: int = 0) -> Json:
        """The n-th share of this kind, with an identity of its own."""
        whole = self.regime == "whole"
        return {
            "uuid": str(uuid.uuid4()),
            "gpu": self.gpu,
            "type": self.type,
            "regime": self.regime,
            "cell": None if whole else [number, number + 1],
            "handle": None if whole else number,
            "slot": [0, 1],
            "alternatives": [],
        }


ON_CARD = Way("mediated device on the card", "0000:04:00.0", "T4-4Q")
ON_FUNCTION = Way("mediated device on a virtual function", "0000:01:00.0", "A40-8Q")
VENDOR = Way("vendor's VFIO interface", "0000:06:00.0", "L40S-8Q")
WHOLE = Way("whole card", "0000:05:00.0", "Tesla T4", "whole")
NOT_VIABLE = Way("whole card in a shared group", "0000:03:02.0", "Tesla V100-PCIE-32GB", "whole")
CUT = (ON_CARD, ON_FUNCTION, VENDOR)
"""The ways in which a card is cut."""
MEDIATED = (ON_CARD, ON_FUNCTION)
ALL = (*CUT, WHOLE)


def machine(way: Way | None = None, number: int = 0, **other: Any) -> Json:
    """A machine that should run for an hour from now, with the n-th share of a way."""
    now = datetime.now(UTC)
    identity = str(uuid.uuid4())
    return {
        "machine": identity,
        "reservation": str(uuid.uuid4()),
        "order": "run",
        "start": now.isoformat(),
        "end": (now + timedelta(hours=1)).isoformat(),
        "promised": None,
        "force_at": None,
        "hostname": f"ada-{identity[:4]}",
        "vcpus": 1,
        "memory_mib": 64,
        "disk_gib": 1,
        "image": IMAGE,
        "vgpus": [] if way is None else [way.share(number)],
        "seed": {
            "owner": "ada",
            "user": "user",
            "password_hash": "$6$salt$abcdefghijklmnopqrstuvwxyz./ABCDEFGHIJ",
            "ssh_keys": [],
            "period": "one hour from now",
            "vgpu": "none" if way is None else way.type,
            "licence": None,
        },
        "firmware": "bios",
        "tpm": False,
    } | other


@dataclass(frozen=True)
class Answer:
    """What an apply answered: a report, or the error that kept it from one."""

    document: Json

    @property
    def errors(self) -> list[Json]:
        """The errors of its steps, but for those that only wait for another step or for the next apply."""
        if "error" in self.document:
            return [self.document["error"]]
        found = [step["error"] for step in self.document["steps"] if step["error"]]
        return [error for error in found if error["code"] != "later"]

    def of(self, machine: str) -> Json:
        """What a machine's step ran into; empty: into nothing."""
        found = [step["error"] for step in self.document.get("steps", ()) if step["machine"] == machine]
        return next((dict(error) for error in found if error and error["code"] != "later"), {})

    @property
    def words(self) -> str:
        """What a person reads of it: every error's sentence and remedy."""
        return "\n".join(map(words_of, self.errors))

    @property
    def running(self) -> set[str]:
        return {each["machine"] for each in self.document.get("machines", ()) if each["state"] == "running"}

    @property
    def shares(self) -> dict[str, str]:
        """The devices of all shares that are there, by their uuid."""
        return {each["uuid"]: each["device"] for each in self.document.get("vgpus", ())}

    def device(self, wish: Json) -> str:
        """The folder in sysfs of a machine's share."""
        device = self.shares[wish["vgpus"][0]["uuid"]]
        return f"/sys/bus/{'pci' if ':' in device else 'mdev'}/devices/{device}"


def words_of(error: Json) -> str:
    """An error as a person reads it."""
    return f"{error['what']} {error['remedy']}" if error else ""


@dataclass
class Caller:
    """Calls vmctl in a lab as its administrator, in the name of one portal."""

    lab: Lab
    wishes: list[Json] = field(default_factory=list)
    purge: list[str] = field(default_factory=list)
    generation: int = 0

    def want(self, *wishes: Json) -> Answer:
        """Apply these machines and no others; disks of those that are not wanted any more are to go."""
        names = {wish["machine"] for wish in wishes}
        self.purge = [*{*self.purge, *(wish["machine"] for wish in self.wishes)} - names]
        self.wishes = list(wishes)
        return self.again()

    def again(self) -> Answer:
        """Apply the same once more."""
        return Answer(self.call("apply", self.document(), limit=APPLY_SECONDS))

    def until(self, what: str, so: Callable[[Answer], bool], answer: Answer | None = None) -> Answer:
        """Apply the same as a portal does, again and again, until the answer is so; a busy host may need some.

        `answer`: one that came already.
        """
        limit = time.monotonic() + PATIENCE
        answer = answer or self.again()
        while not so(answer):
            assert time.monotonic() < limit, f"not within {PATIENCE:g} s: {what}\n{answer.words}"
            answer = self.again()
        return answer

    def until_running(self, *wishes: Json) -> Answer:
        """Want these and get them all."""
        return self.until_back(self.want(*wishes))

    def until_back(self, answer: Answer | None = None) -> Answer:
        """Have all that is wanted."""
        names = {wish["machine"] for wish in self.wishes}
        return self.until("all run", lambda answer: names <= answer.running and not answer.errors, answer)

    def until_told(self, told: Mapping[str, Sequence[str]], answer: Answer | None = None) -> Answer:
        """Have it said of each of these machines why it does not run, in these words."""

        def are_told(answer: Answer) -> bool:
            return all(word in words_of(answer.of(name)) for name, words in told.items() for word in words)

        return self.until(f"{told} are told", are_told, answer)

    def until_gone(self) -> None:
        """Want nothing, and wait for no guest: whatever runs is switched off, and nothing is left of it."""
        now = datetime.now(UTC).isoformat()
        self.purge = [*{*self.purge, *(wish["machine"] for wish in self.wishes)}]
        self.wishes = [wish | {"order": "stop", "force_at": now} for wish in self.wishes]
        self.until("nothing runs", lambda answer: not answer.errors and not answer.running)
        self.wishes = []
        self.until("nothing is left", lambda answer: not answer.errors and not answer.shares)

    def document(self) -> Json:
        """The desired state of the next call."""
        self.generation += 1
        return {
            "schema": 1,
            "portal": PORTAL,
            "host": HOST,
            "generation": self.generation,
            "stop_grace_seconds": 1,
            "expire_allowance_seconds": 900,
            "confirmed_stops": [],
            "purge": self.purge,
            "machines": self.wishes,
            "cards": [],
        }

    def call(self, verb: str, given: Json | None = None, *, limit: float = LOOK_SECONDS) -> Json:
        """The document that vmctl prints, whatever its exit status."""
        entered = "" if given is None else shlex.quote(json.dumps(given))
        printed = self.lab.shell(f"printf %s {entered} | {VMCTL} {verb} --json 2>/tmp/said || true", limit=limit)
        assert printed.startswith("{"), f"vmctl {verb} printed {printed!r}: {self.lab.shell('cat /tmp/said')}"
        return dict(json.loads(printed))

    def findings(self) -> Findings:
        """What the doctor finds."""
        return Findings(tuple(self.call("check")["findings"]))

    # -- the driver's faults

    def fault(self, **parameters: int) -> None:
        """Have the driver go wrong in these ways from now on; 0: not in this one."""
        self.lab.shell("\n".join(f"echo {value} >{PARAMETERS}/{name}" for name, value in parameters.items()))

    def heal(self) -> None:
        """End every fault of the driver."""
        self.fault(fail_create=0, fail_open=0, slow_create_ms=0)

    @contextmanager
    def lost(self, *cards: str) -> Iterator[None]:
        """As long as this lasts, cards have fallen off the bus."""
        self._lose(cards, 1)
        try:
            yield
        finally:
            self._lose(cards, 0)

    def _lose(self, cards: Collection[str], value: int) -> None:
        self.lab.shell("\n".join(f"echo {value} >{CARDS}/{card}/lab/lost" for card in cards))


VMCTL = f"/usr/local/bin/vmctl --host {HOST}"
PREPARE = f"""
cd {IMAGES}
if [ ! -e {IMAGE}.qcow2 ]; then
    truncate -s 1M /tmp/halts
    printf '\\372\\364' | dd of=/tmp/halts conv=notrunc status=none
    printf '\\125\\252' | dd of=/tmp/halts bs=1 seek=510 conv=notrunc status=none
    qemu-img convert -f raw -O qcow2 /tmp/halts {IMAGE}.qcow2
fi
for vfs in {CARDS}/*/lab/vfs; do
    [ $(cat $vfs) != 0 ] || echo {board.FUNCTIONS} >$vfs
done
"""
"""The image (cli and hlt in a boot sector), and all virtual functions, which take a busy host a while."""


@contextmanager
def clean(lab: Lab) -> Iterator[Caller]:
    """A caller who leaves nothing behind: no fault, no machine, and nothing of what it took to make one.

    So the lab need not be put back for the next one; where something went wrong it is.
    """
    try:
        lab.shell(PREPARE)
        before = leaks.look(lab)
        caller = Caller(lab)
        yield caller
        caller.heal()
        caller.until_gone()
        assert leaks.left(before, leaks.look(lab)) == []
    except BaseException:
        lab.reset()
        raise
