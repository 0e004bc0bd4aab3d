"""UEFI, Secure Boot and a TPM for real: they start and stop, keep what is theirs, and a purge leaves nothing."""

from __future__ import annotations

from pathlib import Path

from tests.vmctl.real.place import Json, Place, until
from vmctl.machine.storage import TPM_STATES

MARK = b"not anew"


def programs_of(place: Place, name: str) -> list[str]:
    """What runs for a machine: QEMU, and the program that plays its TPM."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_bytes() if folder.name.isdigit() else b""
        except OSError:
            continue
        program = Path(words.split(b"\0")[0].decode()).name
        if place.uuid(name).encode() in words and program.startswith(("qemu", "swtpm")):
            found.append(program)
    return sorted(found)


def off(place: Place, wanted: Json) -> None:
    """Switch it off: without a guest nobody hears the power button."""
    place.apply(wanted | {"order": "stop", "force_at": wanted["start"]}, confirmed_stops=[wanted["machine"]])


def started(place: Place, wanted: Json) -> Path:
    """Start it; answers where its variables lie."""
    answer = place.apply(wanted)
    assert (answer.status, answer.errors) == (0, {}), answer.document["steps"]
    return place.storage / place.uuid("a") / f"nvram-{wanted['firmware']}.fd"


def secure(place: Place) -> str | None:
    loader = place.xml("a").find("os/loader")
    assert loader is not None
    return loader.get("secure")


def test_a_machine_boots_by_uefi(place: Place) -> None:
    wanted = place.machine("a", memory_mib=256, firmware="uefi")
    nvram = started(place, wanted)
    fresh = nvram.read_bytes()
    assert (secure(place), programs_of(place, "a")) == (None, ["qemu-system-x86_64"])
    until(lambda: nvram.read_bytes() != fresh, 60)  # its firmware has run
    off(place, wanted)
    assert (place.domains(), place.files("a")) == ({}, ["disk.qcow2", nvram.name])


def test_with_secure_boot_and_a_tpm_it_keeps_what_is_its_own_and_a_purge_leaves_nothing(place: Place) -> None:
    wanted = place.machine("a", memory_mib=256, firmware="uefi-secure", tpm=True)
    nvram, tpm = started(place, wanted), TPM_STATES / place.uuid("a")
    assert (secure(place), programs_of(place, "a")) == ("yes", ["qemu-system-x86_64", "swtpm"])
    off(place, wanted)
    assert (place.domains(), programs_of(place, "a"), place.files("a")) == ({}, [], ["disk.qcow2", nvram.name])

    kept, state = nvram.read_bytes()[: -len(MARK)] + MARK, tpm.stat().st_ino
    nvram.write_bytes(kept)  # as if the firmware had kept something: an emulated one needs half a minute for that
    assert place.apply(wanted).errors == {}
    assert (nvram.read_bytes()[-len(MARK) :], tpm.stat().st_ino) == (MARK, state)  # nobody began anew
    off(place, wanted)
    purged = place.apply(purge=[place.uuid("a")])
    assert (purged.kinds, place.files("a"), tpm.exists()) == (["purge"], [], False)
