"""What is refused, and what a start that fails leaves: nothing but the way to try again."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable

import pytest

from tests.vmctl.real.place import Place, libvirt_uri
from vmctl import cli


@pytest.mark.field("A18")
def test_a_machine_is_never_put_to_sleep(running: Place) -> None:
    """vmctl has no verb for it, libvirt's own are refused, and the guest is not offered any."""
    place = running
    for verb in (("managedsave",), ("dompmsuspend", "--target", "mem"), ("dompmsuspend", "--target", "disk")):
        words = [verb[0], place.uuid("a"), *verb[1:]]
        done = subprocess.run(
            ["virsh", "-q", "-c", libvirt_uri(), *words], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 1, words
        assert done.stderr
    offered = place.xml("a").findall("pm/*")
    assert {(each.tag, each.get("enabled")) for each in offered} == {
        ("suspend-to-mem", "no"),
        ("suspend-to-disk", "no"),
    }
    assert not {"save", "suspend", "pause"} & {command.name for command in cli.app.registered_commands}
    assert place.observe().states == {place.uuid("a"): "running"}


def no_image(place: Place) -> Callable[[], object]:
    image = place.folder / "images" / "deaf.qcow2"
    aside = image.rename(image.with_name("aside"))
    return lambda: aside.rename(image)


def no_program(name: str) -> Callable[[Place], Callable[[], object]]:
    """Have a command that vmctl runs fail: one of this name stands before it."""

    def break_it(place: Place) -> Callable[[], object]:
        program = place.folder / "programs" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\necho it is broken >&2\nexit 1\n")
        program.chmod(0o755)
        return program.unlink

    return break_it


def no_console(place: Place) -> Callable[[], object]:
    """QEMU cannot make its screen's socket: libvirt undoes the start."""
    folder = place.folder / "run" / "console"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    return folder.rmdir


def no_token(place: Place) -> Callable[[], object]:
    return lambda: put_token(place)


def put_token(place: Place) -> None:
    token = place.folder / "token"
    token.write_text("secret")
    token.chmod(0o600)


STEPS: dict[str, tuple[str, Callable[[Place], Callable[[], object]]]] = {
    "the licence token": ("provide", no_token),
    "the image": ("disk", no_image),
    "the disk": ("disk", no_program("qemu-img")),
    "the filter": ("start", no_program("ip")),
    "the seed": ("start", no_program("xorriso")),
    "the domain": ("start", no_console),
}


@pytest.mark.field("C14")
@pytest.mark.field("A17")
def test_each_step_of_a_start_may_fail_and_the_next_try_gets_further(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VMCTL_LICENCE_TOKEN", str(place.folder / "token"))
    monkeypatch.setenv("PATH", f"{place.folder / 'programs'}:/usr/sbin:/usr/bin:/sbin:/bin")
    wanted = place.with_vgpu("a")
    wanted["seed"] |= {"licence": 1}
    for name, (kind, break_it) in STEPS.items():
        mend = break_it(place)
        failed = place.apply(wanted)
        assert kind in failed.errors, (name, failed.document["steps"])
        assert all(step["error"]["remedy"] for step in failed.document["steps"] if step["error"])
        assert place.domains() == {}
        mend()

    again = place.settle(wanted)
    assert (again.status, again.states) == (0, {place.uuid("a"): "running"}), again.document["steps"]
    assert place.mdevs() == {place.vgpu_uuid("a")}
    assert place.xml("a").find(f"devices/video/alias[@name='ua-tessera-{place.vgpu_uuid('a')}']") is not None
    leave = wanted | {"order": "stop", "force_at": wanted["start"]}
    place.apply(leave, confirmed_stops=[place.uuid("a")], purge=[place.uuid("a")])
    assert (place.domains(), place.mdevs(), place.files("a")) == ({}, set(), [])


def test_the_token_stands_in_no_answer_and_goes_with_the_machine(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    token = place.folder / "token"
    token.write_text("a-secret-of-the-site")
    token.chmod(0o600)
    monkeypatch.setenv("VMCTL_LICENCE_TOKEN", str(token))
    wanted = place.machine("a")
    wanted["seed"] |= {"licence": 2}
    started = place.run("apply", place.desired(wanted))
    assert started.status == 0
    seed = place.storage / place.uuid("a") / "seed.iso"
    assert b"FeatureType" not in seed.read_bytes()  # both stand there in base64
    assert b"ClientConfigToken" in seed.read_bytes()
    assert seed.stat().st_mode & 0o077 == 0
    leave = wanted | {"order": "stop", "force_at": wanted["start"]}
    ended = place.apply(leave, confirmed_stops=[place.uuid("a")])
    assert not seed.exists()
    for answer in (started, ended, place.observe()):
        assert "secret" not in str(answer.document)
    kept = [path for path in (place.folder / place.host / "state").rglob("*") if path.is_file()]
    assert kept
    assert not [path for path in kept if b"secret" in path.read_bytes()]
