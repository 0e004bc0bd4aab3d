"""Good hosts with any files missing, empty, unreadable or garbled: a finding or `unknown`, never a traceback, and
never less than there is without a word.

Each host is a folder with its commands' answers, so that those are spoilt, too. Tests may run as root, who may read
all: what cannot be read is a folder where a file was, or a link that leads nowhere or in a circle.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.vmctl.test_copied import LINES
from vmctl import checks, gpus, observe
from vmctl.answers import cards as cards_report
from vmctl.answers import catalogue
from vmctl.card import GPU, Unknown
from vmctl.checks.look import COMMANDS, SMI, Libvirt, Look
from vmctl.copied import COMMANDS as FOLDER
from vmctl.copied import copied, file_name
from vmctl.errors import VmctlError
from vmctl.gpus.driver import facts
from vmctl.host import Host
from vmctl.hypervisor import connect
from vmctl.model import WantedVGPU
from vmctl.observation import Whose
from vmctl.simulate import SimulatedHost, prepare
from vmctl.site import Site

LAYOUTS = ("t4", "l40s", "a100-mig", "a40-mixed", "flex", "gvtg")
UUID = "00000000-0000-4000-8000-00000000aaaa"
STATE = Path("/state")
GARBLED = (b"\xff\xfe\x00", b"?\n", b"garbled text\n", b"-1\n", b"\n", b"N/A\n" * 400, b"{", b"0x\n")


def garbled(path: Path) -> None:
    path.write_bytes(GARBLED[sum(map(ord, path.name)) % len(GARBLED)])


KINDS: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: None,
    "empty": Path.touch,
    "a folder": Path.mkdir,
    "leads nowhere": lambda path: path.symlink_to("nowhere"),
    "a circle": lambda path: path.symlink_to(path.name),
    "garbled": garbled,
}


UNLISTED = ("empty", "garbled", "a circle")
"""What is done to folders: they cannot be listed. One that is gone, or has nothing in it, may have been so."""


@dataclass(frozen=True)
class Good:
    """A host as it is before anything is spoilt, and what can be spoilt."""

    host: Host
    site: Site
    cards: tuple[GPU, ...]
    damages: tuple[tuple[Path, str], ...]


@pytest.fixture(scope="module")
def room() -> Iterator[Callable[[str], Good]]:
    """Good hosts by layout, each made once, in memory."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        yield cache(lambda layout: made(Path(folder), layout))


def made(folder: Path, layout: str) -> Good:
    """A host of a layout with a share on it, and what its commands say."""
    root = folder / layout
    prepare(root, layout)
    live = SimulatedHost("sim", root=root, state_dir=root / "state")
    (gpu, *_) = gpus.inventory(live)
    if gpu.types:
        kind = gpu.types[0]
        wish = WantedVGPU(UUID, gpu.address, kind.name, kind.regime, kind.free_cells[0], handle=0)
        gpus.provide(live, wish)
    (root / FOLDER).mkdir()
    for line in {*LINES, *COMMANDS, SMI}:
        if line.startswith(("nvidia-smi", "dmesg", "systemctl")):
            record(live, line.split(), root / FOLDER)
    host = copied("sim", root, STATE)
    site = Site(host, "test:///default", folder / "storage", folder / "images", folder / "run", "default")
    parts = [root / name for name in ("sys", "proc/driver", "proc/interrupts", "state", FOLDER)]
    paths = [path for part in parts for path in sorted(part.rglob("*")) if not path.is_symlink()]
    damages = [(path, kind) for path in paths for kind in (UNLISTED if path.is_dir() else KINDS)]
    return Good(host, site, tuple(gpus.inventory(host)), tuple(damages))


def record(live: Host, command: list[str], folder: Path) -> None:
    try:
        answer = live.run(command)
    except VmctlError:
        return
    (folder / file_name(command)).write_text(answer.output)
    (folder / f"{file_name(command)}.status").write_text(str(answer.status))


@contextmanager
def spoilt(good: Good, damages: Sequence[tuple[Path, str]]) -> Iterator[None]:
    """Spoil these paths, and put everything back."""
    undo: list[tuple[Path, Path]] = []
    with tempfile.TemporaryDirectory(dir=good.host.root.parent) as aside:
        for path, kind in damages:
            if os.path.lexists(path):
                kept = Path(aside) / str(len(undo))
                path.rename(kept)
                undo.append((path, kept))
                KINDS[kind](path)
        try:
            yield
        finally:
            for path, kept in reversed(undo):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
                kept.rename(path)


def told_less(good: Good, cards: Sequence[GPU], whole: bool) -> Iterator[str]:
    """What the damaged host has less of than the good one, without a word about it."""
    seen = {gpu.address: gpu for gpu in cards}
    for before in good.cards:
        after = seen.get(before.address)
        if after is None:
            if whole:
                yield f"{before.address} is gone"
            continue
        gaps = {gap.what for gap in after.unknown}
        if len(after.types) < len(before.types) and not any(gap.split(".")[0] in ("types", "mig") for gap in gaps):
            yield f"{before.address} offers {len(after.types)} types instead of {len(before.types)}: {gaps}"
        shares = {share.device for share in before.holders} - {share.device for share in after.holders}
        if shares and gpus.HOLDERS not in gaps:
            yield f"{before.address} has no {shares}: {gaps}"
        yield from misled(before, after, gaps)
        if before.vfs is not None and after.vfs is None and "vfs" not in gaps:
            yield f"{before.address} has no virtual functions: {gaps}"


def misled(before: GPU, after: GPU, gaps: Collection[str]) -> Iterator[str]:
    """What the types of a card promise less than there is without a word about them, or more than there is."""
    known = {kind.driver_id: kind for kind in before.types}  # one that lost its name goes by its number
    everywhere = {"types", "mig", "mixed", gpus.HOLDERS} & set(gaps)
    if after.handles is None and "handles" not in gaps:
        yield f"{before.address} takes nobody knows how many"
    for kind in after.types:
        good = known.get(kind.driver_id)
        if good is None:
            yield f"{before.address} offers {kind.name}, which it does not"
            continue
        named = everywhere or any(gap.startswith(f"types.{kind.name}.") for gap in gaps)
        if (kind.free is None or kind.free < (good.free or 0)) and not named:
            yield f"{kind.name} on {before.address} has room for {kind.free} instead of {good.free}: {gaps}"
        if (kind.max is None or kind.max < (good.max or 0)) and not named:
            yield f"{kind.name} on {before.address} fits {kind.max} times instead of {good.max}: {gaps}"
        if kind.free is not None and kind.free > (good.free or 0):
            yield f"{kind.name} on {before.address} has room for {kind.free}, more than {good.free}"
        if not set(kind.free_cells) <= set(good.free_cells):
            yield f"{kind.name} on {before.address} has free {kind.free_cells}, more than {good.free_cells}"


def examine(good: Good) -> list[str]:
    """Look at the host by every verb; what it has less of without a word."""
    try:
        told = facts.read(good.host)
        cards: tuple[GPU, ...] | VmctlError = tuple(gpus.inventory(good.host, told))
        doubts = gpus.doubtful(good.host)
    except VmctlError as error:
        cards, told, doubts = error, {}, []
    answers: dict[str, object] = {"GPUs": cards if isinstance(cards, VmctlError) else (cards, told)}
    answers["libvirt"] = Libvirt((10, 3, 0))
    for line in (SMI, *COMMANDS):
        try:
            answers[line] = good.host.run(line.split())
        except VmctlError as error:
            answers[line] = error
    findings = checks.examine(Look(good.site, answers))
    assert {finding.id for finding in findings} == {check.id for check in checks.CHECKS}
    if isinstance(cards, VmctlError):
        return []
    now = good.host.now()
    catalogue.types_json("sim", now, False, cards, doubts)
    cards_report.gpus_json("sim", now, False, cards, Whose({}, frozenset()), doubts)
    return list(told_less(good, cards, whole=not doubts))


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_host_tells_what_it_lacks(room: Callable[[str], Good], layout: str, data: st.DataObject) -> None:
    good = room(layout)
    damages = data.draw(st.lists(st.sampled_from(good.damages), min_size=1, max_size=6))
    with spoilt(good, damages):
        assert examine(good) == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_good_host_lacks_nothing(room: Callable[[str], Good], layout: str) -> None:
    good = room(layout)
    assert examine(good) == []
    assert good.cards
    assert [share.uuid for gpu in good.cards for share in gpu.holders] in ([UUID], [])


@pytest.mark.parametrize("layout", ["t4", "l40s"])
def test_the_damage_would_be_seen(room: Callable[[str], Good], layout: str) -> None:
    """The control: a host that leaves out a card, its types and its shares in silence does not pass."""
    good = room(layout)
    assert list(told_less(good, [], whole=True))
    bare = [GPU(gpu.address, gpu.model, gpu.vendor, gpu.device, gpu.framework) for gpu in good.cards]
    assert len(list(told_less(good, bare, whole=True))) >= len(good.cards) + 1


@pytest.mark.parametrize("told", [{"free": 99}, {"free": 0}, {"free": None}, {"max": None}, {"free_cells": ((9, 10),)}])
def test_the_damage_to_a_number_would_be_seen(room: Callable[[str], Good], told: dict[str, Any]) -> None:
    """The control: a gap about something else excuses nothing."""
    (first, *others) = room("t4").cards
    wrong = replace(first, types=tuple(replace(kind, **told) for kind in first.types))
    gap = Unknown(f"types.{first.types[0].name}-not-this.free", "Something else.")
    assert list(told_less(room("t4"), [replace(wrong, unknown=(gap,)), *others], whole=True))


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_observe_sees_a_damaged_hosts_gpus_or_says_why_not(
    room: Callable[[str], Good], layout: str, data: st.DataObject
) -> None:
    good = room(layout)
    damages = data.draw(st.lists(st.sampled_from(good.damages), min_size=1, max_size=4))
    with spoilt(good, damages), connect(good.site.libvirt_uri) as hypervisor:
        try:
            seen = observe.observe(good.site, hypervisor, None, good.host.now())
        except VmctlError:
            return
        assert list(told_less(good, seen.gpus, whole=not seen.unknown)) == []
